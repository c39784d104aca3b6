"""Which event names of a product anybody has done: adoption is a share of these.

A name keeps one identified user who did it, so that nobody has to look through the daily counts.
What follows is for whoever holds the right to score the product.
"""

import logging
from collections.abc import Collection
from typing import LiteralString

from engagement.database import sql
from engagement.models import ScoreSet

logger = logging.getLogger(__name__)

# A look through all daily counts is stopped after so many seconds.
STATEMENT_TIMEOUT_SECONDS = 60.0

_ANY_NOT_DONE: LiteralString = """
    SELECT EXISTS (SELECT FROM engagement_eventname
                   WHERE product_id = %(product)s AND done_by = 0)
"""
_NOTE: LiteralString = f"""
    UPDATE engagement_eventname n SET done_by = found.user_id
    FROM (
        SELECT d.event_name_id, min(d.user_id) AS user_id
        FROM engagement_dailycount d
        JOIN engagement_eventname o ON o.id = d.event_name_id AND o.done_by = 0
        JOIN engagement_user u ON u.id = d.user_id AND u.is_identified
        WHERE d.product_id = {sql.PRODUCT} AND d.user_id = ANY(%(users)b::bigint[])
        GROUP BY d.event_name_id) found
    WHERE n.id = found.event_name_id
"""


def set_done_by(product_id: int, user_ids: Collection[int]) -> None:
    """Note which names that nobody had done these users did, in the caller's transaction."""
    ((any_not_done,),) = sql.fetch(_ANY_NOT_DONE, {"product": product_id})
    if any_not_done and user_ids:
        done = sql.execute(_NOTE, {"product": product_id, "users": list(user_ids)})
        if done:
            _outdate_benchmarks(product_id)


_IN_QUESTION: LiteralString = """
    SELECT n.id FROM engagement_eventname n
    WHERE n.product_id = %(product)s AND (%(nobody)s OR n.done_by IS DISTINCT FROM 0)
      AND NOT EXISTS (
        SELECT FROM engagement_dailycount d
        JOIN engagement_user u ON u.id = d.user_id AND u.is_identified
        WHERE d.product_id = n.product_id AND d.user_id = n.done_by AND d.event_name_id = n.id)
"""
_LOOK: LiteralString = f"""
    WITH found AS MATERIALIZED (
        SELECT d.event_name_id, min(d.user_id) AS user_id
        FROM engagement_dailycount d
        JOIN engagement_user u ON u.id = d.user_id AND u.is_identified
        WHERE d.product_id = {sql.PRODUCT} AND d.event_name_id = ANY(%(names)b::bigint[])
        GROUP BY d.event_name_id)
    UPDATE engagement_eventname n SET done_by = COALESCE(found.user_id, 0)
    FROM engagement_eventname o LEFT JOIN found ON found.event_name_id = o.id
    WHERE n.id = o.id AND o.id = ANY(%(names)b::bigint[])
      AND n.done_by IS DISTINCT FROM COALESCE(found.user_id, 0)
"""


def refresh_done_by(product_id: int, *, also_of_nobody: bool = False) -> None:
    """See whether whoever did a name is still there, and look for others where they are not.

    With *also_of_nobody* look for whoever did the other names, too. Looks through the daily counts
    once, if there is anything to look for.
    """
    asked = {"product": product_id, "nobody": also_of_nobody}
    names = [id for (id,) in sql.fetch(_IN_QUESTION, asked)]
    if not names:
        return
    try:
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            if sql.execute(_LOOK, {"product": product_id, "names": names}):
                _outdate_benchmarks(product_id)
    except sql.StatementTimeout:
        logger.warning("It took too long to see which events of product %d are done.", product_id)


def _outdate_benchmarks(product_id: int) -> None:
    # The number of scored names is taken with them.
    fresh = ScoreSet.objects.filter(product_id=product_id, benchmarks_stale=False)
    fresh.update(benchmarks_stale=True)


_SCORED: LiteralString = """
    SELECT count(*) FROM engagement_eventname n
    WHERE n.product_id = %(product)s AND (
        n.done_by IS DISTINCT FROM 0 OR EXISTS (
            SELECT FROM engagement_scoredevent w
            WHERE w.score_set_id = %(score_set)s AND w.event_name_id = n.id AND w.weight > 0))
      AND NOT EXISTS (
            SELECT FROM engagement_scoredevent w
            WHERE w.score_set_id = %(score_set)s AND w.event_name_id = n.id AND w.weight = 0)
"""
_LISTED: LiteralString = """
    SELECT count(*) FROM engagement_scoredevent
    WHERE score_set_id = %(score_set)s AND weight > 0
"""


def count_scored_names(score_set: ScoreSet) -> int:
    """How many names the set scores: those that it lists with a weight above 0 and, unless others
    weigh nothing, those that an identified user of the product did. A weight of 0 leaves a name
    out."""
    statement = _SCORED if score_set.default_weight else _LISTED
    asked = {"product": score_set.product_id, "score_set": score_set.pk}
    ((number,),) = sql.fetch(statement, asked)
    return int(number)
