"""What a subject's score is made of, and how it went: from the daily counts, when asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, LiteralString, NamedTuple, TypeAlias

from engagement.database import sql
from engagement.models import AccountEngagement, DailyBenchmark, ScoreSet, UserEngagement
from engagement.scores.benchmarks import HISTORY_DAYS
from engagement.scores.formula import rounded_score
from engagement.scores.raw import (
    JOIN_AUDIENCE_USERS,
    JOIN_IDENTIFIED_USERS,
    WHERE_SCORED,
    query_parameters,
)

Scope: TypeAlias = Literal["user", "account"]


class DayScore(NamedTuple):
    """The score as it stood at the end of a UTC day, 0 to 100 with one decimal."""

    day: date
    score: float


@dataclass(frozen=True)
class EventPoints:
    """What one scored event name adds to a raw score: count times weight."""

    name: str
    weight: int
    count: int
    points: int
    last_period_count: int
    last_period_points: int


@dataclass(frozen=True)
class AllTimeTotals:
    """All scored events of a subject, ever: how many, and of how many names."""

    events: int
    names: int


class UserPoints(NamedTuple):
    """One user's part of an account's raw score."""

    user_id: int
    points: int


_BREAKDOWN: LiteralString = f"""
    SELECT n.name, COALESCE(w.weight, %(default_weight)s),
           COALESCE(sum(d.count) FILTER (WHERE d.day >= %(first_day)s), 0),
           COALESCE(sum(d.count) FILTER (WHERE d.day < %(first_day)s), 0)
    FROM engagement_dailycount d
    JOIN engagement_eventname n ON n.id = d.event_name_id
    {{counted}}
    {WHERE_SCORED} AND d.{{subject}} = %(subject)s
      AND d.day BETWEEN %(last_period_from)s AND %(today)s
    GROUP BY n.id, 2
"""
_OVERALL: LiteralString = f"""
    SELECT COALESCE(sum(d.count), 0), count(DISTINCT d.event_name_id)
    FROM engagement_dailycount d {{counted}}
    {WHERE_SCORED} AND d.{{subject}} = %(subject)s
"""
_BY_USER: LiteralString = f"""
    SELECT d.user_id, sum(d.count * COALESCE(w.weight, %(default_weight)s))
    FROM engagement_dailycount d {{counted}}
    {WHERE_SCORED} AND d.account_id = %(subject)s AND d.day BETWEEN %(first_day)s AND %(today)s
    GROUP BY d.user_id ORDER BY 2 DESC, 1 LIMIT %(limit)s
"""
_BY_DAY: LiteralString = f"""
    SELECT d.day, sum(d.count * COALESCE(w.weight, %(default_weight)s))
    FROM engagement_dailycount d {{counted}}
    {WHERE_SCORED} AND d.{{subject}} = %(subject)s AND d.day BETWEEN %(grid_from)s AND %(today)s
    GROUP BY d.day
"""


def score_breakdown(score_set: ScoreSet, scope: Scope, subject_id: int) -> list[EventPoints]:
    """The subject's raw score by event name, most points first, with those of the last period.

    The points add up to the raw score, those of the last period to that of the last period.
    """
    found = []
    for name, weight, count, before in _fetch(_BREAKDOWN, score_set, scope, subject_id):
        points = EventPoints(
            name, weight, int(count), int(count) * weight, int(before), int(before) * weight
        )
        found.append(points)
    return sorted(found, key=lambda event: (-event.points, -event.last_period_points, event.name))


def all_time_totals(score_set: ScoreSet, scope: Scope, subject_id: int) -> AllTimeTotals:
    """The subject's scored events of all time."""
    ((events, names),) = _fetch(_OVERALL, score_set, scope, subject_id)
    return AllTimeTotals(int(events), names)


def points_by_user(score_set: ScoreSet, account_id: int, limit: int) -> list[UserPoints]:
    """The users who add most to the account's raw score, most first."""
    rows = _fetch(_BY_USER, score_set, "account", account_id, limit=limit)
    return [UserPoints(user_id, int(points)) for user_id, points in rows]


def score_history(score_set: ScoreSet, row: UserEngagement | AccountEngagement) -> list[DayScore]:
    """The subject's score on each of the last HISTORY_DAYS days, the set's ``scored_day`` last.

    Each is of that day's window and that day's benchmark, under the definition of today. It agrees
    with the metrics of *row*, the subject's numbers, on the days that these are of.
    """
    last_day = _last_day(score_set)
    lookback = score_set.lookback_days
    days = [last_day - timedelta(days=ago) for ago in reversed(range(HISTORY_DAYS))]
    grid_from = days[0] - timedelta(days=lookback - 1)
    scope, subject_id = _subject(row)
    rows = _fetch(_BY_DAY, score_set, scope, subject_id, grid_from=grid_from)
    points = {day: int(sum_) for day, sum_ in rows}
    raw = dict(zip(days, _moving_sums(points, grid_from, last_day, lookback), strict=True))
    # Counts may have been recorded that are not scored yet; the numbers that people see together
    # must agree.
    raw |= {
        days[-1]: row.raw,
        days[-2]: row.raw_yesterday,
        last_day - timedelta(days=lookback): row.raw_last_period,
    }
    benchmarks = _benchmarks(score_set, scope, days)
    return [DayScore(day, rounded_score(raw[day], benchmarks[day])) for day in days]


def _subject(row: UserEngagement | AccountEngagement) -> tuple[Scope, int]:
    if isinstance(row, UserEngagement):
        return "user", row.user_id
    return "account", row.account_id


def _moving_sums(points: dict[date, int], first: date, last: date, lookback: int) -> Sequence[int]:
    """The sum of each window that ends on a day from the first full window to *last*."""
    each = [points.get(first + timedelta(days=n), 0) for n in range((last - first).days + 1)]
    current = sum(each[: lookback - 1])
    sums = []
    for n in range(lookback - 1, len(each)):
        current += each[n]
        sums.append(current)
        current -= each[n - lookback + 1]
    return sums


def _benchmarks(score_set: ScoreSet, scope: Scope, days: list[date]) -> dict[date, float | None]:
    """The benchmark of each day; a day without one of its own has that of the day before it."""
    column = "users" if scope == "user" else "accounts"
    known = dict(DailyBenchmark.objects.filter(score_set=score_set).values_list("day", column))
    current: float | None = None
    found = {}
    for day in days:
        current = known.get(day, current)
        found[day] = current
    return found


def _fetch(
    statement: LiteralString, score_set: ScoreSet, scope: Scope, subject_id: int, **more: object
) -> list[sql.Row]:
    counted: LiteralString = ""
    if scope == "account":
        counted = JOIN_AUDIENCE_USERS if score_set.audience else JOIN_IDENTIFIED_USERS
    subject: LiteralString = "user_id" if scope == "user" else "account_id"
    given = {**query_parameters(score_set, _last_day(score_set)), "subject": subject_id, **more}
    return sql.fetch(statement.format(counted=counted, subject=subject), given)


def _last_day(score_set: ScoreSet) -> date:
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    return score_set.scored_day
