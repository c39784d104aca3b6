"""What was usual for one account in each of the last weeks, for the chart on its page.

It is the statistic of ``engagement.alarms.statistic`` for one account, without arrays: processes
that serve pages do not load numpy.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import median
from typing import Any, NamedTuple

from django.db.models import Q

from engagement.activity.reading import DIRECTIONS, alarms_of
from engagement.alarms.levels import usual_range
from engagement.models import ActiveDay, Alarm, AlarmNight, ScoreSet

SHOWN_WEEKS = 26
# The windows of the statistic, in weeks, and what it shows without an alarm.
WINDOWS, DEFAULT_WINDOW = (2, 4, 8), 4
_BASELINE_WEEKS, _LEAST_WEEKS = 16, 8
_WEEKS = WINDOWS[-1] + _BASELINE_WEEKS
_SIZE_BOUNDS, _SIZE_MIDDLES = (3, 10, 30, 100, 300), (1.5, 6, 20, 60, 200, 600)


class Point(NamedTuple):
    """The active user-days of a window that ends with *day*, and their usual range; None if
    nothing was decided about the account that night."""

    day: date
    user_days: int
    usual: tuple[int, int] | None


@dataclass(frozen=True)
class RecentWeeks:
    """An account's last ``SHOWN_WEEKS``, and the alarms of the workspace's level within them.

    *window* is the length of each point's window in weeks.
    """

    window: int
    points: Sequence[Point]
    alarms: Sequence[Alarm]


def recent_weeks(score_set: ScoreSet, account_id: int) -> RecentWeeks | None:
    """The account's last weeks until the last night that decided; None before the first one."""
    own_nights = AlarmNight.latest_of(score_set.workspace_id)
    last = own_nights.values_list("day", flat=True).first()
    if last is None:
        return None
    ends = [last - timedelta(weeks=weeks) for weeks in reversed(range(SHOWN_WEEKS))]
    nights = dict(own_nights.filter(day__in=ends).values_list("day", "parameters"))
    alarms = _alarms(score_set, account_id, ends[0])
    window = _window(alarms)
    days = _active_days(score_set, account_id, ends[0] - timedelta(weeks=_WEEKS), last)
    first = _first_day(score_set, account_id)
    points = []
    for end in ends:
        past = _Past.of(days, first, end)
        usual = _usual(past, window, nights.get(end), _open_on(alarms, end))
        points.append(Point(end, sum(past.weeks[:window]), usual))
    return RecentWeeks(window, points, alarms)


def _alarms(score_set: ScoreSet, account_id: int, since: date) -> list[Alarm]:
    alarms = alarms_of(score_set, *Alarm.Signal).filter(account_id=account_id)
    alarms = alarms.filter(Q(ended_on=None) | Q(ended_on__gt=since))
    return list(alarms.exclude(outcome=Alarm.Outcome.REPLACED).order_by("since", "signal"))


def _window(alarms: Sequence[Alarm]) -> int:
    """That of the alarm that is on, so that the chart has the numbers of its sentence."""
    for alarm in alarms:
        if alarm.ended_on is None and alarm.signal in DIRECTIONS:
            return int(alarm.latest.get("window_days", alarm.window_days)) // 7
    return DEFAULT_WINDOW


def _open_on(alarms: Sequence[Alarm], day: date) -> Alarm | None:
    """The alarm about activity that was on after *day*."""
    for alarm in alarms:
        is_on = alarm.since <= day and (alarm.ended_on is None or alarm.ended_on > day)
        if is_on and alarm.signal in DIRECTIONS and alarm.weekly_rate is not None:
            return alarm
    return None


def _active_days(
    score_set: ScoreSet, account_id: int, after: date, until: date
) -> dict[date, tuple[int, int]]:
    """The active users and their hour on each day with any."""
    rows = ActiveDay.objects.filter(
        product_id=score_set.product_id,
        score_set_id=score_set.pk,
        account_id=account_id,
        day__gt=after,
        day__lte=until,
    )
    return {day: (users, hour) for day, users, hour in rows.values_list("day", "users", "hour")}


