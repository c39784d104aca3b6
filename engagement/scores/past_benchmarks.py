"""Benchmarks of the days before today: taken with a set of scores, and again where counts of those
days changed since.

So the scores of past days are the same whether their events came in time, late, or all at once.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from datetime import date, datetime, timedelta
from typing import Any, LiteralString, TypeAlias

from django.db import transaction
from django.db.models import F, Q

from engagement.database import locks, sql
from engagement.models import DailyBenchmark, ScoreSet
from engagement.scores.benchmarks import COMPARISON_FIELDS, HISTORY_DAYS, set_comparison_benchmarks
from engagement.scores.raw import JOIN_AUDIENCE_USERS, JOIN_IDENTIFIED_USERS, query_parameters

logger = logging.getLogger(__name__)

_Benchmarks: TypeAlias = dict[date, float | None]

# A statement that takes benchmarks is stopped after so many seconds.
STATEMENT_TIMEOUT_SECONDS = 60.0
# Benchmarks of the past are taken from so many users and accounts, picked evenly, or from all if
# fewer: an account has the counts of all its users.
USER_SAMPLE_SIZE, ACCOUNT_SAMPLE_SIZE = 10_000, 3_000
# Taking them again may take up to this share of the time, and happens at most so often: events
# that are a day late come all the time.
MAX_TIME_SHARE = 0.01
MIN_PAUSE_SECONDS = 10.0
# Scoring of the product waits while these are taken, so it is done for so many days at once.
DAYS_PER_STEP = 30
DAY = timedelta(days=1)


# --- When -----------------------------------------------------------------------------------


def invalidate_from(score_sets: Collection[ScoreSet], day: date) -> None:
    """Have the sets' benchmarks from *day* on taken again, in the caller's transaction.

    For whoever holds the right to score the product.
    """
    reached = Q(past_benchmarks_stale_from=None) | Q(past_benchmarks_stale_from__gt=day)
    stale = ScoreSet.objects.filter(reached, pk__in=[one.pk for one in score_sets])
    stale.filter(scored_day__gt=day).update(past_benchmarks_stale_from=day)


def refresh_due(now: datetime, out_of_time: Callable[[], bool]) -> None:
    """Take benchmarks of the past again where they are stale and due; the longest waiting first.

    Ends when *out_of_time* says so, but not before one set had its turn.
    """
    stale = ScoreSet.objects.filter(
        state=ScoreSet.State.CURRENT, past_benchmarks_stale_from__isnull=False
    )
    for score_set in stale.order_by(F("past_benchmarks_at").asc(nulls_first=True), "pk"):
        if _is_due(score_set, now):
            _take_again(score_set.pk, now)
            if out_of_time():
                return


def _is_due(score_set: ScoreSet, now: datetime) -> bool:
    if score_set.past_benchmarks_at is None:
        return True
    pause = max(MIN_PAUSE_SECONDS, score_set.past_benchmarks_seconds / MAX_TIME_SHARE)
    return now >= score_set.past_benchmarks_at + timedelta(seconds=pause)


def _take_again(pk: int, now: datetime) -> None:
    """Take the stale benchmarks of the set in steps, the earliest days first.

    A crash, or whoever scores the product meanwhile, leaves the rest for the next time.
    """
    started = time.monotonic()
    first: date | None = None
    while True:
        with transaction.atomic(durable=True):
            score_set = _hold(pk)
            if score_set is None:
                return
            first = _step(score_set, first)
            if first is None:
                _finish(score_set, now, time.monotonic() - started)
                return


def _hold(pk: int) -> ScoreSet | None:
    """The set, if it is still read, its past is stale, and nobody else is scoring its product."""
    found = ScoreSet.objects.filter(pk=pk).first()
    if found is None or not locks.try_lock_scoring(found.product_id):
        return None
    stale = ScoreSet.objects.select_for_update(no_key=True).filter(
        past_benchmarks_stale_from__isnull=False
    )
    return stale.filter(pk=pk, state=ScoreSet.State.CURRENT).first()


def _step(score_set: ScoreSet, go_on_from: date | None) -> date | None:
    """Take the benchmarks of the next days; where the step after this one begins, if any.

    What became stale between two steps may lie before *go_on_from*. It stays stale for the next
    time, or those steps would never come to an end.
    """
    today, stale_from = score_set.scored_day, score_set.past_benchmarks_stale_from
    assert today is not None and stale_from is not None
    first = go_on_from or max(stale_from, today - (HISTORY_DAYS - 1) * DAY)
    last = min(first + (DAYS_PER_STEP - 1) * DAY, today - DAY)
    if first <= last:
        _take_days(score_set, today, first, last)
    following = last + DAY if last + DAY < today else None
    if go_on_from is None or stale_from >= first:
        score_set.past_benchmarks_stale_from = following
        score_set.save(update_fields=["past_benchmarks_stale_from"])
    return following


def _finish(score_set: ScoreSet, now: datetime, seconds: float) -> None:
    assert score_set.scored_day is not None
    set_comparison_benchmarks(score_set, score_set.scored_day)
    score_set.past_benchmarks_at, score_set.past_benchmarks_seconds = now, seconds
    # Segments go by changes of scores. Whoever is taking today's benchmarks just now has looked
    # back already.
    score_set.cached_counts_stale = score_set.benchmarks_stale = True
    written = [
        "past_benchmarks_at",
        "past_benchmarks_seconds",
        "cached_counts_stale",
        "benchmarks_stale",
    ]
    score_set.save(update_fields=[*COMPARISON_FIELDS, *written])


# --- What -----------------------------------------------------------------------------------

# Subject by subject, so that memory is bounded. A grid of days, because a window also has a sum on
# days without an event; its sums are floats, because those of integers are numeric and slow.
_PAST: LiteralString = """
    WITH sample AS MATERIALIZED (
        SELECT {subject} AS subject FROM {table}
        WHERE score_set_id = %(score_set)s AND last_active_at >= %(grid_from)s
          AND (hashint8({subject}) & 2147483647) %% %(one_in)s = 0),
    grid AS MATERIALIZED (
        SELECT day::date AS day FROM generate_series(
            %(grid_from)s::date, %(past_until)s::date, interval '1 day') AS day)
    SELECT day, percentile_cont(0.9) WITHIN GROUP (ORDER BY raw)
    FROM sample CROSS JOIN LATERAL (
        SELECT grid.day, sum(points) OVER (
                   ORDER BY grid.day
                   ROWS BETWEEN %(lookback_days)s - 1 PRECEDING AND CURRENT ROW) AS raw
        FROM grid LEFT JOIN (
            SELECT d.day, sum(d.count * COALESCE(w.weight, %(default_weight)s))::float8 AS points
            FROM engagement_dailycount d {counted}
            LEFT JOIN engagement_scoredevent w
                ON w.score_set_id = %(score_set)s AND w.event_name_id = d.event_name_id
            WHERE d.product_id = {product} AND d.{subject} = sample.subject
              AND d.day BETWEEN %(grid_from)s AND %(past_until)s
            GROUP BY d.day) counted USING (day)) moving
    WHERE day >= %(past_from)s AND raw > 0 GROUP BY day
