"""Records as the read API shows them. Every key is always there; what is unknown is null."""

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from engagement.models import Account, Workspace
from engagement.models.scores import Engagement
from engagement.models.subjects import Subject
from engagement.scoring import score
from engagement.tenure import created_at, tenure_days
from engagement.traits import canonical_name
from readapi.links import Links
from readapi.queries import Stats

if TYPE_CHECKING:
    from readapi.queries import RankedAccount, RankedUser

Record: TypeAlias = dict[str, Any]


def workspace(shown: Workspace, product_name: str, links: Links) -> Record:
    return {
        "id": shown.id,
        "name": shown.name,
        "product": {"id": shown.product_id, "name": product_name},
        "lookback_days": shown.lookback_days,
        "benchmarks": {"users": shown.user_benchmark, "accounts": shown.account_benchmark},
        "updated_at": time(shown.updated_at),
        "_links": {
            "self": links.workspace(shown.id),
            "users": links.within(shown.id, "users"),
            "accounts": links.within(shown.id, "accounts"),
            "segments": links.within(shown.id, "segments"),
        },
    }


def stats(counted: Stats) -> Record:
    return {
        "total_users": counted.total_users,
        "total_accounts": counted.total_accounts,
        "active_users": counted.active_users,
        "active_accounts": counted.active_accounts,
    }


def lean_account(row: "RankedAccount", workspace: Workspace, links: Links) -> Record:
    return {
        "id": row.account_id,
        "tracking_id": row.account.external_id,
        "name": text(row.account_name),
        "score": shown_score(row.raw, workspace.account_benchmark),
        "score_change": None,
        "active_users": row.active_users,
        "last_active_at": time(row.last_active_at),
        "_links": {"self": links.account(row.account_id, workspace.id)},
    }


def full_account(row: "RankedAccount", workspace: Workspace, links: Links, today: date) -> Record:
    return {
        **lean_account(row, workspace, links),
        "metrics": {
            **_metrics(row, workspace.account_benchmark),
            "active_users": row.active_users,
            "total_users": None,
            "active_share": None,
            "license_utilization": None,
        },
        **_times(row.account, today),
    }


def lean_user(row: "RankedUser", workspace: Workspace, links: Links) -> Record:
    return {
        "id": row.user_id,
        "tracking_id": row.user.external_id,
        "email": text(row.user_email),
        "name": text(row.user_name),
        "score": shown_score(row.raw, workspace.user_benchmark),
        "score_change": None,
        "last_active_at": time(row.last_active_at),
        "account": _current_account(row),
        "_links": {"self": links.user(row.user_id, workspace.id)},
    }


def full_user(row: "RankedUser", workspace: Workspace, links: Links, today: date) -> Record:
    return {
        **lean_user(row, workspace, links),
        "metrics": _metrics(row, workspace.user_benchmark),
        **_times(row.user, today),
    }


def traits(subject: Subject, names: list[str] | None = None) -> Record:
    """All traits, or those named, with null for a name that the subject has no trait of."""
    if names is None:
        return dict(subject.traits)
    return {name: subject.traits.get(canonical_name(name)) for name in names}


def time(moment: datetime | None) -> str | None:
    """ISO 8601 in UTC with microseconds and ``Z``."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def shown_score(raw: int, benchmark: float | None) -> float:
    return round(score(raw, benchmark), 1)


def text(value: Any) -> str | None:
    """A trait that people read; anything but a text names nobody."""
    return value if isinstance(value, str) else None


def _current_account(row: "RankedUser") -> Record | None:
    account: Account | None = row.user.account
    if account is None or not account.is_identified:
        return None
    return {
        "id": account.id,
        "tracking_id": account.external_id,
        "name": text(row.current_account_name),
    }


def _metrics(row: Engagement, benchmark: float | None) -> Record:
    return {
        "engagement_score": shown_score(row.raw, benchmark),
        "raw_score": row.raw,
        "percentile": None,
        "score_yesterday": None,
        "score_last_period": None,
        "score_change": None,
        "trend": None,
        "frequency": row.active_days,
        "adoption": None,
        "adoption_all_time": None,
        "recently_scored_events": row.event_count,
        "overall_scored_events": None,
        "last_active_at": time(row.last_active_at),
    }


def _times(subject: Subject, today: date) -> Record:
    created = created_at(subject.traits, subject.first_seen_at)
    return {
        "first_seen_at": time(subject.first_seen_at),
        "created_at": time(created),
        "tenure_days": tenure_days(created, today),
        # The last message that named the subject is the last that could change it.
        "updated_at": time(subject.last_seen_at),
    }
