"""Accounts for every message that was posted: recorded once, listed as dropped, or never taken."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, LiteralString

import psycopg

from harness.database import QUARANTINED, WAITING, number
from harness.posting import Posted, Track
from harness.processes import Failed, until
from harness.report import Report, Result, progress

# Seconds within which everything must be settled and scored after the last message.
SETTLE_PATIENCE = 120.0
MUST_BE_NONE = ("lost", "doubled", "invented", "miscounted", "misscored", "in the inbox")

_UNSETTLED: tuple[LiteralString, ...] = (
    WAITING,
    "SELECT count(*) FROM engagement_stalemark",
    "SELECT count(*) FROM engagement_scoreset WHERE state = 'building'",
)
_EVENTS: LiteralString = """
    SELECT u.external_id, e.occurred_at, count(*)
    FROM engagement_event e
    JOIN engagement_user u ON u.id = e.user_id AND u.product_id = e.product_id
    GROUP BY u.external_id, e.occurred_at
"""
_DROPPED: LiteralString = """
    SELECT message_id, count(*) FROM ingestion_droppedmessage
    WHERE reason = 'unknown_key' GROUP BY message_id
"""
# Where the counts by day, user, event and account differ from the events that they count.
_MISCOUNTED: LiteralString = """
    SELECT count(*) FROM (
        SELECT product_id, user_id, (occurred_at AT TIME ZONE 'UTC')::date AS day, event_name_id,
               COALESCE(account_id, 0) AS account_id, count(*) AS number
        FROM engagement_event GROUP BY 1, 2, 3, 4, 5) e
    FULL JOIN engagement_dailycount d USING (product_id, user_id, day, event_name_id, account_id)
    WHERE e.number IS DISTINCT FROM d.count
"""
# All weights are one and all events of today or yesterday: a raw score is a number of events.
_MISSCORED: LiteralString = """
    SELECT count(*) FROM (
        SELECT e.product_id, e.user_id, e.raw, COALESCE(sum(d.count), 0) AS counted
        FROM engagement_userengagement e
        LEFT JOIN engagement_dailycount d ON d.product_id = e.product_id AND d.user_id = e.user_id
        WHERE e.score_set_id IN (SELECT scores_id FROM engagement_workspace)
        GROUP BY e.product_id, e.user_id, e.raw) s WHERE raw <> counted
"""


def settle(posted: Posted, connect: Callable[[], psycopg.Connection[Any]], run: str = "") -> Report:
    """Wait for an empty inbox and fresh scores, and account for all that was posted."""
    prefix = f"{run}: " if run else ""
    progress(f"{prefix}{len(posted.acknowledged):,} tracks got 202; settling.")
    settled_after: float | str = "never"
    try:
        settled_after = until_settled(connect)
    except Failed as failure:
        if not is_there(connect):
            raise
        progress(str(failure))
    # If it never is, the numbers say what is wrong.
    yield Result(f"{prefix}settled", "no" if settled_after == "never" else "yes", must_be="yes")
    with connect() as database:
        for name, value in account_for(posted, database).items():
            must_be = 0 if name in MUST_BE_NONE else None
            yield Result(prefix + name, value, must_be=must_be)
    yield Result(f"{prefix}settled after, seconds", settled_after)


def is_there(connect: Callable[[], psycopg.Connection[Any]]) -> bool:
    with suppress(psycopg.Error), connect():
        return True
    return False


def until_settled(connect: Callable[[], psycopg.Connection[Any]]) -> float:
    """Wait for an empty inbox and fresh scores, and return how many seconds it took."""

    def is_settled() -> bool:
        with suppress(psycopg.Error), connect() as database:
            return all(number(database, statement) == 0 for statement in _UNSETTLED)
        return False

    started = time.monotonic()
    until(is_settled, "the inbox to be empty and scores fresh", SETTLE_PATIENCE)
    return time.monotonic() - started


def account_for(posted: Posted, database: psycopg.Connection[Any]) -> dict[str, Any]:
    recorded: Counter[Track] = Counter()
    for user, occurred_at, copies in database.execute(_EVENTS):
        recorded[Track(user, occurred_at)] = copies
    dropped = dict(database.execute(_DROPPED).fetchall())
    uncertain = posted.unanswered | posted.refused
    posted_numbers = posted.acknowledged | uncertain
    return {
        "posted": len(posted_numbers) + posted.others + len(posted.to_be_dropped),
        "acknowledged": len(posted.acknowledged) + posted.others + len(posted.to_be_dropped),
        "refused": len(posted.refused),
        "unanswered": len(posted.unanswered) + len(posted.perhaps_dropped),
        "recorded": sum(recorded.values()),
        "recorded without a 202": len(uncertain & recorded.keys()),
        "dropped": sum(dropped.values()),
        "quarantined": number(database, QUARANTINED),
        "lost": len(posted.acknowledged - recorded.keys())
        + len(posted.to_be_dropped - dropped.keys()),
        "doubled": sum(copies > 1 for copies in (*recorded.values(), *dropped.values())),
        "invented": len(recorded.keys() - posted_numbers)
        + len(dropped.keys() - posted.to_be_dropped - posted.perhaps_dropped),
        "miscounted": number(database, _MISCOUNTED),
        "misscored": number(database, _MISSCORED),
        "in the inbox": number(database, WAITING),
    }