"""
# Rows have the raw scores of two days of the past: their benchmarks need no sample.
_COMPARED: LiteralString = """
    SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY {raw})
    FROM {table} WHERE score_set_id = %(score_set)s AND {raw} > 0
"""
_COUNT: LiteralString = """
    SELECT count(*) FROM {table}
    WHERE score_set_id = %(score_set)s AND last_active_at >= %(grid_from)s
"""


def compute_past_benchmarks(score_set: ScoreSet, now: datetime, today: date) -> None:
    """Take the set's benchmarks of all days before *today* that history reaches back to."""
    started = time.monotonic()
    for first, last in _pieces(today - (HISTORY_DAYS - 1) * DAY, today - DAY):
        _take_days(score_set, today, first, last)
    score_set.past_benchmarks_stale_from, score_set.past_benchmarks_at = None, now
    score_set.past_benchmarks_seconds = time.monotonic() - started
    score_set.save(
        update_fields=[
            "past_benchmarks_stale_from",
            "past_benchmarks_at",
            "past_benchmarks_seconds",
        ]
    )


def _pieces(first: date, last: date) -> Iterator[tuple[date, date]]:
    while first <= last:
        end = min(first + (DAYS_PER_STEP - 1) * DAY, last)
        yield first, end
        first = end + DAY


