"""Event names that somebody has done: adoption is a share of these.

Each name stores one identified user who did it (``done_by``), so that nobody has to search the
daily counts. The caller of the functions that write holds the lock on scoring the product.
"""

import logging
from collections.abc import Collection
from typing import LiteralString

from core.database import sql
from engagement.models import ScoreSet

logger = logging.getLogger(__name__)

# Limit of a search through all daily counts.
STATEMENT_TIMEOUT_SECONDS = 60.0

_ANY_NOT_DONE: LiteralString = """
    SELECT EXISTS (SELECT FROM engagement_eventname
                   WHERE product_id = %(product)s AND done_by = 0)
"""
_SET_DONE_BY: LiteralString = """
    UPDATE engagement_eventname n SET done_by = done.user_id
    FROM (
        SELECT d.event_name_id, min(d.user_id) AS user_id
        FROM engagement_dailycount d
        JOIN engagement_eventname o ON o.id = d.event_name_id AND o.done_by = 0
            AND o.product_id = %(product)s
        JOIN engagement_user u
            ON u.id = d.user_id AND u.is_identified AND u.product_id = %(product)s
        WHERE d.product_id = %(product)s AND d.user_id = ANY(%(users)b::bigint[])
        GROUP BY d.event_name_id) done
    WHERE n.id = done.event_name_id AND n.product_id = %(product)s
"""


def set_done_by(product_id: int, user_ids: Collection[int]) -> None:
    """Set ``done_by`` of the names that only these users have done, in the caller's transaction."""
    ((any_not_done,),) = sql.fetch(_ANY_NOT_DONE, {"product": product_id})
    if not any_not_done or not user_ids:
        return
    if sql.execute(_SET_DONE_BY, {"product": product_id, "users": list(user_ids)}):
        _invalidate_benchmarks(product_id)


_OUTDATED_NAMES: LiteralString = """
    SELECT n.id FROM engagement_eventname n
    WHERE n.product_id = %(product)s AND (%(include_not_done)s OR n.done_by IS DISTINCT FROM 0)
      AND NOT EXISTS (
        SELECT FROM engagement_dailycount d
        JOIN engagement_user u
            ON u.id = d.user_id AND u.is_identified AND u.product_id = %(product)s
        WHERE d.product_id = n.product_id AND d.user_id = n.done_by AND d.event_name_id = n.id)
"""
_FIND_DONE_BY: LiteralString = """
    WITH done AS MATERIALIZED (
        SELECT d.event_name_id, min(d.user_id) AS user_id
        FROM engagement_dailycount d
        JOIN engagement_user u
            ON u.id = d.user_id AND u.is_identified AND u.product_id = %(product)s
        WHERE d.product_id = %(product)s AND d.event_name_id = ANY(%(names)b::bigint[])
        GROUP BY d.event_name_id)
    UPDATE engagement_eventname n SET done_by = COALESCE(done.user_id, 0)
    FROM engagement_eventname o LEFT JOIN done ON done.event_name_id = o.id
    WHERE n.id = o.id AND o.id = ANY(%(names)b::bigint[])
      AND n.product_id = %(product)s AND o.product_id = %(product)s
      AND n.done_by IS DISTINCT FROM COALESCE(done.user_id, 0)
"""


def refresh_done_by(product_id: int, *, include_not_done: bool = False) -> None:
    """Find another user for each name whose ``done_by`` no longer did it.

    With *include_not_done* also search for users who did the names that nobody had done. Searches
    the daily counts at most once.
    """
    parameters = {"product": product_id, "include_not_done": include_not_done}
    names = [id for (id,) in sql.fetch(_OUTDATED_NAMES, parameters)]
    if not names:
        return
    try:
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            if sql.execute(_FIND_DONE_BY, {"product": product_id, "names": names}):
                _invalidate_benchmarks(product_id)
    except sql.StatementTimeout:
        logger.warning(
            "Searching for users who did the events of product %d took too long.", product_id
        )


def _invalidate_benchmarks(product_id: int) -> None:
    # The number of scored names is computed with them.
    ScoreSet.objects.filter(product_id=product_id, benchmarks_stale=False).update(
        benchmarks_stale=True
    )


_COUNT_DONE_OR_WEIGHTED: LiteralString = """
    SELECT count(*) FROM engagement_eventname n
    WHERE n.product_id = %(product)s AND (
        n.done_by IS DISTINCT FROM 0 OR EXISTS (
            SELECT FROM engagement_scoredevent w
            WHERE w.score_set_id = %(score_set)s AND w.event_name_id = n.id AND w.weight > 0))
      AND NOT EXISTS (
            SELECT FROM engagement_scoredevent w
            WHERE w.score_set_id = %(score_set)s AND w.event_name_id = n.id AND w.weight = 0)
"""
_COUNT_WEIGHTED: LiteralString = """
    SELECT count(*) FROM engagement_scoredevent w
    JOIN engagement_eventname n ON n.id = w.event_name_id AND n.product_id = %(product)s
    WHERE w.score_set_id = %(score_set)s AND w.weight > 0
"""


def count_scored_names(score_set: ScoreSet) -> int:
    """The number of names that the set scores.

    These are the names with a weight above 0 and, unless the default weight is 0, the names without
    a weight that an identified user of the product did.
    """
    statement = _COUNT_DONE_OR_WEIGHTED if score_set.default_weight else _COUNT_WEIGHTED
    parameters = {"product": score_set.product_id, "score_set": score_set.pk}
    ((count,),) = sql.fetch(statement, parameters)
    return int(count)
