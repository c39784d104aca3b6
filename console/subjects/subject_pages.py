"""A user's or account's scores and metrics in one workspace, as text for their page."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from django.http import Http404
from django.utils.safestring import SafeString

from access.trail.scoring_changes import describe_change, scoring_changes
from console.subjects.activity_chart import ActivitySummary, activity_summary
from console.subjects.chart_days import DEFAULT_DAYS, ChartDays
from console.subjects.feature_card import event_urls
from core import charts
from core.time_format import format_ago
from engagement.activity.reading import NO_ALARMS, AccountAlarms, alarms_by_account
from engagement.metric_names import METRICS, MetricName, Scope
from engagement.models import Account, AccountEngagement, ScoreSet, Segment, Workspace
from engagement.money import MRR_LABEL, format_cents, mrr_of
from engagement.rules import license_events
from engagement.scores import history, insights, metrics, people
from engagement.scores.formula import Trend
from engagement.scores.history import AllTimeTotals, EventPoints
from engagement.scores.insight_texts import format_percent
from engagement.scores.insights import Insight
from engagement.scores.metrics import AccountMetrics, Metrics
from engagement.scores.people import Group, People
from engagement.segments import members as segments

# Of the marks in a chart that say that somebody changed how its workspace scores.
MEANING = (
    "All days are scored alike, by the latest definition that is computed, also those before a "
    "change."
)
NOT_SCORED_MESSAGE = "This workspace has no scores yet. Reload the page in a moment."
MAX_LICENSE_MARKS = 12
# A score rarely comes from more event names.
MAX_EVENTS_LISTED = 25
# The history of an account with more users takes longer than a person likes to wait for a page.
MANY_USERS = 500
# The metrics that need all counts of a subject.
OF_ALL_TIME: tuple[MetricName, ...] = ("overall_scored_events", "adoption_all_time")
NO_TOTALS = AllTimeTotals(0, 0)
KEY_METRICS: tuple[MetricName, ...] = (
    *("active_users", "license_utilization", "frequency", "recently_scored_events", "adoption"),
    *("percentile", "raw_score"),
)


@dataclass(frozen=True)
class EventChange:
    """An event name's points, their change over complete days, and the event's page."""

    points: EventPoints
    url: str = ""

    @property
    def points_change(self) -> int:
        return self.points.yesterday_points - self.points.before_points


@dataclass(frozen=True)
class ScoreSummary:
    """A subject's scores and metrics in one workspace. ``reason`` says why there are none."""

    scope: Scope
    reason: str = ""
    score: str = ""
    change: str = ""
    trend: Trend = "steady"
    # What changed the score most, if no insight says it.
    cause: str = ""
    window: str = ""
    comparison: str = ""
    chart: SafeString | None = None
    # What its marks mean; "" without any.
    chart_note: str = ""
    events: Sequence[EventChange] = ()
    # The number of event names that are not listed.
    more_events: int = 0
    metrics: Sequence[tuple[str, str | SafeString]] = ()
    segments: Sequence[Segment] = ()
    insights: Sequence[Insight] = ()
    # Of an account.
    activity: ActivitySummary | None = None
    # Of an account; None if they are no share of its seats.
    active_users: int | None = None
    compares_seats: bool = False
    total_users: int = 0
    # Of an account: its people, those of the requested group in the table.
    people: People | None = None
    # The chart and the metrics of all time are left to ``score_history``, the events and the people
    # to ``score_activity``.
    is_brief: bool = False


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


class NotScored(Exception):
    """The subject has no scores in the workspace. The text says why."""