def _take_days(score_set: ScoreSet, today: date, first: date, last: date) -> None:
    """Take the benchmarks of the days from *first* to *last*.

    Those that scores are compared with are of all subjects, the others of a sample where there are
    many. A day on which nobody scored has None. Where a statement takes too long, what was taken
    before is kept.
    """
    past = {
        **query_parameters(score_set, today),
        "lookback_days": score_set.lookback_days,
        "past_from": first,
        "past_until": last,
        "grid_from": first - (score_set.lookback_days - 1) * DAY,
    }
    counted = JOIN_AUDIENCE_USERS if score_set.audience else JOIN_IDENTIFIED_USERS
    try:
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            users = _past("engagement_userengagement", "user_id", "", past, USER_SAMPLE_SIZE)
            accounts = _past(
                "engagement_accountengagement", "account_id", counted, past, ACCOUNT_SAMPLE_SIZE
            )
    except sql.StatementTimeout:
        logger.warning(
            "Benchmarks of score set %d from %s to %s were not taken: too slow.",
            score_set.pk,
            first,
            last,
        )
        if first < last:
            _take_compared_days(score_set, today, first, last)
        return
    _write(score_set, [first + n * DAY for n in range((last - first).days + 1)], users, accounts)


def _take_compared_days(score_set: ScoreSet, today: date, first: date, last: date) -> None:
    """Take those of the days that scores are compared with: these need no daily counts."""
    for day in {today - score_set.lookback_days * DAY, today - DAY}:
        if first <= day <= last:
            _take_days(score_set, today, day, day)


def _write(
    score_set: ScoreSet, days: list[date], users: _Benchmarks, accounts: _Benchmarks
) -> None:
    DailyBenchmark.objects.bulk_create(
        (
            DailyBenchmark(
                score_set=score_set, day=day, users=users.get(day), accounts=accounts.get(day)
            )
            for day in days
        ),
        update_conflicts=True,
        unique_fields=["score_set", "day"],
        update_fields=["users", "accounts"],
    )


def _past(
    table: LiteralString,
    subject: LiteralString,
    counted: LiteralString,
    past: dict[str, Any],
    sampled: int,
) -> _Benchmarks:
    first, last, today = past["past_from"], past["past_until"], past["today"]
    # A lookback of a day makes both of them yesterday.
    compared: dict[date, LiteralString] = {
        today - past["lookback_days"] * DAY: "raw_last_period",
        today - DAY: "raw_yesterday",
    }
    taken: _Benchmarks = {}
    if any(first + n * DAY not in compared for n in range((last - first).days + 1)):
        ((active,),) = sql.fetch(_COUNT.format(table=table), past)
        statement = _PAST.format(table=table, subject=subject, counted=counted, product=sql.PRODUCT)
        taken = dict(sql.fetch(statement, past | {"one_in": -(-active // sampled) or 1}))
    for day, raw in compared.items():
        if first <= day <= last:
            ((taken[day],),) = sql.fetch(_COMPARED.format(table=table, raw=raw), past)
    return taken


def delete_expired(today: date) -> None:
    """Delete the benchmarks of days that neither history nor a comparison reaches back to."""
    DailyBenchmark.objects.filter(day__lt=today - (HISTORY_DAYS + 31) * DAY).delete()
