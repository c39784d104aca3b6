"""The raw scores of accounts at the ends of days, in SQL.

The audience of a definition is left out, because traits have only their latest value. So all
identified users count, as they are now.
"""

from typing import Any, LiteralString

from engagement.models import EventName
from engagement.rescoring.what_if import ScoringDefinition

# With a half-life, events count for as many of them: later they weigh less than a millionth.
HALF_LIVES = 20
STATEMENT_TIMEOUT_SECONDS = 60.0

WEIGHTS: LiteralString = """
    weight AS MATERIALIZED (
        SELECT * FROM unnest(%(names)b::bigint[], %(weights)b::bigint[]) w(event_name_id, weight))
"""
# Daily counts "d", as the definition counts them.
JOINS: LiteralString = """
    JOIN engagement_user u ON u.id = d.user_id AND u.is_identified AND u.product_id = %(product)s
    LEFT JOIN weight w ON w.event_name_id = d.event_name_id
"""
COUNTS: LiteralString = f"""
    engagement_dailycount d {JOINS}
    WHERE d.product_id = %(product)s AND COALESCE(w.weight, %(default_weight)s) > 0
"""
# For each day from "first" to "last" of a subject: the raw score, and the last day with a scored
# event. Sums run from the first day on, and a window is the difference of two. With a half-life,
# points are on the scale of the last day, and what is before the grid is on its first day. The
# limit of -1000 keeps powers of two within floats. Sums of floats are exact for whole points. A row
# per user and event name first: users and weights are then looked up once, and not for each day.
RAW_BY_DAY: LiteralString = f"""
    SELECT day, last_day,
        (total - COALESCE(lag(total, %(lookback)s) OVER (ORDER BY day), 0))
            * power(2, LEAST((subject.last - day) / %(half_life)s, 1000)) AS raw
    FROM (
        SELECT grid.day, max(counts.last_day) OVER (ORDER BY grid.day) AS last_day,
            COALESCE(sum(counts.points) OVER (ORDER BY grid.day), 0) AS total
        FROM (
            SELECT subject.first - %(window)s + 1 + n AS day
            FROM generate_series(0, subject.last - subject.first + %(window)s - 1) n) grid
        LEFT JOIN (
            SELECT GREATEST(by_day.day, subject.first - %(window)s + 1) AS day,
                max(by_day.day) AS last_day,
                sum(by_day.points
                    * power(2, GREATEST((by_day.day - subject.last) / %(half_life)s, -1000)))
                    AS points
            FROM (
                SELECT x.day,
                    sum(x.count * COALESCE(w.weight, %(default_weight)s))::float8 AS points
                FROM (
                    SELECT d.user_id, d.event_name_id,
                        array_agg(d.day) AS days, array_agg(d.count) AS counts
                    FROM engagement_dailycount d
                    WHERE d.product_id = %(product)s AND d.account_id = subject.id
                      AND d.day BETWEEN subject.first - %(reach)s AND subject.last
                    GROUP BY d.user_id, d.event_name_id) d
                {JOINS}
                CROSS JOIN unnest(d.days, d.counts) AS x(day, count)
                WHERE COALESCE(w.weight, %(default_weight)s) > 0
                GROUP BY x.day) by_day
            GROUP BY 1) counts USING (day)) sums
"""


def parameters_of(product_id: int, definition: ScoringDefinition) -> dict[str, Any]:
    """The parameters of the statements above."""
    names = EventName.objects.filter(product=product_id, name__in=list(definition.weights))
    weights = {pk: definition.weights[name] for pk, name in names.values_list("pk", "name")}
    half_life = half_life_of(definition)
    return {
        "product": product_id,
        "default_weight": definition.default_weight,
        "names": list(weights),
        "weights": list(weights.values()),
        # Without a half-life, all powers are 1.
        "half_life": float(half_life or "inf"),
        "window": 1 if half_life else definition.lookback_days,
        # Longer than any history.
        "lookback": 1_000_000_000 if half_life else definition.lookback_days,
        "reach": reach_days(definition),
        # The days before a day in which an event makes an account active, the day included.
        "active": definition.lookback_days,
    }


def half_life_of(definition: ScoringDefinition) -> int | None:
    return definition.half_life_days


def reach_days(definition: ScoringDefinition) -> int:
    """How many days before a day count for its score, beside the day itself."""
    if half_life := half_life_of(definition):
        return HALF_LIVES * half_life
    return definition.lookback_days - 1
