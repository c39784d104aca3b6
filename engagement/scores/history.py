"""A subject's score by event name and by day, computed from the daily counts on demand."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import accumulate
from typing import LiteralString, NamedTuple

from core.database import sql
from engagement.metric_names import Scope
from engagement.models import AccountEngagement, DailyBenchmark, ScoreSet, UserEngagement
from engagement.scopes import SubjectKind, get_kind, kind_of
from engagement.scores.benchmarks import HISTORY_DAYS
from engagement.scores.formula import rounded_score, shown_points
from engagement.scores.raw import counting, join_counted_users, query_parameters


class DayScore(NamedTuple):
    """The score at the end of a UTC day, 0 to 100 with one decimal."""

    day: date
    score: float


@dataclass(frozen=True)
class EventPoints:
    """The points that one event name adds to a raw score: count times weight.

    ``yesterday_points`` belong to ``raw_yesterday``, and ``before_points`` to
    ``raw_yesterday_last_period``: with these, the change over complete days compares it. With a
    half-life, points are as they are, or were on that day, and also of events before the window,
    which ``count`` leaves out.
    """

    name: str
    weight: int
    count: int
    points: int
    yesterday_points: int
    before_points: int


@dataclass(frozen=True)
class AllTimeTotals:
    """The number of a subject's scored events of all time, and of their names."""

    event_count: int
    event_name_count: int


@dataclass(frozen=True)
class CountSummary:
    """What the details of a subject need of its daily counts: totals of all time, points by event
    name, and what each day that the history is about adds to raw scores.
    """

    all_time: AllTimeTotals
    event_points: list[EventPoints]
    points_by_day: dict[date, int]


class UserPoints(NamedTuple):
    """The points that one user adds to an account's raw score."""

    user_id: int
    points: int


# The weights of the daily counts, and only those that count.
WHERE_SCORED: LiteralString = """
    LEFT JOIN engagement_scoredevent w
        ON w.score_set_id = %(score_set)s AND w.event_name_id = d.event_name_id
    WHERE d.product_id = %(product)s AND COALESCE(w.weight, %(default_weight)s) > 0
"""
# How often something happened in the windows of the three raw scores, by daily counts "d", and what
# that adds to these scores, for each point of weight.
COUNTS: LiteralString = """
    COALESCE(sum(d.count) FILTER (WHERE d.day >= %(first_day)s), 0) AS count,
    COALESCE(sum(d.count) FILTER (WHERE d.day >= %(yesterday_from)s AND d.day < %(today)s), 0)
        AS yesterday_count,
    COALESCE(sum(d.count) FILTER (WHERE d.day < %(yesterday_from)s
        AND d.day >= %(yesterday_last_period_from)s), 0) AS before_count,
    COALESCE(sum({points}) FILTER (WHERE d.day >= {now_from}), 0) AS now,
    COALESCE(sum({points}) FILTER (WHERE d.day >= {yesterday_from} AND d.day < %(today)s), 0)
        AS yesterday,
    COALESCE(sum({points}) FILTER (WHERE d.day < %(yesterday_from)s AND d.day >= {before_from}), 0)
        AS before
"""
_BREAKDOWN: LiteralString = f"""
    SELECT n.name, COALESCE(w.weight, %(default_weight)s), {COUNTS}
    FROM engagement_dailycount d
    JOIN engagement_eventname n ON n.id = d.event_name_id AND n.product_id = %(product)s
    {{join_users}}
    {WHERE_SCORED} AND d.{{id_column}} = %(subject)s
      AND d.day BETWEEN {{before_from}} AND %(today)s
    GROUP BY n.id, n.name, 2
"""
_ALL_TIME: LiteralString = f"""
    SELECT COALESCE(sum(d.count), 0), count(DISTINCT d.event_name_id)
    FROM engagement_dailycount d {{join_users}}
    {WHERE_SCORED} AND d.{{id_column}} = %(subject)s
"""
_ALL_TIME_BY_SUBJECT: LiteralString = f"""
    SELECT d.{{id_column}}, sum(d.count), count(DISTINCT d.event_name_id)
    FROM engagement_dailycount d {{join_users}}
    {WHERE_SCORED} AND d.{{id_column}} = ANY(%(subjects)b::bigint[])
    GROUP BY d.{{id_column}}
"""
_BY_USER: LiteralString = f"""
    SELECT d.user_id, sum({{points}} * COALESCE(w.weight, %(default_weight)s))
    FROM engagement_dailycount d {{join_users}}
    {WHERE_SCORED} AND d.{{id_column}} = %(subject)s AND d.day BETWEEN %(first_day)s AND %(today)s
    GROUP BY d.user_id ORDER BY 2 DESC, 1 LIMIT %(limit)s
"""
_BY_DAY: LiteralString = f"""
    SELECT d.day, sum({{points}} * COALESCE(w.weight, %(default_weight)s))
    FROM engagement_dailycount d {{join_users}}
    {WHERE_SCORED} AND d.{{id_column}} = %(subject)s AND d.day BETWEEN %(days_from)s AND %(today)s
    GROUP BY d.day
"""
# A large account has many counts of a few names and days. So these are read once, and weights and
# names are joined to what is left of them.
_SUMMARY: LiteralString = f"""
    WITH by_day AS MATERIALIZED (
        SELECT d.event_name_id,
            CASE WHEN d.day BETWEEN LEAST(%(days_from)s, {{before_from}}) AND %(today)s
                 THEN d.day END AS day,
            sum(d.count) AS count
        FROM engagement_dailycount d {{join_users}}
        WHERE d.product_id = %(product)s AND d.{{id_column}} = %(subject)s
        GROUP BY 1, 2
    ),
    scored AS MATERIALIZED (
        SELECT d.event_name_id, d.day, d.count, COALESCE(w.weight, %(default_weight)s) AS weight
        FROM (SELECT %(product)s::bigint AS product_id, * FROM by_day) d
        {WHERE_SCORED}
    )
    SELECT n.name, NULL, s.weight, s.total, s.count, s.yesterday_count, s.before_count,
        s.now, s.yesterday, s.before
    FROM (
        SELECT d.event_name_id, d.weight, sum(d.count) AS total, {COUNTS}
        FROM scored d GROUP BY d.event_name_id, d.weight
    ) s
    LEFT JOIN engagement_eventname n ON n.product_id = %(product)s AND n.id = s.event_name_id
        AND s.now + s.yesterday + s.before > 0
    UNION ALL
    SELECT NULL, day, NULL, sum({{points}} * weight), NULL, NULL, NULL, NULL, NULL, NULL
    FROM scored d WHERE day IS NOT NULL GROUP BY day
"""


