"""Old rows of logins and the trail, which the maintenance of the domain deletes."""

from access.logins import invites, sessions, throttle
from access.models import LoginAttempts
from access.trail import entries
from core.database import clocks
from engagement.removal import maintenance


def register() -> None:
    for room in (throttle, entries, sessions, invites):
        maintenance.register_expiry(room.delete_expired)
    clocks.register(LoginAttempts, dict.fromkeys(("failed_at", "succeeded_at"), clocks.NOW))
