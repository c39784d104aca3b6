"""A user's or account's scores and metrics in one workspace, as text for their page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import Http404
from django.utils.safestring import SafeString

from engagement.admin.time_format import format_ago
from engagement.core import charts
from engagement.metric_names import METRICS, MetricName, Scope
from engagement.models import Account, ScoreSet, Segment, Workspace
from engagement.rules.rules import InvalidRule
from engagement.scores import history, insights, metrics
from engagement.scores.benchmarks import HISTORY_DAYS
from engagement.scores.history import EventPoints
from engagement.scores.insights import Insight, format_percent
from engagement.scores.metrics import AccountMetrics, Metrics
from engagement.segments import members as segments

NOT_SCORED_MESSAGE = "This workspace has no scores yet. Reload the page in a moment."
# A score rarely comes from more event names.
MAX_EVENTS_LISTED = 25


@dataclass(frozen=True)
class ScoreSummary:
    """A subject's scores and metrics in one workspace. ``reason`` says why there are none."""

    scope: Scope
    reason: str = ""
    score: str = ""
    change: str = ""
    window: str = ""
    comparison: str = ""
    chart: SafeString | None = None
    events: Sequence[EventPoints] = ()
    # The number of event names that are not listed.
    more_events: int = 0
    metrics: Sequence[tuple[str, str | SafeString]] = ()
    segments: Sequence[Segment] = ()
    insights: Sequence[Insight] = ()


def product_workspaces(product_id: int) -> list[Workspace]:
    """The product's workspaces with their scores, oldest first."""
    workspaces = Workspace.objects.filter(product=product_id).select_related("scores")
    return list(workspaces.order_by("id"))


def choose_workspace(workspaces: Sequence[Workspace], requested_id: str | None) -> Workspace | None:
    """The workspace with the requested id, or the first one if no id is requested.

    Raises ``Http404`` if no workspace has that id.
    """
    if requested_id is None:
        return workspaces[0] if workspaces else None
    for workspace in workspaces:
        if str(workspace.pk) == requested_id:
            return workspace
    raise Http404


def score_summary(workspace: Workspace, subject: Any, now: datetime) -> ScoreSummary:
    """The subject's scores and metrics in the workspace."""
    scope: Scope = "account" if isinstance(subject, Account) else "user"
    score_set = workspace.scores
    if score_set is None or score_set.scored_day is None:
        return ScoreSummary(scope, NOT_SCORED_MESSAGE)
    row = segments.engagement_rows(score_set, scope).filter(**{f"{scope}_id": subject.pk}).first()
    if row is None:
        return ScoreSummary(scope, _why_unscored(score_set, scope))
    setattr(row, scope, subject)
    breakdown = history.score_breakdown(score_set, scope, subject.pk)
    counted = [event for event in breakdown if event.count]
    subject_metrics = _compute_metrics(score_set, scope, row)
    days = score_set.lookback_days
    return ScoreSummary(
        scope,
        score=f"{subject_metrics.scores.now:.1f}",
        change=_describe_change(subject_metrics.scores.change, days),
        window=_last_days(days),
        comparison=_describe_comparison(days),
        chart=_chart(score_set, row),
        events=counted[:MAX_EVENTS_LISTED],
        more_events=max(0, len(counted) - MAX_EVENTS_LISTED),
        metrics=[
            ("Last active", _last_active(subject_metrics, now)),
            *metric_texts(subject_metrics, has_audience=bool(score_set.audience)),
        ],
        segments=segments.segments_containing(score_set, usable_segments(workspace, scope), row),
        insights=_insights(score_set, row, subject_metrics, breakdown),
    )


