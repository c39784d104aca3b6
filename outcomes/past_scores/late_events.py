"""How many of the events behind past scores arrived after their day."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import LiteralString

from core.database import sql
from engagement.models import ScoreSet
from engagement.rescoring.what_if import ScoringDefinition
from outcomes.past_scores.days import (
    COUNTS,
    STATEMENT_TIMEOUT_SECONDS,
    WEIGHTS,
    half_life_of,
    parameters_of,
)
from outcomes.past_scores.scores import Pair

# Events are many. As many pairs tell a share.
PAIRS = 200
# With a half-life, these hold three quarters of what counts.
HALF_LIVES = 2

# The daily counts name the users. Each is looked up once, whatever the number of names.
_LATE: LiteralString = f"""
    WITH {WEIGHTS}
    SELECT COALESCE(sum(late.events), 0)::bigint, COALESCE(sum(late.late), 0)::bigint
    FROM unnest(%(accounts)b::bigint[], %(days)b::date[]) pair(account_id, day)
    CROSS JOIN LATERAL (
        SELECT d.user_id, array_agg(DISTINCT d.event_name_id) AS names FROM {COUNTS}
          AND d.account_id = pair.account_id
          AND d.day BETWEEN pair.day - %(reach)s AND pair.day
        GROUP BY d.user_id) used
    CROSS JOIN LATERAL (
        SELECT count(*) AS events,
            count(*) FILTER (WHERE e.received_at >= (pair.day + 1)::timestamp AT TIME ZONE 'UTC')
                AS late
        FROM engagement_event e
        WHERE e.product_id = %(product)s AND e.user_id = used.user_id
          AND e.event_name_id = ANY(used.names) AND e.account_id = pair.account_id
          AND e.occurred_at >= (pair.day - %(reach)s)::timestamp AT TIME ZONE 'UTC'
          AND e.occurred_at < (pair.day + 1)::timestamp AT TIME ZONE 'UTC') late
"""


def late_share(
    score_set: ScoreSet,
    definition: ScoringDefinition,
    pairs: Sequence[Pair],
    events_from: date,
) -> float | None:
    """The share (0 to 1) of the events counted for the scores of the pairs that arrived after their
    days; None if nobody knows, because none of these events are stored.

    Events are stored from *events_from* on: earlier pairs do not count. Of many pairs, an even part
    does.
    """
    half_life = half_life_of(definition)
    reach = HALF_LIVES * half_life if half_life else definition.lookback_days - 1
    stored = [pair for pair in pairs if pair[1] - timedelta(days=reach) >= events_from]
    part = stored[:: -(-len(stored) // PAIRS) or 1]
    parameters = parameters_of(score_set.product_id, definition) | {"reach": reach}
    with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
        rows = sql.fetch(_LATE, parameters | sql.arrays(part, "accounts", "days"))
    events, late = rows[0]
    return late / events if events else None
