"""Benchmarks: the 90th percentiles of the raw scores above zero."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, LiteralString, TypeAlias

from django.db import transaction

from core.database import sql
from core.jobs import run
from core.jobs.kinds import Later, Outcome
from core.models import Job
from engagement.models import DailyBenchmark, ScoreSet
from engagement.scopes import ACCOUNTS, USERS, SubjectKind
from engagement.scores import event_names

logger = logging.getLogger(__name__)

STATEMENT_TIMEOUT_SECONDS = 60.0
# The resolution of a percentile: a tenth of a percent.
QUANTILES = 1000
# The days of a subject's history, including today.
HISTORY_DAYS = 90

_FRACTIONS = [(number + 0.5) / QUANTILES for number in range(QUANTILES)]


# Called with a set as it was and as it is, in the transaction that changes it.
OnChange: TypeAlias = Callable[[ScoreSet, ScoreSet], None]


def refresh(job: Job, score_set: ScoreSet, now: datetime, on_change: OnChange) -> Outcome:
    """Compute the benchmarks of a current set, as a step of its job.

    After a timeout the old ones stay, and the job rests as after benchmarks that took that long.
    """
    try:
        compute_benchmarks(score_set, now, on_change, partial(run.holding, job))
    except sql.StatementTimeout:
        logger.warning("Computing the benchmarks of score set %d took too long.", score_set.pk)
        ScoreSet.objects.filter(pk=score_set.pk).update(benchmarks_stale=True)
        return Later()
    if score_set.user_benchmark is None and score_set.account_benchmark is None:
        # All scores are 0 until there is one, and nothing with points slows it down.
        return Later(now)
    return Later()


def compute_benchmarks(
    score_set: ScoreSet,
    now: datetime,
    on_change: OnChange = lambda before, after: None,
    begin: Callable[[], AbstractContextManager[Any]] = transaction.atomic,
) -> None:
    """Compute the set's benchmarks, its quantiles, and the number of scored event names, and write
    them in the transaction that *begin* begins.

    A benchmark is the 90th percentile, linearly interpolated, of the raw scores above zero; None
    without any. It changes every score of the workspace at the cost of one UPDATE. Raises
    sql.StatementTimeout.
    """
    # Cleared first: scores that change during the query make it stale again.
    ScoreSet.objects.filter(pk=score_set.pk).update(benchmarks_stale=False)
    with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
        user_benchmark, user_quantiles = _percentiles(score_set, USERS)
        account_benchmark, account_quantiles = _percentiles(score_set, ACCOUNTS)
    score_set.user_benchmark, score_set.user_quantiles = user_benchmark, user_quantiles
    score_set.account_benchmark, score_set.account_quantiles = account_benchmark, account_quantiles
    score_set.scored_event_name_count = event_names.count_scored_names(score_set)
    score_set.benchmarks_at = now
    # Segments compare displayed scores.
    score_set.cached_counts_stale = score_set.watches_stale = True
    day = score_set.scored_day
    assert day is not None, "A set whose scores changed has been scored."
    with begin():
        # An edit of a segment adds a row that refers to the set, so it waits for this one.
        before = ScoreSet.objects.select_for_update().get(pk=score_set.pk)
        DailyBenchmark.objects.update_or_create(
            score_set=score_set,
            day=day,
            defaults={"users": user_benchmark, "accounts": account_benchmark},
        )
        _set_comparison_benchmarks(score_set, day)
        score_set.save(update_fields=_COMPUTED_FIELDS)
        on_change(before, score_set)


def compare_with_past(pk: int, on_change: OnChange) -> None:
    """Compare the set's scores with the benchmarks of past days, which have changed.

    Works in the caller's transaction.
    """
    before = ScoreSet.objects.select_for_update().filter(pk=pk).first()
    if before is None or before.scored_day is None:
        return
    score_set = copy(before)
    _set_comparison_benchmarks(score_set, before.scored_day)
    score_set.cached_counts_stale = score_set.watches_stale = True
    score_set.save(update_fields=_COMPARISON_FIELDS)
    on_change(before, score_set)


_PERCENTILES: LiteralString = """
    SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY raw),
           percentile_disc(%(fractions)b::float8[]) WITHIN GROUP (ORDER BY raw)
    FROM {table}
    WHERE score_set_id = %(score_set)s AND raw > 0 {and_active} AND product_id = %(product)s
"""


def _percentiles(score_set: ScoreSet, kind: SubjectKind) -> tuple[float | None, list[int]]:
    """The benchmark and the quantiles."""
    # With a lookback, who has points is active.
    and_active: LiteralString = "AND event_count > 0" if score_set.half_life_days else ""
    statement = _PERCENTILES.format(table=kind.engagement_table, and_active=and_active)
    own = {"product": score_set.product_id, "score_set": score_set.pk}
    ((benchmark, quantiles),) = sql.fetch(statement, own | {"fractions": _FRACTIONS})
    return benchmark, quantiles or []


# The ends of the names of the benchmarks of past days.
COMPARED = ("_yesterday", "_last_period", "_yesterday_last_period")


def set_from_rows(score_set: ScoreSet, kind: SubjectKind) -> None:
    """Set the benchmark and the quantiles of one kind from its rows, without saving them.

    For a set of a what-if. ``past_benchmarks.set_compared`` sets those of past days.
    """
    benchmark, quantiles = _percentiles(score_set, kind)
    setattr(score_set, f"{kind.scope}_benchmark", benchmark)
    setattr(score_set, f"{kind.scope}_quantiles", quantiles)
    score_set.scored_event_name_count = event_names.count_scored_names(score_set)


_COMPARISON_FIELDS = [
    *(f"{kind.scope}_benchmark{of}" for kind in (USERS, ACCOUNTS) for of in COMPARED),
    "cached_counts_stale",
    "watches_stale",
]
_COMPUTED_FIELDS = [
    *_COMPARISON_FIELDS,
    "user_benchmark",
    "user_quantiles",
    "account_benchmark",
    "account_quantiles",
    "scored_event_name_count",
    "benchmarks_at",
]


def _set_comparison_benchmarks(score_set: ScoreSet, day: date) -> None:
    """Set the benchmarks of one day, of one lookback, and of both before *day*."""
    for of, compared_day in compared_days(score_set, day).items():
        users, accounts = benchmarks_on(score_set, compared_day)
        setattr(score_set, f"user_benchmark{of}", users)
        setattr(score_set, f"account_benchmark{of}", accounts)


def compared_days(score_set: ScoreSet, day: date) -> dict[str, date]:
    """The days with which scores of *day* are compared, by the ends of the names of their
    benchmarks."""
    lookback = score_set.lookback_days
    agos = (1, lookback, lookback + 1)
    return {of: day - timedelta(days=ago) for of, ago in zip(COMPARED, agos, strict=True)}


def benchmarks_on(score_set: ScoreSet, day: date) -> tuple[float | None, float | None]:
    """The benchmarks of users and accounts at the end of the day."""
    rows = DailyBenchmark.objects.filter(score_set=score_set, day__lte=day).order_by("-day")
    return rows.values_list("users", "accounts").first() or (None, None)
