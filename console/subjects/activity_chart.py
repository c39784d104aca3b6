"""The activity of an account on its page: its state, and a chart with what is usual."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from django.utils.safestring import SafeString

from core import charts
from engagement.activity import sentences
from engagement.activity.reading import AccountAlarms, monthly_user_days
from engagement.activity.recent_weeks import SHOWN_WEEKS, RecentWeeks, recent_weeks
from engagement.insight_kinds import ACTIVITY_LABELS
from engagement.models import AccountEngagement, Alarm, ScoreSet

_WINDOWS = {2: "two weeks", 4: "four weeks", 8: "eight weeks"}


@dataclass(frozen=True)
class ActivitySummary:
    """*state* is for people, *name* for style sheets. *text* says why it is unknown, or how it
    settled; insights say the other changes. There is no *chart* before the first night."""

    state: str
    name: str
    text: str = ""
    chart: SafeString | None = None
    note: str = ""


def activity_summary(
    score_set: ScoreSet, row: AccountEngagement, alarms: AccountAlarms
) -> ActivitySummary:
    """The activity of the account of *row*."""
    activity = alarms.activity(row.activity)
    text = ""
    if activity.reason:
        user_days = monthly_user_days(score_set, row.account_id)
        text = sentences.describe_unknown(activity.reason, user_days)
    elif activity.state in ("settled_lower", "settled_higher") and alarms.settled:
        text = sentences.describe_new_level(alarms.settled)
    label = ACTIVITY_LABELS[activity.state]
    weeks = recent_weeks(score_set, row.account_id)
    if weeks is None:
        return ActivitySummary(label, activity.state, text)
    return ActivitySummary(label, activity.state, text, _chart(weeks), _note(weeks))


def _chart(weeks: RecentWeeks) -> SafeString:
    points = weeks.points
    has_range = any(point.usual for point in points)
    return charts.line(
        f"Active user-days in {_WINDOWS[weeks.window]}, over the last {SHOWN_WEEKS} weeks",
        [charts.day_label(point.day) for point in points],
        [charts.Series("Active user-days", [point.user_days for point in points])],
        band=charts.Band(
            "Usual range",
            [point.usual[0] if point.usual else None for point in points],
            [point.usual[1] if point.usual else None for point in points],
        )
        if has_range
        else None,
        marks=sorted(_marks(weeks), key=lambda mark: (mark.index, not mark.is_end)),
    )


def _note(weeks: RecentWeeks) -> str:
    return (
        f"Each point is the sum of {_WINDOWS[weeks.window]}: a user who is active on three days "
        "counts three times. An account that does not change is in its usual range at least four "
        "times in five. The range follows how comparable accounts move; while an alarm is on, it "
        "is what was usual before."
    )


def _marks(weeks: RecentWeeks) -> Iterator[charts.Mark]:
    """Where alarms began and ended, at the first point that has the day."""
    for alarm in weeks.alarms:
        name = sentences.alarm_name(alarm)
        if (index := _index(weeks, alarm.since)) is not None:
            yield charts.Mark(index, f"{name} since {charts.day_label(alarm.since)}")
        if alarm.ended_on and (index := _index(weeks, alarm.ended_on)) is not None:
            how = sentences.ENDED.get(Alarm.Outcome(alarm.outcome), "ended")
            text = f"{name}: {how} on {charts.day_label(alarm.ended_on)}"
            yield charts.Mark(index, text, is_end=True)


def _index(weeks: RecentWeeks, day: date) -> int | None:
    """The first point on the day or after it; None if the day is before all of them."""
    if day <= weeks.points[0].day:
        return None
    return next((i for i, point in enumerate(weeks.points) if point.day >= day), None)