def _first_day(score_set: ScoreSet, account_id: int) -> date | None:
    rows = ActiveDay.objects.filter(
        product_id=score_set.product_id, score_set_id=score_set.pk, account_id=account_id
    )
    return rows.order_by("day").values_list("day", flat=True).first()


class _Past(NamedTuple):
    """An account at the end of a day: its user-days by week, the last one first, its age in weeks,
    and its region."""

    weeks: Sequence[int]
    age: int
    region: int

    @classmethod
    def of(cls, days: Mapping[date, tuple[int, int]], first: date | None, end: date) -> "_Past":
        weeks, hours = [0] * _WEEKS, []
        for day, (users, hour) in days.items():
            ago = (end - day).days
            if 0 <= ago < 7 * _WEEKS:
                weeks[ago // 7] += users
                hours.append(hour)
        age = ((end - first).days + 1) // 7 if first else 0
        middle = median(hours) if hours else 0
        return cls(weeks, age, 0 if middle < 12 else 1 if middle < 19 else 2)


def _usual(
    past: _Past, window: int, parameters: Mapping[str, Any] | None, alarm: Alarm | None
) -> tuple[int, int] | None:
    """The usual range of the window; None if the night decided nothing about it. While an alarm is
    on, usual is what was usual before it."""
    if parameters is None:
        return None
    index = WINDOWS.index(window)
    movement = parameters["movement"][index][past.region]
    if alarm is not None and alarm.weekly_rate is not None:
        expected = alarm.weekly_rate * window * movement
        weeks, burstiness = _baseline_weeks(alarm), alarm.burstiness or 1.0
        return usual_range(expected, _dispersion(expected, index, burstiness, weeks, parameters))
    expectation = expect(past.weeks, past.age, window, movement, parameters)
    return usual_range(*expectation) if expectation else None


def expect(
    weeks: Sequence[int], age: int, window: int, movement: float, parameters: Mapping[str, Any]
) -> tuple[float, float] | None:
    """The expected user-days of the last *window* weeks, and their dispersion (variance per unit of
    mean), of an account with these weekly sums; None if it is too new.

    *movement* is that of comparable accounts. The parameters are those of the night.
    """
    index = WINDOWS.index(window)
    number = min(_BASELINE_WEEKS, age - window)
    if number < _LEAST_WEEKS:
        return None
    baseline = weeks[window : window + number]
    rate = sum(baseline) / number
    expected = rate * window * movement
    size = bisect_right(_SIZE_BOUNDS, expected)
    squares = sum(
        (week - rate * weekly) ** 2
        for week, weekly in zip(baseline, parameters["weekly"][index], strict=False)
    )
    spread = squares / ((number - 1) * max(rate, 0.05)) / parameters["spread"][index][size]
    burstiness = max(1.0, (8 + (number - 1) * spread) / (8 + number - 1))
    return expected, _dispersion(expected, index, burstiness, number, parameters)


def _dispersion(
    expected: float, index: int, burstiness: float, weeks: int, parameters: Mapping[str, Any]
) -> float:
    """That of a window with this many expected user-days, and a baseline of this many weeks."""
    size = bisect_right(_SIZE_BOUNDS, expected)
    number = parameters["accounts"][index][size]
    errors = number * parameters["error"][index][size]
    of_middle = 1.5 + 0.01 * _SIZE_MIDDLES[size]
    factor = (errors + 10 * of_middle) / (number + 10) * burstiness
    factor *= (1.5 + 0.01 * expected) / of_middle
    return float(max(max(factor, 0.7) * (1 + WINDOWS[index] / weeks), 1.02))


def _baseline_weeks(alarm: Alarm) -> int:
    if alarm.baseline_from is None or alarm.baseline_to is None:
        return _BASELINE_WEEKS
    return ((alarm.baseline_to - alarm.baseline_from).days + 1) // 7
