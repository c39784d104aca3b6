"""Benchmarks of the days before today.

They are computed with a score set, and again when counts of those days change. So the scores of
past days are the same whether their events came in time, late, or all at once.
"""

import logging
from collections.abc import Collection
from datetime import date, datetime, timedelta
from typing import Any, LiteralString, TypeAlias

from django.db.models import Q, QuerySet

from core.database import locks, nodes, sql
from core.jobs.kinds import Blocked, Done, Later, More, Outcome
from core.models import Job
from engagement.models import DailyBenchmark, ScoreSet
from engagement.scopes import ACCOUNTS, USERS, SubjectKind
from engagement.scores.benchmarks import HISTORY_DAYS, OnChange, compare_with_past, compared_days
from engagement.scores.raw import counting, join_counted_users, query_parameters

logger = logging.getLogger(__name__)

_Benchmarks: TypeAlias = dict[date, float | None]

STATEMENT_TIMEOUT_SECONDS = 60.0
# Past benchmarks come from an even sample. Accounts are fewer, because each has the counts of all
# its users.
USER_SAMPLE_SIZE, ACCOUNT_SAMPLE_SIZE = 10_000, 3_000
# The cursor of the last step: all days are computed. Before, it is the first day of the next step.
COMPARE = "compare"
# Scoring of the product waits for each step.
DAYS_PER_STEP = 30
DAY = timedelta(days=1)


# --- When -----------------------------------------------------------------------------------


def invalidate_from(score_sets: Collection[ScoreSet], day: date) -> None:
    """Have the benchmarks and figures from *day* on computed again, in the caller's transaction.

    The caller holds the lock on scoring the product.
    """
    ids = [score_set.pk for score_set in score_sets]
    for name in ("past_benchmarks_stale_from", "figures_stale_from"):
        is_earlier = Q((name, None)) | Q((f"{name}__gt", day))
        rows = ScoreSet.objects.filter(is_earlier, pk__in=ids, scored_day__gt=day)
        rows.update(**{name: day})


def _stale_sets() -> QuerySet[ScoreSet]:
    return ScoreSet.objects.filter(
        state=ScoreSet.State.CURRENT, past_benchmarks_stale_from__isnull=False
    )


def sets_to_refresh() -> QuerySet[ScoreSet, int]:
    """The keys of a job: the current sets with stale past benchmarks."""
    return nodes.reachable(_stale_sets()).order_by("pk").values_list("pk", flat=True)


def refresh(job: Job, now: datetime, on_change: OnChange) -> Outcome:
    """A step of a job: compute stale benchmarks of the set, those of the earliest days first.

    After the last of them, a step has scores compared with the new benchmarks.
    """
    score_set = ScoreSet.objects.filter(pk=job.key).first()
    if score_set is None:
        return Done()
    if not locks.try_lock_scoring(score_set.product_id):
        return Blocked()
    if job.cursor == COMPARE:
        compare_with_past(score_set.pk, on_change)
        return Later()
    stale = _stale_sets().select_for_update(no_key=True).filter(pk=score_set.pk).first()
    if stale is None:
        return Done()
    next_first = _step(stale, date.fromisoformat(job.cursor) if job.cursor else None)
    return More(next_first.isoformat() if next_first else COMPARE)


def _step(score_set: ScoreSet, resume_from: date | None) -> date | None:
    """Compute the benchmarks of the next days; return the first day of the next step, or None.

    Days before *resume_from* that became stale between two steps stay stale until the job has
    rested. Otherwise the steps might never end.
    """
    today, stale_from = score_set.scored_day, score_set.past_benchmarks_stale_from
    assert today is not None and stale_from is not None
    first = resume_from or max(stale_from, today - (HISTORY_DAYS - 1) * DAY)
    last = min(first + (DAYS_PER_STEP - 1) * DAY, today - DAY)
    if first <= last:
        _compute_days(score_set, today, first, last)
    next_first = last + DAY if last + DAY < today else None
    if resume_from is None or stale_from >= first:
        score_set.past_benchmarks_stale_from = next_first
        score_set.save(update_fields=["past_benchmarks_stale_from"])
    return next_first


