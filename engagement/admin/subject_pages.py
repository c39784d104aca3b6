"""What the page of a user or an account shows: their numbers in one workspace, in words."""

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

NOT_SCORED_MESSAGE = "The scores of this workspace are not computed yet; look again in a moment."
# So many event names are listed; a score is hardly ever made of more.
EVENTS_LISTED = 25


@dataclass(frozen=True)
class ScoreSummary:
    """A subject's numbers in one workspace. ``reason`` says why there are none."""

    scope: Scope
    reason: str = ""
    score: str = ""
    trend: str = ""
    period: str = ""
    curve: SafeString | None = None
    made_of: Sequence[EventPoints] = ()
    # Event names that are not listed.
    more_names: int = 0
    metrics: Sequence[tuple[str, str | SafeString]] = ()
    segments: Sequence[Segment] = ()
    insights: Sequence[Insight] = ()


def product_workspaces(product_id: int) -> list[Workspace]:
    """The product's workspaces with their scores, in the order in which they were made."""
    found = Workspace.objects.filter(product=product_id).select_related("scores")
    return list(found.order_by("id"))


def choose_workspace(offered: Sequence[Workspace], asked: str | None) -> Workspace | None:
    """The workspace whose id is *asked* for, the first where none is; Http404 where it is not one
    of those that are offered."""
    if asked is None:
        return offered[0] if offered else None
    for workspace in offered:
        if str(workspace.pk) == asked:
            return workspace
    raise Http404


def score_summary(workspace: Workspace, subject: Any, now: datetime) -> ScoreSummary:
    """The subject's numbers in the workspace of its product."""
    scope: Scope = "account" if isinstance(subject, Account) else "user"
    score_set = workspace.scores
    if score_set is None or score_set.scored_day is None:
        return ScoreSummary(scope, NOT_SCORED_MESSAGE)
    row = segments.engagement_rows(score_set, scope).filter(**{f"{scope}_id": subject.pk}).first()
    if row is None:
        return ScoreSummary(scope, _why_unscored(score_set, scope))
    setattr(row, scope, subject)
    made_of = history.score_breakdown(score_set, scope, subject.pk)
    counted = [event for event in made_of if event.count]
    known = _known(score_set, scope, row)
    return ScoreSummary(
        scope,
        score=f"{known.scores.now:.1f}",
        trend=_trend(known),
        period=_days(score_set.lookback_days),
        curve=_curve(score_set, row),
        made_of=counted[:EVENTS_LISTED],
        more_names=max(0, len(counted) - EVENTS_LISTED),
        metrics=[
            ("Last active", _last_active(known, now)),
            *metric_texts(known, of_audience=bool(score_set.audience)),
        ],
        segments=segments.segments_containing(score_set, usable_segments(workspace, scope), row),
        insights=_insights(score_set, row, known, made_of),
    )


def metric_texts(known: Metrics, *, of_audience: bool = False) -> list[tuple[str, str]]:
    """The metrics with their labels, as people read them."""
    scores = known.scores
    scope = "account" if isinstance(known, AccountMetrics) else "user"
    texts: dict[MetricName, str] = {
        "score_yesterday": f"{scores.yesterday:.1f}",
        "score_last_period": f"{scores.last_period:.1f}",
        "percentile": f"Higher than {known.percentile:.1f}% of active {scope}s",
        "raw_score": f"{known.raw_score:,} points",
        "frequency": f"{known.frequency:,}",
        "recently_scored_events": f"{known.recently_scored_events:,}",
        "overall_scored_events": f"{known.overall_scored_events:,}",
        "adoption": _percent(known.adoption),
        "adoption_all_time": _percent(known.adoption_all_time),
    }
    if isinstance(known, AccountMetrics):
        texts |= {
            "active_users": f"{known.active_users:,}",
            "total_users": f"{known.total_users:,}",
            "active_share": _percent(known.active_share),
        }
        # A license is for everybody, and an audience is not.
        if not of_audience:
            texts["license_utilization"] = _percent(known.license_utilization)
    return [(METRICS[name].label, text) for name, text in texts.items()]


def _known(score_set: ScoreSet, scope: Scope, row: Any) -> Metrics:
    if scope == "user":
        return metrics.compute_user_metrics(
            row, score_set, history.all_time_totals(score_set, scope, row.user_id)
        )
    overall = history.all_time_totals(score_set, scope, row.account_id)
    return metrics.compute_account_metrics(row, score_set, overall, row.account.traits)


def _insights(
    score_set: ScoreSet, row: Any, known: Metrics, made_of: Sequence[EventPoints]
) -> list[Insight]:
    """The rules know accounts only."""
    if not isinstance(known, AccountMetrics):
        return []
    return insights.account_insights(score_set, row, known, made_of)


def _curve(score_set: ScoreSet, row: Any) -> SafeString:
    days = history.score_history(score_set, row)
    return charts.line(
        f"Score of the last {HISTORY_DAYS} days",
        [charts.day_label(one.day) for one in days],
        [charts.Series("Score", [one.score for one in days])],
        top=100,
    )


def usable_segments(workspace: Workspace, scope: Scope) -> list[Segment]:
    """Those of the workspace's segments that have a rule; one that has none has no members."""
    return [
        one for one in Segment.objects.filter(workspace=workspace, scope=scope) if _is_usable(one)
    ]


def _is_usable(segment: Segment) -> bool:
    try:
        segments.segment_rule(segment)
    except InvalidRule:
        return False
    return True


# --- Words ----------------------------------------------------------------------------------


def _why_unscored(score_set: ScoreSet, scope: Scope) -> str:
    if score_set.audience and scope == "user":
        return (
            "There is no score here: the workspace is about some users only, and this is none of "
            "them. Who has just become one is scored in a moment."
        )
    return f"This {scope} is not scored here yet; look again in a moment."


def _trend(known: Metrics) -> str:
    scores = known.scores
    if not scores.change:
        return f"{scores.trend}, as one period ago"
    return f"{scores.trend}, {scores.change:+.1f} since one period ago"


def _last_active(known: Metrics, now: datetime) -> str | SafeString:
    return format_ago(known.last_active_at, now) if known.last_active_at else "Never"


def _days(number: int) -> str:
    return "1 day" if number == 1 else f"{number:,} days"


def _percent(share: float | None) -> str:
    return "–" if share is None else format_percent(share)
