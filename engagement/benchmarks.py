"""Benchmarks: the 90th percentiles of the raw scores above zero, today and on the days before."""

import time
from datetime import date, datetime, timedelta
from typing import Any, LiteralString

from django.db import transaction

from engagement import sql
from engagement.models import DailyBenchmark, EventName, ScoredEvent, ScoreSet
from engagement.raw_scores import IN_AUDIENCE, KNOWN, parameters

# Benchmarks may take up to this share of the time: on large workspaces they are taken less often.
TIME_SHARE = 0.02
# The steps of a percentile: a tenth of a percent.
QUANTILES = 1000
# History goes back so many days, today included.
HISTORY_DAYS = 90
# Benchmarks of the past are taken from so many users and accounts, picked evenly, or from all if
# fewer: an account has the counts of all its users.
SAMPLED_USERS, SAMPLED_ACCOUNTS = 10_000, 3_000

_POINTS = [(number + 0.5) / QUANTILES for number in range(QUANTILES)]


# --- Today's --------------------------------------------------------------------------------

_TAKE: LiteralString = """
    SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY raw),
           percentile_disc(%(points)b::float8[]) WITHIN GROUP (ORDER BY raw)
    FROM {table} WHERE score_set_id = %(score_set)s AND raw > 0
"""
_TAKE_USERS = _TAKE.format(table="engagement_userengagement")
_TAKE_ACCOUNTS = _TAKE.format(table="engagement_accountengagement")


def refresh(now: datetime) -> None:
    """Take the benchmarks of the sets whose scores changed, where they are due again.

    A benchmark is the 90th percentile, linearly interpolated, of the raw scores above zero; None
    where there are none. Every score of the workspace changes with it, at the cost of one UPDATE.
    """
    for score_set in ScoreSet.objects.filter(benchmarks_stale=True, state="current"):
        if _is_due(score_set, now):
            take(score_set, now)


def _is_due(score_set: ScoreSet, now: datetime) -> bool:
    if score_set.benchmarks_at is None:
        return True
    pause = max(1.0, score_set.benchmark_seconds / TIME_SHARE)
    return now >= score_set.benchmarks_at + timedelta(seconds=pause)


def take(score_set: ScoreSet, now: datetime) -> None:
    """Take the set's benchmarks, quantiles and number of scored names as they are now."""
    # Cleared first: scores that change while this reads them make it stale again.
    ScoreSet.objects.filter(pk=score_set.pk).update(benchmarks_stale=False)
    started = time.monotonic()
    taken = {"score_set": score_set.pk, "points": _POINTS}
    ((users, user_quantiles),) = sql.fetch(_TAKE_USERS, taken)
    ((accounts, account_quantiles),) = sql.fetch(_TAKE_ACCOUNTS, taken)
    score_set.user_benchmark, score_set.user_quantiles = users, user_quantiles or []
    score_set.account_benchmark = accounts
    score_set.account_quantiles = account_quantiles or []
    score_set.scored_names = _scored_names(score_set)
    score_set.benchmarks_at = now
    score_set.benchmark_seconds = time.monotonic() - started
    # Segments go by shown scores.
    score_set.tally_stale = True
    day = score_set.scored_day
    assert day is not None, "A set whose scores changed has been scored."
    with transaction.atomic():
        DailyBenchmark.objects.update_or_create(
            score_set=score_set, day=day, defaults={"users": users, "accounts": accounts}
        )
        _look_back(score_set, day)
        score_set.save(update_fields=_TAKEN)


_TAKEN = [
    "user_benchmark",
    "user_benchmark_yesterday",
    "user_benchmark_last_period",
    "user_quantiles",
    "account_benchmark",
    "account_benchmark_yesterday",
    "account_benchmark_last_period",
    "account_quantiles",
    "scored_names",
    "benchmarks_at",
    "benchmark_seconds",
    "tally_stale",
]


def _scored_names(score_set: ScoreSet) -> int:
    if score_set.default_weight:
        return EventName.objects.filter(product_id=score_set.product_id).count()
    return ScoredEvent.objects.filter(score_set=score_set).count()


def _look_back(score_set: ScoreSet, day: date) -> None:
    """Put the benchmarks of a day ago and of one lookback ago beside those of *day*."""
    users, accounts = on_day(score_set, day - timedelta(days=1))
    score_set.user_benchmark_yesterday, score_set.account_benchmark_yesterday = users, accounts
    users, accounts = on_day(score_set, day - timedelta(days=score_set.lookback_days))
    score_set.user_benchmark_last_period, score_set.account_benchmark_last_period = users, accounts


def on_day(score_set: ScoreSet, day: date) -> tuple[float | None, float | None]:
    """The benchmarks of users and accounts as they stood at the end of the day."""
    known = DailyBenchmark.objects.filter(score_set=score_set, day__lte=day).order_by("-day")
    return known.values_list("users", "accounts").first() or (None, None)


# --- Those of the past ----------------------------------------------------------------------

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


def take_past(score_set: ScoreSet, today: date) -> None:
    """Take the benchmarks of the days before *today* that history reaches back to.

    Those that scores are compared with are of all subjects, the others of a sample where there are
    many. A day on which nobody scored has None.
    """
    past = {
        **parameters(score_set, today),
        "lookback_days": score_set.lookback_days,
        "past_from": today - timedelta(days=HISTORY_DAYS - 1),
        "past_until": today - timedelta(days=1),
        "grid_from": today - timedelta(days=HISTORY_DAYS + score_set.lookback_days - 2),
    }
    users = _past("engagement_userengagement", "user_id", "", past, SAMPLED_USERS)
    counted = IN_AUDIENCE if score_set.audience else KNOWN
    accounts = _past("engagement_accountengagement", "account_id", counted, past, SAMPLED_ACCOUNTS)
    days = [past["past_from"] + timedelta(days=n) for n in range(HISTORY_DAYS - 1)]
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
) -> dict[date, float]:
    ((active,),) = sql.fetch(_COUNT.format(table=table), past)
    statement = _PAST.format(table=table, subject=subject, counted=counted, product=sql.PRODUCT)
    taken = dict(sql.fetch(statement, past | {"one_in": -(-active // sampled) or 1}))
    last_period = past["today"] - timedelta(days=past["lookback_days"])
    # A lookback of a day makes both of them yesterday.
    for day, raw in ((last_period, "raw_last_period"), (past["past_until"], "raw_yesterday")):
        ((taken[day],),) = sql.fetch(_COMPARED.format(table=table, raw=raw), past)
    return taken


def forget_past(today: date) -> None:
    """Delete the benchmarks of days that neither history nor a comparison reaches back to."""
    DailyBenchmark.objects.filter(day__lt=today - timedelta(days=HISTORY_DAYS + 31)).delete()