# --- What -----------------------------------------------------------------------------------

# Each subject is summed by itself, which bounds memory. The grid has all days, because a window
# also has a sum on days without an event. Sums are floats: integer sums are numeric, and slow.
_BY_DAY: LiteralString = """
    WITH sample AS MATERIALIZED (
        SELECT {id_column} AS subject {and_settled} FROM {table}
        WHERE product_id = %(product)s AND score_set_id = %(score_set)s
          AND last_active_at >= %(grid_from)s
          AND (hashint8({id_column}) & 2147483647) %% %(one_in)s = 0),
    grid AS MATERIALIZED (
        SELECT day::date AS day FROM generate_series(
            %(grid_from)s::date, %(grid_until)s::date, interval '1 day') AS day)
    SELECT day, percentile_cont(0.9) WITHIN GROUP (ORDER BY raw)
    FROM sample CROSS JOIN LATERAL (
        SELECT grid.day, sum(points) OVER recent AS recent, {raw} AS raw
        FROM grid LEFT JOIN (
            SELECT d.day, sum({points} * COALESCE(w.weight, %(default_weight)s))::float8 AS points
            FROM engagement_dailycount d {join_users}
            LEFT JOIN engagement_scoredevent w
                ON w.score_set_id = %(score_set)s AND w.event_name_id = d.event_name_id
            WHERE d.product_id = %(product)s AND d.{id_column} = sample.subject
              AND d.day BETWEEN %(grid_from)s AND %(grid_until)s
            GROUP BY d.day) counts USING (day)
        WINDOW recent AS (
            ORDER BY grid.day ROWS BETWEEN %(lookback_days)s - 1 PRECEDING AND CURRENT ROW)
    ) windows
    WHERE day BETWEEN %(past_from)s AND %(past_until)s AND recent > 0 AND raw > 0 GROUP BY day
"""
_BY_LOOKBACK: dict[str, LiteralString] = {"and_settled": "", "raw": "sum(points) OVER recent"}
# What is settled, with the days after it or without those before its end.
_BY_HALF_LIFE: dict[str, LiteralString] = {
    "and_settled": ", raw_yesterday_last_period::float8 AS settled, settled_before",
    "raw": """
        sample.settled + COALESCE(sum(points) OVER (ORDER BY grid.day), 0)
        - COALESCE(sum(points) FILTER (WHERE grid.day < sample.settled_before) OVER (), 0)
    """,
}
# Engagement rows have the raw scores of three past days, so these need neither counts nor a sample,
# unless the release before wrote some of the rows. With a half-life they tell of yesterday alone
# who was active.
_OF_COMPARISON: LiteralString = """
    SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY {raw}) FILTER (WHERE {raw} > {inactive}),
           COALESCE(bool_and({raw} IS NOT NULL), true)
    FROM {table} WHERE score_set_id = %(score_set)s AND product_id = %(product)s
"""
_COUNT: LiteralString = """
    SELECT count(*) FROM {table}
    WHERE product_id = %(product)s AND score_set_id = %(score_set)s
      AND last_active_at >= %(grid_from)s
"""


def compute_past_benchmarks(score_set: ScoreSet, today: date) -> None:
    """Compute the benchmarks of all days before *today* that history covers, and store them."""
    for days in range(HISTORY_DAYS - 1, 0, -DAYS_PER_STEP):
        last = today - max(days - DAYS_PER_STEP + 1, 1) * DAY
        _compute_days(score_set, today, today - days * DAY, last)
    score_set.past_benchmarks_stale_from = None
    score_set.save(update_fields=["past_benchmarks_stale_from"])


