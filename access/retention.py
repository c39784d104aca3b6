"""How long rows of logins and the trail are kept. The maintenance of the domain deletes them."""

from datetime import timedelta

from django.conf import settings
from django.contrib.sessions.models import Session

from access.logins import invites
from access.models import Invite, LoginAttempts, LoginSession, TrailEntry
from core import retention
from core.database import clocks
from core.retention import Retention, days

# The trigger accepts no other deletion, and of no entry that is younger than 30 days.
_TRAIL_PERMISSION = "SELECT set_config('eds.trail_retention', 'on', true)"


def register() -> None:
    retention.register(
        "engagement",
        Retention(LoginAttempts, "keep_until", timedelta),
        Retention(Session, "expire_date", timedelta),
        Retention(TrailEntry, "at", days("TRAIL_RETENTION_DAYS"), permission=_TRAIL_PERMISSION),
        Retention(
            LoginSession, "created_at", lambda: timedelta(seconds=settings.SESSION_COOKIE_AGE)
        ),
        Retention(Invite, "expires_at", lambda: invites.RETENTION),
    )
    clocks.register(LoginAttempts, dict.fromkeys(("failed_at", "succeeded_at"), clocks.NOW))
