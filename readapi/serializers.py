"""Builds the records of the read API. Every key is always present; an unknown value is null."""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, cast

from access.trail.scoring_changes import ScoringChange
from access.work.alarms import ClosedAlarm
from engagement.activity.false_alarms import FalseAlarms
from engagement.activity.product import ProductActivity
from engagement.activity.reading import Activity
from engagement.metric_names import Scope
from engagement.models import Account, AccountNote, AccountWork, ScoreSet, Segment, Workspace
from engagement.models.subjects import Subject
from engagement.rules.rules import Match
from engagement.scopes import ACCOUNTS, USERS, SubjectKind
from engagement.scores import metrics
from engagement.scores.history import DayScore, EventPoints
from engagement.scores.insights import Insight
from engagement.scores.metrics import AccountMetrics, Metrics, shown_benchmark
from engagement.segments.activation import ShownSteps
from engagement.segments.chances import ShownChance, shown_chance
from engagement.segments.counts import SubjectTotals
from engagement.segments.features import FeatureUse
from engagement.tenure import tenure_days
from engagement.traits import canonical_name
from readapi import records
from readapi.links import LinkBuilder

if TYPE_CHECKING:
    from readapi.queries import RankedAccount, RankedUser


def workspace(row: Workspace, product_name: str, links: LinkBuilder) -> records.WorkspaceRecord:
    return {
        "id": row.id,
        "name": row.name,
        "product": {"id": row.product_id, "name": product_name},
        # The lookback of the published scores: an edit takes effect with the new ones.
        "lookback_days": (row.scores or row).lookback_days,
        "half_life_days": (row.scores or row).half_life_days,
        "benchmarks": {"users": _benchmark(row, USERS), "accounts": _benchmark(row, ACCOUNTS)},
        "updated_at": format_time(row.updated_at),
        "_links": {
            "self": links.workspace(row.id),
            "users": links.workspace_list(row.id, "users"),
            "accounts": links.workspace_list(row.id, "accounts"),
            "segments": links.workspace_list(row.id, "segments"),
        },
    }


def product_activity(activity: ProductActivity | None) -> records.ProductActivity | None:
    if activity is None:
        return None
    return {
        "state": activity.state.value,
        "decided_for": activity.day.isoformat(),
        "observed": activity.observed,
        "expected": round(activity.expected, 1),
        "p": activity.p,
    }


def stats(totals: SubjectTotals) -> records.Stats:
    return {
        "total_users": totals.users,
        "total_accounts": totals.accounts,
        "active_users": totals.active_users,
        "active_accounts": totals.active_accounts,
    }


def false_alarms(falling: FalseAlarms, rising: FalseAlarms) -> records.FalseAlarmsRecord:
    return {
        "allowed": falling.allowed,
        **_alarms_of_direction(falling),
        "rising": _alarms_of_direction(rising),
    }


def _alarms_of_direction(counts: FalseAlarms) -> records.AlarmsOfDirection:
    return {
        "measured": None if counts.measured is None else round(counts.measured, 4),
        "came_to_nothing": counts.came_to_nothing,
        "alarms": counts.alarms,
    }


def account_summary(
    row: "RankedAccount",
    workspace: Workspace,
    links: LinkBuilder,
    activity: Activity,
    work: AccountWork,
) -> records.AccountSummary:
    scores = metrics.compute_scores(row, score_set(workspace))
    return {
        **_account_name(row.account_id, row.tracking_id, row.account_name),
        "owner": work.owner or None,
        "tags": sorted(work.tags),
        "activity": _activity(activity, workspace),
        "score": scores.now,
        "score_change": scores.change,
        "score_change_complete_days": scores.complete_change,
        "active_users": row.active_users,
        "last_active_at": _format_time_or_none(row.last_active_at),
        "_links": {"self": links.account(row.account_id, workspace.id)},
    }


def account_record(
    row: "RankedAccount",
    workspace: Workspace,
    links: LinkBuilder,
    activity: Activity,
    work: AccountWork,
    metrics: AccountMetrics | None = None,
    traits: dict[str, Any] | None = None,
    chances: records.LowestChances | None = None,
    closed_alarms: list[records.ClosedAlarmRecord] | None = None,
) -> records.AccountRecord:
    """An account of a list, with the expansions that are given."""
    record = cast(records.AccountRecord, account_summary(row, workspace, links, activity, work))
    if metrics is not None:
        record["metrics"] = _account_metrics(metrics)
    if traits is not None:
        record["traits"] = traits
    if chances is not None:
        record["chances"] = chances
    if closed_alarms is not None:
        record["closed_alarms"] = closed_alarms
    return record


def full_account(
    row: "RankedAccount",
    workspace: Workspace,
    activity: Activity,
    work: AccountWork,
    metrics: AccountMetrics,
    links: LinkBuilder,
) -> records.FullAccount:
    return {
        **account_summary(row, workspace, links, activity, work),
        "metrics": _account_metrics(metrics),
        **_times(row.account, row.account.last_seen_at, score_set(workspace)),
    }