def _compute_days(score_set: ScoreSet, today: date, first: date, last: date) -> None:
    """Compute and store the benchmarks of the days from *first* to *last*.

    The days that scores are compared with use all subjects, the others a sample. A day without any
    points has None. After a timeout the old benchmarks stay.
    """
    parameters = _parameters(score_set, today, first, last)
    try:
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            users = _benchmarks(score_set, USERS, parameters, USER_SAMPLE_SIZE)
            accounts = _benchmarks(score_set, ACCOUNTS, parameters, ACCOUNT_SAMPLE_SIZE)
    except sql.StatementTimeout:
        logger.warning(
            "Computing the benchmarks of score set %d from %s to %s took too long.",
            score_set.pk,
            first,
            last,
        )
        if first < last:
            _compute_comparison_days(score_set, today, first, last)
        return
    DailyBenchmark.objects.bulk_create(
        (
            DailyBenchmark(
                score_set=score_set, day=day, users=users.get(day), accounts=accounts.get(day)
            )
            for day in _days(first, last)
        ),
        update_conflicts=True,
        unique_fields=["score_set", "day"],
        update_fields=["users", "accounts"],
    )


def _parameters(score_set: ScoreSet, today: date, first: date, last: date) -> dict[str, Any]:
    return {
        **query_parameters(score_set, today),
        "lookback_days": score_set.lookback_days,
        "past_from": first,
        "past_until": last,
        "grid_from": first - (score_set.lookback_days - 1) * DAY,
        "grid_until": today if score_set.half_life_days else last,
    }


def set_compared(score_set: ScoreSet, kind: SubjectKind) -> None:
    """Set the benchmarks of the days that scores are compared with, without saving them."""
    today = score_set.scored_day
    assert today is not None
    for of, day in compared_days(score_set, today).items():
        parameters = _parameters(score_set, today, day, day)
        benchmark = _benchmarks(score_set, kind, parameters, USER_SAMPLE_SIZE).get(day)
        setattr(score_set, f"{kind.scope}_benchmark{of}", benchmark)


def _compute_comparison_days(score_set: ScoreSet, today: date, first: date, last: date) -> None:
    """Compute only the days that scores are compared with. They need no daily counts."""
    for day in _comparison_columns(score_set, today):
        if first <= day <= last:
            _compute_days(score_set, today, day, day)


def _comparison_columns(score_set: ScoreSet, today: date) -> dict[date, LiteralString]:
    """The days that scores are compared with, and the columns that have their raw scores."""
    if score_set.half_life_days:
        return {today - DAY: "raw_yesterday"}
    lookback = score_set.lookback_days * DAY
    # With a lookback of one day, the first of the next two is yesterday, too.
    return {
        today - lookback: "raw_last_period",
        today - DAY: "raw_yesterday",
        today - DAY - lookback: "raw_yesterday_last_period",
    }


def _days(first: date, last: date) -> list[date]:
    return [first + n * DAY for n in range((last - first).days + 1)]


def _benchmarks(
    score_set: ScoreSet, kind: SubjectKind, parameters: dict[str, Any], sample_size: int
) -> _Benchmarks:
    table = kind.engagement_table
    first, last, today = parameters["past_from"], parameters["past_until"], parameters["today"]
    exact: _Benchmarks = {}
    for day, raw in _comparison_columns(score_set, today).items():
        if first <= day <= last:
            inactive = "raw_yesterday_last_period" if score_set.half_life_days else "0"
            statement = _OF_COMPARISON.format(table=table, raw=raw, inactive=inactive)
            ((benchmark, is_known),) = sql.fetch(statement, parameters)
            exact |= {day: benchmark} if is_known else {}
    benchmarks: _Benchmarks = {}
    if any(day not in exact for day in _days(first, last)):
        ((active,),) = sql.fetch(_COUNT.format(table=table), parameters)
        statement = _BY_DAY.format(
            table=table,
            id_column=kind.id_column,
            join_users=join_counted_users(score_set, kind),
            points=counting(score_set)["points"],
            **(_BY_HALF_LIFE if score_set.half_life_days else _BY_LOOKBACK),
        )
        one_in = -(-active // sample_size) or 1
        benchmarks = dict(sql.fetch(statement, parameters | {"one_in": one_in}))
    return benchmarks | exact


def delete_expired(today: date) -> None:
    """Delete the benchmarks of days that neither history nor a comparison needs."""
    DailyBenchmark.objects.filter(day__lt=today - (HISTORY_DAYS + 31) * DAY).delete()