def score_summary(
    workspace: Workspace,
    subject: Any,
    now: datetime,
    *,
    may_be_brief: bool = False,
    group: Group = "active",
    people_shown: int = 0,
    chart_days: ChartDays = DEFAULT_DAYS,
) -> ScoreSummary:
    """The subject's scores and metrics in the workspace.

    With *may_be_brief*, those of a large account lack what takes long. An account's have the first
    *people_shown* of the *group*.
    """
    scope: Scope = "account" if isinstance(subject, Account) else "user"
    try:
        score_set, row = engagement_row(workspace, subject, scope)
    except NotScored as reason:
        return ScoreSummary(scope, str(reason))
    is_brief = may_be_brief and getattr(row, "total_users", 0) > MANY_USERS
    chart, note = (None, "") if is_brief else _chart(workspace, score_set, row, chart_days)
    breakdown: Sequence[EventPoints] = ()
    shown_people = None
    if scope == "user":
        breakdown = history.score_breakdown(score_set, scope, subject.pk)
    elif not is_brief:
        activity = people.account_activity(score_set, subject.pk, group, people_shown)
        breakdown, shown_people = activity.events, activity.people
    totals = NO_TOTALS if is_brief else history.all_time_totals(score_set, scope, subject.pk)
    subject_metrics = _compute_metrics(score_set, row, totals)
    alarms = alarms_by_account(score_set, [subject.pk]) if scope == "account" else {}
    own_alarms = alarms.get(subject.pk, NO_ALARMS)
    subject_insights = _insights(score_set, row, subject_metrics, own_alarms)
    events = _with_pages(score_set, by_difference(breakdown))
    change = subject_metrics.scores.complete_change
    return ScoreSummary(
        scope,
        score=f"{subject_metrics.scores.now:.1f}",
        change=_describe_change(change, score_set.lookback_days),
        trend=_direction(change),
        cause="" if subject_insights else _describe_cause(events, change),
        window=_last_days(score_set.lookback_days),
        comparison=_describe_comparison(score_set),
        chart=chart,
        chart_note=note,
        is_brief=is_brief,
        people=shown_people,
        events=events[:MAX_EVENTS_LISTED],
        more_events=max(0, len(events) - MAX_EVENTS_LISTED),
        metrics=[
            *_labeled_metrics(score_set, subject_metrics, now, is_brief),
            *_revenue(subject, scope),
        ],
        segments=segments.segments_containing(
            score_set, segments.usable_segments(workspace, scope), row
        ),
        insights=subject_insights,
        activity=activity_summary(score_set, row, own_alarms) if scope == "account" else None,
        active_users=_active_users(score_set, subject_metrics),
        compares_seats=score_set.compares_seats,
        total_users=getattr(row, "total_users", 0),
    )


def _with_pages(score_set: ScoreSet, events: Sequence[EventChange]) -> list[EventChange]:
    """The events that are listed with the URLs of their pages, and the others."""
    names = [event.points.name for event in events[:MAX_EVENTS_LISTED]]
    urls = event_urls(score_set.product_id, names) if names else {}
    return [replace(event, url=urls.get(event.points.name, "")) for event in events]


def engagement_row(workspace: Workspace, subject: Any, scope: Scope) -> tuple[ScoreSet, Any]:
    """The workspace's scores, and the subject's row in them. Raises NotScored."""
    score_set = workspace.scores
    if score_set is None or score_set.scored_day is None:
        raise NotScored(NOT_SCORED_MESSAGE)
    row = segments.engagement_rows(score_set, scope).filter(**{f"{scope}_id": subject.pk}).first()
    if row is None:
        raise NotScored(_why_unscored(score_set, scope))
    setattr(row, scope, subject)
    return score_set, row


def by_difference(events: Iterable[EventPoints]) -> list[EventChange]:
    """What moved the score most comes first, and then what has the most points."""
    changes = [EventChange(event) for event in events]
    return sorted(changes, key=lambda each: (-abs(each.points_change), -each.points.points))


def _labeled_metrics(
    score_set: ScoreSet, subject_metrics: Metrics, now: datetime, is_brief: bool
) -> Iterator[tuple[str, str]]:
    """Those of ``KEY_METRICS`` first: a page folds the others."""
    yield "Last active", _last_active(subject_metrics, now)
    texts = metric_texts(score_set, subject_metrics)
    for name in dict.fromkeys([*KEY_METRICS, *texts]):
        if name in texts and not (is_brief and name in OF_ALL_TIME):
            yield METRICS[name].label, texts[name]


