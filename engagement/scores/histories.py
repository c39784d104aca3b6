"""The scores of the last days of many subjects: lines of a list, exports, and timelines."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, LiteralString

from core.database import sql
from engagement.models import ScoreSet
from engagement.scopes import SubjectKind
from engagement.scores.history import (
    DayScore,
    benchmarks_of_days,
    last_scored_day,
    scores_of_days,
)
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
    """The scores at the ends of the last DAYS days of the subjects of *rows*, by subject id."""
    histories = score_histories(score_set, kind, rows, DAYS)
    return {id: [each.score for each in history] for id, history in histories.items()}


def score_histories(
    score_set: ScoreSet, kind: SubjectKind, rows: Sequence[Any], days: int
) -> dict[int, list[DayScore]]:
    """The scores of the last *days* of the subjects of *rows*, by subject id.

    As ``engagement.scores.history.score_history``, which tells of one subject.
    """
    if not rows:
        return {}
    today = last_scored_day(score_set)
    days_from = today - timedelta(days=days + score_set.lookback_days - 2)
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
    benchmarks = benchmarks_of_days(score_set, kind, days)
    by_row = ((kind.subject_id(row), row) for row in rows)
    return {id: scores_of_days(score_set, row, points[id], benchmarks) for id, row in by_row}