def summarize_counts(score_set: ScoreSet, scope: Scope, subject_id: int) -> CountSummary:
    """Read the subject's daily counts once. It agrees with the functions for each part."""
    days_from = _history_days_from(score_set)
    rows = fetch_counts(_SUMMARY, score_set, get_kind(scope), subject_id, days_from=days_from)
    by_name = [(name, *numbers) for name, day, *numbers in rows if day is None]
    return CountSummary(
        AllTimeTotals(sum(int(total) for _, _, total, *_ in by_name), len(by_name)),
        sort_by_points(
            [
                event_points(score_set, name, weight, *counts)
                for name, weight, _, *counts in by_name
                if name is not None
            ]
        ),
        {day: int(points) for _, day, _, points, *_ in rows if day is not None},
    )


def score_breakdown(score_set: ScoreSet, scope: Scope, subject_id: int) -> list[EventPoints]:
    """The subject's raw score by event name, most points first, with those of complete days.

    The points add up to the raw score.
    """
    rows = fetch_counts(_BREAKDOWN, score_set, get_kind(scope), subject_id)
    return sort_by_points([event_points(score_set, *row) for row in rows])


def event_points(score_set: ScoreSet, name: str, *numbers: int) -> EventPoints:
    """*numbers* are the weight, and those of ``COUNTS``. A union makes decimals of them."""
    weight, count, _, _, *raws = map(int, numbers)
    return EventPoints(name, weight, count, *shown_of_days(score_set, *(weight * n for n in raws)))


def shown_of_days(score_set: ScoreSet, *raws: int) -> tuple[int, int, int]:
    """The points that people see of parts of ``raw``, ``raw_yesterday``, and
    ``raw_yesterday_last_period``."""
    now, yesterday, before = raws
    today, lookback = last_scored_day(score_set), timedelta(days=score_set.lookback_days)
    day = timedelta(days=1)
    return (
        shown_points(score_set, now, today),
        shown_points(score_set, yesterday, today - day),
        shown_points(score_set, before, today - day - lookback),
    )


def sort_by_points(events: Sequence[EventPoints]) -> list[EventPoints]:
    return sorted(
        events,
        key=lambda event: (
            -event.points,
            -event.yesterday_points,
            -event.before_points,
            event.name,
        ),
    )


def all_time_totals(score_set: ScoreSet, scope: Scope, subject_id: int) -> AllTimeTotals:
    ((events, event_names),) = fetch_counts(_ALL_TIME, score_set, get_kind(scope), subject_id)
    return AllTimeTotals(int(events), event_names)


def all_time_totals_of(
    score_set: ScoreSet, scope: Scope, subject_ids: Collection[int]
) -> dict[int, AllTimeTotals]:
    """As ``all_time_totals``, for several subjects in one statement, by their ids."""
    totals = dict.fromkeys(subject_ids, AllTimeTotals(0, 0))
    if not totals:
        return totals
    kind = get_kind(scope)
    rows = fetch_counts(_ALL_TIME_BY_SUBJECT, score_set, kind, 0, subjects=list(totals))
    return totals | {id: AllTimeTotals(int(events), names) for id, events, names in rows}