def _revenue(subject: Any, scope: Scope) -> Iterator[tuple[str, str]]:
    """What the account pays, if a trait says so."""
    if scope == "account" and (cents := mrr_of(subject.traits)) is not None:
        yield MRR_LABEL, format_cents(cents)


def score_history(
    workspace: Workspace, account: Account, chart_days: ChartDays = DEFAULT_DAYS
) -> ScoreSummary:
    """What the summary of a large account lacks: the chart and the metrics of all time."""
    try:
        score_set, row = engagement_row(workspace, account, "account")
    except NotScored as reason:
        return ScoreSummary("account", str(reason))
    totals = history.all_time_totals(score_set, "account", account.pk)
    texts = metric_texts(score_set, _compute_metrics(score_set, row, totals))
    chart, note = _chart(workspace, score_set, row, chart_days)
    return ScoreSummary(
        "account",
        chart=chart,
        chart_note=note,
        metrics=[(METRICS[name].label, texts[name]) for name in OF_ALL_TIME],
    )


def score_activity(
    workspace: Workspace, account: Account, group: Group, people_shown: int
) -> ScoreSummary:
    """What the summary of a large account lacks besides: its events and people, and the cause of
    the change."""
    try:
        score_set, row = engagement_row(workspace, account, "account")
    except NotScored as reason:
        return ScoreSummary("account", str(reason))
    activity = people.account_activity(score_set, account.pk, group, people_shown)
    events = _with_pages(score_set, by_difference(activity.events))
    scores = _compute_metrics(score_set, row, NO_TOTALS).scores
    return ScoreSummary(
        "account",
        cause=_describe_cause(events, scores.complete_change),
        window=_last_days(score_set.lookback_days),
        events=events[:MAX_EVENTS_LISTED],
        more_events=max(0, len(events) - MAX_EVENTS_LISTED),
        people=activity.people,
        total_users=row.total_users,
    )