def user_summary(
    row: "RankedUser", workspace: Workspace, links: LinkBuilder
) -> records.UserSummary:
    scores = metrics.compute_scores(row, score_set(workspace))
    return {
        "id": row.user_id,
        "tracking_id": row.tracking_id,
        "email": text_or_none(row.user_email),
        "name": text_or_none(row.user_name),
        "score": scores.now,
        "score_change": scores.change,
        "score_change_complete_days": scores.complete_change,
        "last_active_at": _format_time_or_none(row.last_active_at),
        "account": (
            _account_name(
                row.current_account_id, row.current_account_tracking_id, row.current_account_name
            )
            if row.current_account_id is not None
            else None
        ),
        "_links": {"self": links.user(row.user_id, workspace.id)},
    }


def user_record(
    row: "RankedUser",
    workspace: Workspace,
    links: LinkBuilder,
    metrics: Metrics | None = None,
    traits: dict[str, Any] | None = None,
) -> records.UserRecord:
    """A user of a list, with the expansions that are given."""
    record = cast(records.UserRecord, user_summary(row, workspace, links))
    if metrics is not None:
        record["metrics"] = _metrics(metrics)
    if traits is not None:
        record["traits"] = traits
    return record


def full_user(
    row: "RankedUser", workspace: Workspace, metrics: Metrics, links: LinkBuilder
) -> records.FullUser:
    return {
        **user_summary(row, workspace, links),
        "metrics": _metrics(metrics),
        **_times(row.user, vars(row)["seen_at"], score_set(workspace)),
    }


def hide_user_traits(users: Iterable[Any], hides: bool) -> None:
    """Take the traits out of the records of users, if the token may not read them."""
    if hides:
        for record in users:
            record["email"] = record["name"] = None


def legacy_account(row: "RankedAccount", metrics: AccountMetrics) -> records.LegacySummary:
    """The account as the legacy look-up shows it, without expansions."""
    complete = metrics.scores.complete_change
    return {
        **_account_name(row.account_id, row.tracking_id, row.account_name),
        "metrics": {
            **_account_metrics(metrics),
            "engagement_score": _fraction(metrics.scores.now),
            "score_yesterday": _fraction(metrics.scores.yesterday),
            "score_last_period": _fraction(metrics.scores.last_period),
            "score_change": _fraction(metrics.scores.change),
            "score_change_complete_days": None if complete is None else _fraction(complete),
            "last_seen": format_time(_last_seen(row)),
        },
    }


def segment(row: Segment, links: LinkBuilder) -> records.SegmentRecord:
    return {
        "id": row.pk,
        "name": row.name,
        # The database allows only values of these types.
        "scope": cast(Scope, row.scope),
        "is_default": row.is_default,
        "match": cast(Match, row.match),
        "conditions": row.conditions,
        "_links": {
            "self": links.segment(row.pk, row.workspace_id),
            "members": links.members(row.pk, row.workspace_id),
        },
    }


def segment_name(row: Segment) -> records.SegmentName:
    return {"id": row.pk, "name": row.name}


def event_points(event: EventPoints) -> records.EventPointsRecord:
    return {
        "name": event.name,
        "count": event.count,
        "weight": event.weight,
        "points": event.points,
    }


def day_score(day: DayScore) -> records.DayScoreRecord:
    return {"day": day.day.isoformat(), "score": day.score}


def scoring_change(change: ScoringChange) -> records.ScoringChangeRecord:
    return {
        "day": change.day.isoformat(),
        "changed": list(change.parts),
        "is_suggestion": change.is_suggestion,
    }


def insight(insight: Insight) -> records.InsightRecord:
    return {
        "kind": insight.kind,
        "severity": insight.severity,
        "text": insight.text,
        "numbers": insight.numbers,
    }


def score_set(workspace: Workspace) -> ScoreSet:
    """The score set that the workspace's rows belong to."""
    assert workspace.scores is not None, "A workspace without scores shows no rows."
    return workspace.scores


def traits(subject: Subject, names: list[str] | None = None) -> dict[str, Any]:
    """All traits of the subject, or those in *names*, with null for one that it does not have."""
    if names is None:
        return dict(subject.traits)
    return {name: subject.traits.get(canonical_name(name)) for name in names}


def feature_use(use: FeatureUse) -> records.FeatureUseRecord:
    return {
        "id": use.feature.pk,
        "name": use.feature.name,
        "state": use.state,
        "last_used_on": use.last_used_on.isoformat() if use.last_used_on else None,
    }


def activation(steps: ShownSteps, today: date) -> records.SubjectActivation:
    return {
        "state": steps.state(today),
        "next_step": steps.next_step.name if steps.next_step else None,
        "activated_on": _day(steps.activated_on),
        "steps": [
            {
                "name": step.name,
                "is_done": steps.days[place] is not None,
                "done_on": _day(steps.done_on(place)),
            }
            for place, step in enumerate(steps.steps)
        ],
    }


def _day(day: date | None) -> str | None:
    return day.isoformat() if day else None


