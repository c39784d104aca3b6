"""The scores of the last 30 days of many subjects, for the lines of a list."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, LiteralString

from core.database import sql
from engagement.models import DailyBenchmark, ScoreSet
from engagement.scopes import SubjectKind
from engagement.scores.formula import rounded_score
from engagement.scores.history import last_scored_day, raw_by_day
from engagement.scores.raw import counting, join_counted_users, query_parameters

DAYS = 30
# A page sums about as many daily counts. Those of a few very large accounts take longer than a page
# may, so their lines are loaded later.
MAX_COUNTS = 20_000

_BY_DAY: LiteralString = """
    SELECT d.{id_column}, d.day, sum({points} * COALESCE(w.weight, %(default_weight)s))::bigint
    FROM engagement_dailycount d
    {join_users}
    LEFT JOIN engagement_scoredevent w
        ON w.score_set_id = %(score_set)s AND w.event_name_id = d.event_name_id
    WHERE d.product_id = %(product)s AND d.{id_column} = ANY(%(subjects)b::bigint[])
      AND d.day BETWEEN %(days_from)s AND %(today)s
    GROUP BY 1, 2
"""


def quick_rows(score_set: ScoreSet, rows: Sequence[Any]) -> list[Any]:
    """The rows with the fewest counts, as many as a page has time for.

    A row says how many events it has in its window, each of which is at most one daily count.
    """
    share = (DAYS + score_set.lookback_days - 1) / score_set.lookback_days
    quick, total = [], 0.0
    for row in sorted(rows, key=lambda row: row.event_count):
        total += row.event_count * share
        if total > MAX_COUNTS:
            break
        quick.append(row)
    return quick


def recent_scores(
    score_set: ScoreSet, kind: SubjectKind, rows: Sequence[Any]
) -> dict[int, list[float]]:
    """The scores at the ends of the last DAYS days of the subjects of *rows*, by subject id.

    As ``engagement.scores.history.score_history``, which tells of one subject.
    """
    if not rows:
        return {}
    today = last_scored_day(score_set)
    days_from = today - timedelta(days=DAYS + score_set.lookback_days - 2)
    parameters = {
        **query_parameters(score_set, today),
        "subjects": [kind.subject_id(row) for row in rows],
        "days_from": days_from,
    }
    statement = _BY_DAY.format(
        join_users=join_counted_users(score_set, kind),
        id_column=kind.id_column,
        points=counting(score_set)["points"],
    )
    points: dict[int, dict[date, int]] = defaultdict(dict)
    for subject_id, day, total in sql.fetch(statement, parameters):
        points[subject_id][day] = total
    benchmarks = _benchmarks(score_set, kind, today)
    return {
        kind.subject_id(row): _scores(score_set, row, points[kind.subject_id(row)], benchmarks)
        for row in rows
    }


def _scores(
    score_set: ScoreSet,
    row: Any,
    points: dict[date, int],
    benchmarks: Sequence[float | None],
) -> list[float]:
    today, lookback = last_scored_day(score_set), score_set.lookback_days
    days = [today - timedelta(days=ago) for ago in reversed(range(DAYS))]
    raw = list(raw_by_day(score_set, row, points, days).values())
    # There may be counts that are not scored yet, but numbers in one row must agree.
    raw[-1], raw[-2] = row.raw, row.raw_yesterday
    if lookback < DAYS:
        raw[-1 - lookback] = row.raw_last_period
    if lookback + 1 < DAYS and row.raw_yesterday_last_period is not None:
        raw[-2 - lookback] = row.raw_yesterday_last_period
    return [rounded_score(*pair) for pair in zip(raw, benchmarks, strict=True)]


def _benchmarks(score_set: ScoreSet, kind: SubjectKind, today: date) -> list[float | None]:
    """The benchmark of each day. A day without a row has the benchmark of the day before it."""
    rows = DailyBenchmark.objects.filter(score_set=score_set).order_by("day")
    stored = dict(rows.values_list("day", kind.plural))
    first = today - timedelta(days=DAYS - 1)
    earlier = [benchmark for day, benchmark in stored.items() if day < first]
    benchmark: float | None = earlier[-1] if earlier else None
    benchmarks = []
    for day in (first + timedelta(days=n) for n in range(DAYS)):
        benchmark = stored.get(day, benchmark)
        benchmarks.append(benchmark)
    return benchmarks
