"""Benchmarks: the 90th percentiles of the raw scores above zero."""

import logging
import time
from datetime import date, datetime, timedelta
from typing import LiteralString

from django.db import transaction

from engagement.database import sql
from engagement.models import DailyBenchmark, ScoreSet
from engagement.scores import event_names

logger = logging.getLogger(__name__)

# A statement that takes benchmarks is stopped after so many seconds.
STATEMENT_TIMEOUT_SECONDS = 60.0
# Benchmarks may take up to this share of the time: on large workspaces they are taken less often.
MAX_TIME_SHARE = 0.02
# The steps of a percentile: a tenth of a percent.
QUANTILES = 1000
# History goes back so many days, today included.
HISTORY_DAYS = 90

_POINTS = [(number + 0.5) / QUANTILES for number in range(QUANTILES)]


_TAKE: LiteralString = """
    SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY raw),
           percentile_disc(%(points)b::float8[]) WITHIN GROUP (ORDER BY raw)
    FROM {table} WHERE score_set_id = %(score_set)s AND raw > 0
"""
_TAKE_USERS = _TAKE.format(table="engagement_userengagement")
_TAKE_ACCOUNTS = _TAKE.format(table="engagement_accountengagement")


def refresh_due(now: datetime) -> None:
    """Take the benchmarks of the sets whose scores changed, where they are due again.

    A benchmark is the 90th percentile, linearly interpolated, of the raw scores above zero; None
    where there are none. Every score of the workspace changes with it, at the cost of one UPDATE.
    """
    for score_set in ScoreSet.objects.filter(benchmarks_stale=True, state="current"):
        if _is_due(score_set, now):
            _try_to_take(score_set, now)


def _try_to_take(score_set: ScoreSet, now: datetime) -> None:
    try:
        compute_benchmarks(score_set, now)
    except sql.StatementTimeout:
        logger.warning("Benchmarks of score set %d were not taken: too slow.", score_set.pk)
        # As if they had been taken in that time: the next try must not follow at once.
        ScoreSet.objects.filter(pk=score_set.pk).update(
            benchmarks_at=now, benchmark_seconds=STATEMENT_TIMEOUT_SECONDS, benchmarks_stale=True
        )


def _is_due(score_set: ScoreSet, now: datetime) -> bool:
    if score_set.benchmarks_at is None:
        return True
    pause = max(1.0, score_set.benchmark_seconds / MAX_TIME_SHARE)
    return now >= score_set.benchmarks_at + timedelta(seconds=pause)


def compute_benchmarks(score_set: ScoreSet, now: datetime) -> None:
    """Take the set's benchmarks, quantiles and number of scored names as they are now.

    Raises sql.TookTooLong.
    """
    # Cleared first: scores that change while this reads them make it stale again.
    ScoreSet.objects.filter(pk=score_set.pk).update(benchmarks_stale=False)
    started = time.monotonic()
    taken = {"score_set": score_set.pk, "points": _POINTS}
    with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
        ((users, user_quantiles),) = sql.fetch(_TAKE_USERS, taken)
        ((accounts, account_quantiles),) = sql.fetch(_TAKE_ACCOUNTS, taken)
    score_set.user_benchmark, score_set.user_quantiles = users, user_quantiles or []
    score_set.account_benchmark = accounts
    score_set.account_quantiles = account_quantiles or []
    score_set.scored_event_name_count = event_names.count_scored_names(score_set)
    score_set.benchmarks_at = now
    score_set.benchmark_seconds = time.monotonic() - started
    # Segments go by shown scores.
    score_set.cached_counts_stale = True
    day = score_set.scored_day
    assert day is not None, "A set whose scores changed has been scored."
    with transaction.atomic():
        DailyBenchmark.objects.update_or_create(
            score_set=score_set, day=day, defaults={"users": users, "accounts": accounts}
        )
        set_comparison_benchmarks(score_set, day)
        score_set.save(update_fields=_TAKEN)


# What ``set_comparison_benchmarks`` sets.
COMPARISON_FIELDS = [
    "user_benchmark_yesterday",
    "user_benchmark_last_period",
    "account_benchmark_yesterday",
    "account_benchmark_last_period",
]
_TAKEN = [
    "user_benchmark",
    "user_quantiles",
    "account_benchmark",
    "account_quantiles",
    *COMPARISON_FIELDS,
    "scored_event_name_count",
    "benchmarks_at",
    "benchmark_seconds",
    "cached_counts_stale",
]


def set_comparison_benchmarks(score_set: ScoreSet, day: date) -> None:
    """Put the benchmarks of a day ago and of one lookback ago beside those of *day*."""
    users, accounts = benchmarks_on(score_set, day - timedelta(days=1))
    score_set.user_benchmark_yesterday, score_set.account_benchmark_yesterday = users, accounts
    users, accounts = benchmarks_on(score_set, day - timedelta(days=score_set.lookback_days))
    score_set.user_benchmark_last_period, score_set.account_benchmark_last_period = users, accounts


def benchmarks_on(score_set: ScoreSet, day: date) -> tuple[float | None, float | None]:
    """The benchmarks of users and accounts as they stood at the end of the day."""
    known = DailyBenchmark.objects.filter(score_set=score_set, day__lte=day).order_by("-day")
    return known.values_list("users", "accounts").first() or (None, None)
