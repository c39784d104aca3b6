"""What the service knew of accounts at the ends of past days."""

from collections import defaultdict
from collections.abc import Callable, Collection
from datetime import UTC, date, datetime
from typing import LiteralString, NamedTuple, TypeAlias

from core.database import sql
from engagement.models import ScoreSet
from engagement.rescoring.what_if import ScoringDefinition
from engagement.scores.formula import rounded_score
from engagement.tenure import tenure_days
from outcomes.past_scores.benchmarks import SAMPLE_SIZE, past_benchmarks
from outcomes.past_scores.days import (
    COUNTS,
    RAW_BY_DAY,
    STATEMENT_TIMEOUT_SECONDS,
    WEIGHTS,
    parameters_of,
)

ACCOUNTS_PER_STATEMENT = 500
# An account, and a UTC day.
Pair: TypeAlias = tuple[int, date]


class PastScore(NamedTuple):
    """What was known of an account at the end of a UTC day.

    ``score`` is what people saw, 0 to 100 with one decimal. ``strength`` is what it shows: the raw
    score as a multiple of the day's benchmark, 0 without one. It also tells apart accounts whose
    scores are equal because they are rounded, and has twelve digits: with a half-life, both numbers
    shrink alike, and days without events must not differ in the last one. ``idle_days`` are those
    since the last scored event, None before the first one. ``age_days`` are those since the account
    was created.
    """

    score: float
    strength: float
    idle_days: int | None
    age_days: int


_SCORES: LiteralString = f"""
    WITH {WEIGHTS},
    subject AS MATERIALIZED (
        SELECT account_id AS id, min(day) AS first, max(day) AS last, array_agg(day) AS days
        FROM unnest(%(accounts)b::bigint[], %(days)b::date[]) pair(account_id, day)
        GROUP BY account_id)
    SELECT subject.id, known.day, known.raw, COALESCE(known.last_day, earlier.day),
        COALESCE(a.created_at, a.first_seen_at)
    FROM subject
    JOIN engagement_account a
        ON a.id = subject.id AND a.is_identified AND a.product_id = %(product)s
    CROSS JOIN LATERAL (
        SELECT min(d.day) AS day FROM engagement_dailycount d
        WHERE d.product_id = %(product)s AND d.account_id = subject.id) beginning
    CROSS JOIN LATERAL ({RAW_BY_DAY}) known
    LEFT JOIN LATERAL (
        SELECT d.day FROM {COUNTS}
          AND d.account_id = subject.id AND d.day < subject.first - %(reach)s
        ORDER BY d.day DESC LIMIT 1) earlier ON true
    WHERE known.day = ANY(subject.days) AND known.day >= beginning.day
"""


def past_scores(
    score_set: ScoreSet,
    definition: ScoringDefinition,
    pairs: Collection[Pair],
    sample_size: int = SAMPLE_SIZE,
    out_of_time: Callable[[], bool] = lambda: False,
) -> dict[Pair, PastScore]:
    """The scores of the pairs under the definition, without those of accounts that had no daily
    counts yet, or are not identified.

    *score_set* is a set of the product that readers see. Benchmarks of days that it does not cover
    come from about *sample_size* of its accounts. Raises sql.StatementTimeout, also if
    *out_of_time* returns true before all are computed.
    """
    days_of: dict[int, set[date]] = defaultdict(set)
    for account_id, day in pairs:
        days_of[account_id].add(day)
    parameters = parameters_of(score_set.product_id, definition)
    accounts, rows = sorted(days_of), list[sql.Row]()
    for start in range(0, len(accounts), ACCOUNTS_PER_STATEMENT):
        if out_of_time():
            raise sql.StatementTimeout
        chunk = [
            (id, day) for id in accounts[start:][:ACCOUNTS_PER_STATEMENT] for day in days_of[id]
        ]
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            rows += sql.fetch(_SCORES, parameters | sql.arrays(chunk, "accounts", "days"))
    days = {day for _, day, *_ in rows}
    benchmarks = past_benchmarks(score_set, definition, days, sample_size, out_of_time)
    reach = parameters["reach"]
    return {(id, day): _score(day, benchmarks, reach, *numbers) for id, day, *numbers in rows}


def _score(
    day: date,
    benchmarks: dict[date, float],
    reach: int,
    raw: float,
    last_day: date | None,
    created_at: datetime,
) -> PastScore:
    benchmark = benchmarks.get(day)
    idle_days = None if last_day is None else (day - last_day).days
    if idle_days is not None and idle_days > reach:
        # An earlier day of the account may have read older events, which count nothing today.
        raw = 0.0
    return PastScore(
        rounded_score(raw, benchmark),
        float(f"{raw / benchmark:.12g}") if benchmark else 0.0,
        idle_days,
        tenure_days(created_at.astimezone(UTC), day),
    )