def metric_texts(score_set: ScoreSet, subject_metrics: Metrics) -> dict[MetricName, str]:
    """The metrics as text."""
    scores = subject_metrics.scores
    scope = "account" if isinstance(subject_metrics, AccountMetrics) else "user"
    # The highest of many is not higher than itself.
    percentile = min(subject_metrics.percentile, 99.9)
    texts: dict[MetricName, str] = {
        "score_yesterday": f"{scores.yesterday:.1f}",
        "score_change_complete_days": _compared(scores.yesterday_last_period, scores.yesterday),
        "percentile": (
            f"Higher than {percentile:.1f}% of active {scope}s"
            if subject_metrics.raw_score
            else "No points in the window"
        ),
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
        if score_set.counts_seats:
            texts["license_utilization"] = _percent(subject_metrics.license_utilization)
    return texts


def _compute_metrics(score_set: ScoreSet, row: Any, totals: AllTimeTotals) -> Metrics:
    if not isinstance(row, AccountEngagement):
        return metrics.compute_user_metrics(row, score_set, totals)
    return metrics.compute_account_metrics(row, score_set, totals, row.account.traits)


def _insights(
    score_set: ScoreSet, row: Any, subject_metrics: Metrics, alarms: AccountAlarms
) -> list[Insight]:
    """Only accounts have insights."""
    if not isinstance(subject_metrics, AccountMetrics):
        return []
    return insights.account_insights(score_set, row, subject_metrics, alarms)


def _chart(
    workspace: Workspace, score_set: ScoreSet, row: Any, chart_days: ChartDays
) -> tuple[SafeString, str]:
    """The chart, and what its marks mean. Days before the first score that is known are a gap."""
    scores = {each.day: each.score for each in history.score_history(score_set, row)}
    days = chart_days.until(max(scores))
    series = [charts.Series("Score", [scores.get(day) for day in days])]
    title = f"Score over the last {chart_days.count} days"
    if isinstance(row, AccountEngagement):
        numbers = people.active_users_by_day(score_set, row.account_id, days)
        # There may be counts that are not scored yet, but numbers on one page must agree.
        numbers[-1] = row.active_users
        series.append(charts.Series("Active users", numbers, on_right=True))
        title = f"Score and active users over the last {chart_days.count} days"
    labels = [charts.day_label(day) for day in days]
    events: list[tuple[date, str, charts.MarkKind]] = [
        (each.day, describe_change(each), "weights") for each in scoring_changes(workspace, days[0])
    ]
    notes = [MEANING] if events else []
    if isinstance(row, AccountEngagement):
        events += [
            (event.date, license_events.describe(event).removesuffix("."), "license")
            for event in license_events.latest_of(
                row.product_id, row.account.external_id, days[0], MAX_LICENSE_MARKS
            )
        ]
    marks = [
        charts.Mark(index, text, kind=kind)
        for day, text, kind in sorted(events)
        if (index := (day - days[0]).days) < len(days)
    ]
    if len(days) > len(scores):
        notes.append(f"Scores go back {len(scores)} days.")
    ranges = chart_days.ranges()
    chart = charts.line(title, labels, series, top=100, marks=marks, ranges=ranges, is_large=True)
    return chart, " ".join(notes)


# --- Texts ----------------------------------------------------------------------------------


def _why_unscored(score_set: ScoreSet, scope: Scope) -> str:
    if score_set.audience and scope == "user":
        return (
            "No score: this workspace has an audience, and this user is not in it. A new member "
            "of the audience gets a score in a moment."
        )
    return f"This {scope} has no score here yet. Reload the page in a moment."


def _describe_change(change: float | None, days: int) -> str:
    if change is None:
        return "change not computed yet"
    moved = f"{'up' if change > 0 else 'down'} {abs(change):.1f}" if change else "unchanged"
    return f"{moved} {'' if days == 1 else f'in the {days} days through '}yesterday"


def _describe_comparison(score_set: ScoreSet) -> str:
    days, half_life = score_set.lookback_days, score_set.half_life_days
    compared = (
        "yesterday with the day before"
        if days == 1
        else f"the {days} days through yesterday with the {days} days before"
    )
    if half_life:
        compared = f"the score of yesterday with that of {days} days before"
    counting = f" Events count half as much after {half_life} days." if half_life else ""
    return (
        f"The change compares {compared}. The score counts today, too, which is not over.{counting}"
    )


def _direction(change: float | None) -> Trend:
    """Which way the score moved, however little."""
    return "rising" if change and change > 0 else "falling" if change else "steady"


def _describe_cause(events: Sequence[EventChange], change: float | None) -> str:
    """The event whose points moved most in the direction of the score."""
    direction = 1 if change and change > 0 else -1
    movers = [event for event in events if direction * event.points_change > 0]
    if not change or not movers:
        return ""
    event = max(movers, key=lambda event: direction * event.points_change).points
    return (
        f"Mainly because of “{event.name}” "
        f"({event.before_points:,} → {event.yesterday_points:,} points)."
    )


def _active_users(score_set: ScoreSet, subject_metrics: Metrics) -> int | None:
    if not score_set.counts_seats or not isinstance(subject_metrics, AccountMetrics):
        return None
    return subject_metrics.active_users


def _last_active(subject_metrics: Metrics, now: datetime) -> str | SafeString:
    return (
        format_ago(subject_metrics.last_active_at, now)
        if subject_metrics.last_active_at
        else "Never"
    )


def _last_days(days: int) -> str:
    return "last day" if days == 1 else f"last {days} days"


def _compared(before: float | None, after: float) -> str:
    return "–" if before is None else f"{before:.1f} → {after:.1f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else format_percent(share)