def note(row: AccountNote) -> records.NoteRecord:
    return {
        "id": row.pk,
        "author": row.author,
        "text": row.text,
        "written_at": format_time(row.written_at),
    }


def closed_alarm(alarm: ClosedAlarm) -> records.ClosedAlarmRecord:
    return {
        "kind": alarm.kind,
        "since": alarm.since.isoformat(),
        "result": alarm.result,
        "means": alarm.means,
        "closed_at": format_time(alarm.closed_at),
    }


def chances(rows: list[dict[str, Any]]) -> records.LowestChances:
    """*rows* are those of ``engagement.segments.chances.account_chances``."""
    return {
        "chance_to_buy": _chance(shown_chance(rows, "buy")),
        "chance_to_renew": _chance(shown_chance(rows, "renew")),
        "chance_to_stay": _chance(shown_chance(rows, "stay")),
    }


def _chance(chance: ShownChance | None) -> records.LowestChance | None:
    if chance is None:
        return None
    if chance.is_share:
        return {"chance": None, "low": None, "high": None}
    return {
        "chance": chance.percent / 100,
        "low": chance.low / 100,
        "high": chance.high / 100,
    }


def license_event(row: Any, text: str, account: Account | None) -> records.LicenseEventRecord:
    """*account* is None if no account has the event's Cloud ID."""
    return {
        "id": f"{row.license}/{row.type}/{row.anchor}",
        "license": row.license,
        "type": row.type,
        "date": row.date.isoformat(),
        "known_on": row.known_on.isoformat(),
        "text": text,
        "details": row.details,
        "sources": row.sources,
        "account": account_name(account) if account else None,
        "recorded_at": format_time(row.recorded_at),
        "changed_at": format_time(row.changed_at),
        "withdrawn_at": _format_time_or_none(row.withdrawn_at),
    }


def format_time(moment: datetime) -> str:
    """ISO 8601 in UTC with microseconds and ``Z``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _format_time_or_none(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def text_or_none(value: Any) -> str | None:
    """A trait that people read, or None if it is not a string."""
    return value if isinstance(value, str) else None


def account_name(account: Account) -> records.AccountName:
    return _account_name(account.pk, account.external_id, account.name)


def _account_name(account_id: int, tracking_id: str, name: Any) -> records.AccountName:
    return {"id": account_id, "tracking_id": tracking_id, "name": text_or_none(name)}


def _last_seen(row: "RankedAccount") -> datetime:
    """The later of the last message that names the account and its last scored event."""
    message_at, active_at = row.account.last_seen_at, row.last_active_at
    return message_at if active_at is None else max(message_at, active_at)


def _activity(activity: Activity, workspace: Workspace) -> records.ActivityRecord:
    decided_for: date | None = vars(workspace)["decided_for"]
    return {
        "state": activity.state,
        "reason": activity.reason,
        "since": activity.since.isoformat() if activity.since else None,
        "decided_for": decided_for.isoformat() if decided_for else None,
    }


def _benchmark(workspace: Workspace, kind: SubjectKind) -> float | None:
    """With a lookback, one decimal is exact: a 90th percentile lies a whole number of tenths
    between two raw scores, which are integers."""
    benchmark = shown_benchmark(workspace.scores, kind) if workspace.scores else None
    return None if benchmark is None else round(benchmark, 1)


def _fraction(score: float) -> float:
    """A score from 0 to 1. One decimal of a hundred is three decimals of one."""
    return round(score / 100, 3)


def _metrics(metrics: Metrics) -> records.MetricsRecord:
    return {
        "engagement_score": metrics.scores.now,
        "raw_score": metrics.raw_score,
        "percentile": metrics.percentile,
        "score_yesterday": metrics.scores.yesterday,
        "score_last_period": metrics.scores.last_period,
        "score_change": metrics.scores.change,
        "score_change_complete_days": metrics.scores.complete_change,
        "trend": metrics.scores.trend,
        "frequency": metrics.frequency,
        "adoption": metrics.adoption,
        "adoption_all_time": metrics.adoption_all_time,
        "recently_scored_events": metrics.recently_scored_events,
        "overall_scored_events": metrics.overall_scored_events,
        "last_active_at": _format_time_or_none(metrics.last_active_at),
    }


def _account_metrics(metrics: AccountMetrics) -> records.AccountMetricsRecord:
    return {
        **_metrics(metrics),
        "active_users": metrics.active_users,
        "total_users": metrics.total_users,
        "active_share": metrics.active_share,
        "license_utilization": metrics.license_utilization,
    }


def _times(subject: Subject, updated_at: datetime, score_set: ScoreSet) -> records.Times:
    created_at = subject.created_at or subject.first_seen_at
    # Count to the day of the scores, so that the tenure agrees with segments on tenure.
    assert score_set.scored_day is not None, "A published score set has been scored."
    return {
        "first_seen_at": format_time(subject.first_seen_at),
        "created_at": format_time(created_at),
        "tenure_days": tenure_days(created_at, score_set.scored_day),
        # Only a message that names the subject can change it.
        "updated_at": format_time(updated_at),
    }
