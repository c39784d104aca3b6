"""What was known of accounts at the ends of days, in SQL.

Only events that the workspace scores count, of days until then. Audiences are left out, as in past
scores: identified users count, as they are now.
"""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import LiteralString

from core.database import sql
from engagement.models import ScoreSet
from engagement.rescoring.what_if import scoring_definition
from engagement.tenure import tenure_days
from outcomes.past_scores.days import (
    COUNTS,
    JOINS,
    STATEMENT_TIMEOUT_SECONDS,
    WEIGHTS,
    parameters_of,
)
from outcomes.past_scores.scores import Pair

PAIRS_PER_STATEMENT = 500
# In the order of ``Feature``, without what needs the seats, which no activity tells.
Values = tuple[float, float, float, float, float, float]

# The last 30 days, a row for each user and event name first: users and weights are then looked up
# once, and not for each day. A user's active day is one number, which sorts faster than two.
_FEATURES: LiteralString = f"""
    WITH {WEIGHTS},
    pair AS MATERIALIZED (
        SELECT account_id, day FROM unnest(%(accounts)b::bigint[], %(days)b::date[])
            p(account_id, day))
    SELECT pair.account_id, pair.day, recent.user_days_7, recent.user_days_30, recent.users,
        recent.names, pair.day - COALESCE(earlier.day, pair.day - recent.idle),
        COALESCE(a.created_at, a.first_seen_at)
    FROM pair
    JOIN engagement_account a
        ON a.id = pair.account_id AND a.is_identified AND a.product_id = %(product)s
    CROSS JOIN LATERAL (
        SELECT count(DISTINCT x.age + 32 * d.user_id) FILTER (WHERE x.age < 7) AS user_days_7,
            count(DISTINCT x.age + 32 * d.user_id) AS user_days_30,
            count(DISTINCT d.user_id) AS users, count(DISTINCT d.event_name_id) AS names,
            min(x.age) AS idle
        FROM (
            SELECT d.user_id, d.event_name_id, array_agg(pair.day - d.day) AS ages
            FROM engagement_dailycount d
            WHERE d.product_id = %(product)s AND d.account_id = pair.account_id
              AND d.day BETWEEN pair.day - 29 AND pair.day
            GROUP BY d.user_id, d.event_name_id) d
        {JOINS}
        CROSS JOIN unnest(d.ages) AS x(age)
        WHERE COALESCE(w.weight, %(default_weight)s) > 0) recent
    LEFT JOIN LATERAL (
        SELECT d.day FROM {COUNTS}
          AND recent.idle IS NULL AND d.account_id = pair.account_id AND d.day < pair.day - 29
        ORDER BY d.day DESC LIMIT 1) earlier ON true
    WHERE EXISTS (
        SELECT FROM engagement_dailycount d
        WHERE d.product_id = %(product)s AND d.account_id = pair.account_id AND d.day <= pair.day)
"""


def load_features(
    score_set: ScoreSet,
    pairs: Sequence[Pair],
    out_of_time: Callable[[], bool] = lambda: False,
) -> dict[Pair, Values]:
    """What was known of the accounts at the ends of the days, as the set scores, without those that
    had no daily counts yet, or are not identified.

    An account without any scored event has been idle since it was created. Raises
    sql.StatementTimeout, also if *out_of_time* returns true before all is read.
    """
    shared = parameters_of(score_set.product_id, scoring_definition(score_set))
    unique, features = sorted(set(pairs)), dict[Pair, Values]()
    for start in range(0, len(unique), PAIRS_PER_STATEMENT):
        if out_of_time():
            raise sql.StatementTimeout
        chunk = unique[start : start + PAIRS_PER_STATEMENT]
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            rows = sql.fetch(_FEATURES, shared | sql.arrays(chunk, "accounts", "days"))
        for account_id, day, *numbers in rows:
            features[account_id, day] = _values(day, *numbers)
    return features


def with_seats(values: Values, seats: int | None) -> tuple[float, ...]:
    """All features, in their order. What is not known is NaN."""
    if seats is None or seats < 0:
        return (*values, math.nan, math.nan)
    # No curve of the users and of the seats by themselves tells the share. Whether more people use
    # it than have seats is left to them.
    return (*values, seats, min(values[2] / seats, 1.0) if seats else math.nan)


def _values(
    day: date,
    user_days_7: int,
    user_days_30: int,
    users: int,
    names: int,
    idle_days: int | None,
    created_at: datetime,
) -> Values:
    age = tenure_days(created_at.astimezone(UTC), day)
    idle = age if idle_days is None else idle_days
    return (user_days_7, user_days_30, users, names, idle, age)