def metric_texts(subject_metrics: Metrics, *, has_audience: bool = False) -> list[tuple[str, str]]:
    """The metrics as text, with their labels."""
    scores = subject_metrics.scores
    scope = "account" if isinstance(subject_metrics, AccountMetrics) else "user"
    texts: dict[MetricName, str] = {
        "score_yesterday": f"{scores.yesterday:.1f}",
        "score_last_period": f"{scores.last_period:.1f}",
        "percentile": f"Higher than {subject_metrics.percentile:.1f}% of active {scope}s",
        "raw_score": f"{subject_metrics.raw_score:,} points",
        "frequency": f"{subject_metrics.frequency:,}",
        "recently_scored_events": f"{subject_metrics.recently_scored_events:,}",
        "overall_scored_events": f"{subject_metrics.overall_scored_events:,}",
        "adoption": _percent(subject_metrics.adoption),
        "adoption_all_time": _percent(subject_metrics.adoption_all_time),
    }
    if isinstance(subject_metrics, AccountMetrics):
        texts |= {
            "active_users": f"{subject_metrics.active_users:,}",
            "total_users": f"{subject_metrics.total_users:,}",
            "active_share": _percent(subject_metrics.active_share),
        }
        # A license covers all users, but an audience does not.
        if not has_audience:
            texts["license_utilization"] = _percent(subject_metrics.license_utilization)
    return [(METRICS[name].label, text) for name, text in texts.items()]


def _compute_metrics(score_set: ScoreSet, scope: Scope, row: Any) -> Metrics:
    if scope == "user":
        return metrics.compute_user_metrics(
            row, score_set, history.all_time_totals(score_set, scope, row.user_id)
        )
    totals = history.all_time_totals(score_set, scope, row.account_id)
    return metrics.compute_account_metrics(row, score_set, totals, row.account.traits)


def _insights(
    score_set: ScoreSet, row: Any, subject_metrics: Metrics, breakdown: Sequence[EventPoints]
) -> list[Insight]:
    """Only accounts have insights."""
    if not isinstance(subject_metrics, AccountMetrics):
        return []
    return insights.account_insights(score_set, row, subject_metrics, breakdown)


def _chart(score_set: ScoreSet, row: Any) -> SafeString:
    days = history.score_history(score_set, row)
    return charts.line(
        f"Score over the last {HISTORY_DAYS} days",
        [charts.day_label(day.day) for day in days],
        [charts.Series("Score", [day.score for day in days])],
        top=100,
    )


def usable_segments(workspace: Workspace, scope: Scope) -> list[Segment]:
    """The workspace's segments that have a valid rule. Others have no members."""
    rows = Segment.objects.filter(workspace=workspace, scope=scope)
    return [segment for segment in rows if _is_usable(segment)]


def _is_usable(segment: Segment) -> bool:
    try:
        segments.segment_rule(segment)
    except InvalidRule:
        return False
    return True


# --- Texts ----------------------------------------------------------------------------------


def _why_unscored(score_set: ScoreSet, scope: Scope) -> str:
    if score_set.audience and scope == "user":
        return (
            "No score: this workspace has an audience, and this user is not in it. A new member "
            "of the audience gets a score in a moment."
        )
    return f"This {scope} has no score here yet. Reload the page in a moment."


def _describe_change(change: float, days: int) -> str:
    if not change:
        return f"unchanged from the previous {_plain_days(days)}"
    direction = "up" if change > 0 else "down"
    return f"{direction} {abs(change):.1f} in the {_last_days(days)}"


def _describe_comparison(days: int) -> str:
    if days == 1:
        return "Compares today with yesterday."
    return f"Compares the last {days} days (including today) with the {days} days before."


def _last_active(subject_metrics: Metrics, now: datetime) -> str | SafeString:
    return (
        format_ago(subject_metrics.last_active_at, now)
        if subject_metrics.last_active_at
        else "Never"
    )


def _last_days(days: int) -> str:
    return f"last {_plain_days(days)}"


def _plain_days(days: int) -> str:
    return "day" if days == 1 else f"{days} days"


def _percent(share: float | None) -> str:
    return "–" if share is None else format_percent(share)
