"""Records as the read API shows them. Every key is always there; what is unknown is null."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from engagement.metric_names import Scope
from engagement.models import Account, ScoreSet, Segment, Workspace
from engagement.models.subjects import Subject
from engagement.rules.rules import Match
from engagement.scores import metrics
from engagement.scores.history import DayScore, EventPoints
from engagement.scores.insights import Insight
from engagement.scores.metrics import AccountMetrics, Metrics
from engagement.segments.counts import SubjectTotals
from engagement.tenure import tenure_days
from engagement.traits import canonical_name
from readapi import records
from readapi.links import LinkBuilder

if TYPE_CHECKING:
    from readapi.queries import RankedAccount, RankedUser


def workspace(shown: Workspace, product_name: str, links: LinkBuilder) -> records.Workspace:
    return {
        "id": shown.id,
        "name": shown.name,
        "product": {"id": shown.product_id, "name": product_name},
        # Of the scores that are shown: an edit takes effect when they are computed anew.
        "lookback_days": (shown.scores or shown).lookback_days,
        "benchmarks": {
            "users": _benchmark(shown.scores.user_benchmark) if shown.scores else None,
            "accounts": _benchmark(shown.scores.account_benchmark) if shown.scores else None,
        },
        "updated_at": format_time(shown.updated_at),
        "_links": {
            "self": links.workspace(shown.id),
            "users": links.within(shown.id, "users"),
            "accounts": links.within(shown.id, "accounts"),
            "segments": links.within(shown.id, "segments"),
        },
    }


def stats(counted: SubjectTotals) -> records.Stats:
    return {
        "total_users": counted.users,
        "total_accounts": counted.accounts,
        "active_users": counted.active_users,
        "active_accounts": counted.active_accounts,
    }


def account_summary(
    row: "RankedAccount", workspace: Workspace, links: LinkBuilder
) -> records.Account:
    scores = metrics.compute_scores(row, score_set(workspace))
    return {
        "id": row.account_id,
        "tracking_id": row.account.external_id,
        "name": text_or_none(row.account_name),
        "score": scores.now,
        "score_change": scores.change,
        "active_users": row.active_users,
        "last_active_at": _time_if_any(row.last_active_at),
        "_links": {"self": links.account(row.account_id, workspace.id)},
    }


def full_account(
    row: "RankedAccount", workspace: Workspace, known: AccountMetrics, links: LinkBuilder
) -> records.FullAccount:
    return {
        **account_summary(row, workspace, links),
        "metrics": _account_metrics(known),
        **_times(row.account, score_set(workspace)),
    }


def user_summary(row: "RankedUser", workspace: Workspace, links: LinkBuilder) -> records.User:
    scores = metrics.compute_scores(row, score_set(workspace))
    return {
        "id": row.user_id,
        "tracking_id": row.user.external_id,
        "email": text_or_none(row.user_email),
        "name": text_or_none(row.user_name),
        "score": scores.now,
        "score_change": scores.change,
        "last_active_at": _time_if_any(row.last_active_at),
        "account": _current_account(row),
        "_links": {"self": links.user(row.user_id, workspace.id)},
    }


def full_user(
    row: "RankedUser", workspace: Workspace, known: Metrics, links: LinkBuilder
) -> records.FullUser:
    return {
        **user_summary(row, workspace, links),
        "metrics": _metrics(known),
        **_times(row.user, score_set(workspace)),
    }


def legacy_account(row: "RankedAccount", known: AccountMetrics) -> records.LegacyAccount:
    """The account as the legacy look-up shows it, but for what is expanded."""
    return {
        "id": row.account_id,
        "tracking_id": row.account.external_id,
        "name": text_or_none(row.account_name),
        "metrics": {
            **_account_metrics(known),
            "engagement_score": _fraction(known.scores.now),
            "score_yesterday": _fraction(known.scores.yesterday),
            "score_last_period": _fraction(known.scores.last_period),
            "score_change": _fraction(known.scores.change),
            "last_seen": format_time(_seen_or_active(row)),
        },
    }


def segment(shown: Segment, links: LinkBuilder) -> records.Segment:
    return {
        "id": shown.pk,
        "name": shown.name,
        # The database allows no others.
        "scope": cast(Scope, shown.scope),
        "is_default": shown.is_default,
        "match": cast(Match, shown.match),
        "conditions": shown.conditions,
        "_links": {
            "self": links.segment(shown.pk, shown.workspace_id),
            "members": links.members(shown.pk, shown.workspace_id),
        },
    }


def segment_name(shown: Segment) -> records.SegmentName:
    return {"id": shown.pk, "name": shown.name}


def event_points(event: EventPoints) -> records.EventPoints:
    """What an event name adds to the raw score: points are count times weight."""
    return {
        "name": event.name,
        "count": event.count,
        "weight": event.weight,
        "points": event.points,
    }


def day_score(day: DayScore) -> records.DayScore:
    return {"day": day.day.isoformat(), "score": day.score}


def insight(found: Insight) -> records.Insight:
    return {
        "kind": found.kind,
        "severity": found.severity,
        "text": found.text,
        "numbers": found.numbers,
    }


def score_set(workspace: Workspace) -> ScoreSet:
    """The set of scores that the workspace's rows are of."""
    assert workspace.scores is not None, "A workspace without scores shows no rows."
    return workspace.scores