def points_by_user(score_set: ScoreSet, account_id: int, limit: int) -> list[UserPoints]:
    """The users who add most to the account's raw score within the window, most points first."""
    rows = fetch_counts(_BY_USER, score_set, get_kind("account"), account_id, limit=limit)
    today = last_scored_day(score_set)
    return [UserPoints(user_id, shown_points(score_set, int(raw), today)) for user_id, raw in rows]


def score_history(
    score_set: ScoreSet,
    row: UserEngagement | AccountEngagement,
    points: dict[date, int] | None = None,
) -> list[DayScore]:
    """The subject's score on each of the last HISTORY_DAYS days; the set's ``scored_day`` is last.

    Uses today's definition, and each day's window and benchmark. On the days that the metrics of
    *row*, the subject's engagement row, are about, the scores equal these metrics. *points* are
    what each day adds to raw scores, if that is read already.
    """
    kind = kind_of(row)
    if points is None:
        days_from = _history_days_from(score_set)
        rows = fetch_counts(_BY_DAY, score_set, kind, kind.subject_id(row), days_from=days_from)
        points = {day: int(total) for day, total in rows}
    benchmarks = benchmarks_of_days(score_set, kind, HISTORY_DAYS)
    return scores_of_days(score_set, row, points, benchmarks)


def scores_of_days(
    score_set: ScoreSet,
    row: UserEngagement | AccountEngagement,
    points: dict[date, int],
    benchmarks: dict[date, float | None],
) -> list[DayScore]:
    """The scores of the row's subject on the consecutive days of the *benchmarks*, the last of
    which is ``scored_day``."""
    last_day, lookback = last_scored_day(score_set), timedelta(days=score_set.lookback_days)
    before = last_day - timedelta(days=1)
    raw = raw_by_day(score_set, row, points, list(benchmarks))
    # There may be counts that are not scored yet, but numbers on one page must agree.
    raw |= {last_day: row.raw, before: row.raw_yesterday, last_day - lookback: row.raw_last_period}
    if row.raw_yesterday_last_period is not None:
        raw[before - lookback] = row.raw_yesterday_last_period
    return [
        DayScore(day, rounded_score(raw[day], benchmark)) for day, benchmark in benchmarks.items()
    ]


def _history_days_from(score_set: ScoreSet) -> date:
    """The first day of the window that ends with the first day of the history."""
    days = HISTORY_DAYS - 1 + score_set.lookback_days - 1
    return last_scored_day(score_set) - timedelta(days=days)


def raw_by_day(
    score_set: ScoreSet,
    row: UserEngagement | AccountEngagement,
    points: dict[date, int],
    days: list[date],
) -> dict[date, int]:
    """The raw scores at the ends of the *days*, which are consecutive. *points* are what each day
    adds to raw scores, from one lookback before the first of them on."""
    lookback = score_set.lookback_days
    first = days[0] - timedelta(days=lookback)
    by_day = [points.get(first + timedelta(days=n), 0) for n in range(len(days) + lookback)]
    sums = list(accumulate(by_day))
    if score_set.half_life_days is None:
        return {day: sums[n + lookback] - sums[n] for n, day in enumerate(days)}
    # The row knows the sum until then, and needs no older counts.
    settled = row.settled_before or days[0]
    of_settled = sum(added for day, added in points.items() if first <= day < settled)
    rest = (row.raw_yesterday_last_period or 0) - of_settled
    return {day: max(0, rest + sums[n + lookback]) for n, day in enumerate(days)}


def benchmarks_of_days(
    score_set: ScoreSet, kind: SubjectKind, number: int
) -> dict[date, float | None]:
    """The benchmarks of that many days, of which ``scored_day`` is the last. A day without a row
    has the benchmark of the day before it."""
    rows = DailyBenchmark.objects.filter(score_set=score_set).order_by("day")
    stored: dict[date, float | None] = dict(rows.values_list("day", kind.plural))
    first = last_scored_day(score_set) - timedelta(days=number - 1)
    earlier = [benchmark for day, benchmark in stored.items() if day < first]
    benchmark = earlier[-1] if earlier else None
    benchmarks = {}
    for day in (first + timedelta(days=n) for n in range(number)):
        benchmark = stored.get(day, benchmark)
        benchmarks[day] = benchmark
    return benchmarks


def fetch_counts(
    statement: LiteralString,
    score_set: ScoreSet,
    kind: SubjectKind,
    subject_id: int,
    **more: object,
) -> list[sql.Row]:
    """The rows of a statement about the subject's daily counts "d", filtered by WHERE_SCORED."""
    return sql.fetch(
        statement.format(
            join_users=join_counted_users(score_set, kind),
            id_column=kind.id_column,
            **counting(score_set),
        ),
        {**query_parameters(score_set, last_scored_day(score_set)), "subject": subject_id, **more},
    )


def last_scored_day(score_set: ScoreSet) -> date:
    assert score_set.scored_day is not None, "A set that readers see has been scored."
    return score_set.scored_day