def traits(subject: Subject, names: list[str] | None = None) -> dict[str, Any]:
    """All traits, or those named, with null for a name that the subject has no trait of."""
    if names is None:
        return dict(subject.traits)
    return {name: subject.traits.get(canonical_name(name)) for name in names}


def format_time(moment: datetime) -> str:
    """ISO 8601 in UTC with microseconds and ``Z``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _time_if_any(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def text_or_none(value: Any) -> str | None:
    """A trait that people read; anything but a text names nobody."""
    return value if isinstance(value, str) else None


def _seen_or_active(row: "RankedAccount") -> datetime:
    """When a message last named the account, or when somebody last did a scored event there."""
    named, active = row.account.last_seen_at, row.last_active_at
    return named if active is None else max(named, active)


def _benchmark(raw_score: float | None) -> float | None:
    """A 90th percentile lies at a whole number of tenths between two raw scores, which are
    integers: one decimal is exact."""
    return None if raw_score is None else round(raw_score, 1)


def _fraction(score: float) -> float:
    """A score from 0 to 1: one decimal of a hundred is three of one."""
    return round(score / 100, 3)


def _current_account(row: "RankedUser") -> records.AccountName | None:
    account: Account | None = row.user.account
    if account is None or not account.is_identified:
        return None
    return {
        "id": account.id,
        "tracking_id": account.external_id,
        "name": text_or_none(row.current_account_name),
    }


def _metrics(known: Metrics) -> records.Metrics:
    return {
        "engagement_score": known.scores.now,
        "raw_score": known.raw_score,
        "percentile": known.percentile,
        "score_yesterday": known.scores.yesterday,
        "score_last_period": known.scores.last_period,
        "score_change": known.scores.change,
        "trend": known.scores.trend,
        "frequency": known.frequency,
        "adoption": known.adoption,
        "adoption_all_time": known.adoption_all_time,
        "recently_scored_events": known.recently_scored_events,
        "overall_scored_events": known.overall_scored_events,
        "last_active_at": _time_if_any(known.last_active_at),
    }


def _account_metrics(known: AccountMetrics) -> records.AccountMetrics:
    return {
        **_metrics(known),
        "active_users": known.active_users,
        "total_users": known.total_users,
        "active_share": known.active_share,
        "license_utilization": known.license_utilization,
    }


def _times(subject: Subject, score_set: ScoreSet) -> records.Times:
    created = subject.created_at or subject.first_seen_at
    # Of the day that the scores are of, so that the age agrees with the segments that ask for it.
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    return {
        "first_seen_at": format_time(subject.first_seen_at),
        "created_at": format_time(created),
        "tenure_days": tenure_days(created, score_set.scored_day),
        # The last message that named the subject is the last that could change it.
        "updated_at": format_time(subject.last_seen_at),
    }
