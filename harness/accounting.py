"""Accounts for every message that was posted: recorded once, listed as dropped, or never taken."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, LiteralString

import psycopg

from harness.posting import Posted, Track
from harness.service import until

# After the last message, everything must be settled and scored within so many seconds.
SETTLE_PATIENCE = 120.0

SHOWN = (
    "posted",
    "acknowledged",
    "refused",
    "unanswered",
    "recorded",
    "recorded_without_a_202",
    "dropped",
    "quarantined",
    "lost",
    "doubled",
    "invented",
    "miscounted",
    "misscored",
)
MUST_BE_NONE = ("lost", "doubled", "invented", "miscounted", "misscored", "in_the_inbox")

_UNSETTLED: tuple[LiteralString, ...] = (
    "SELECT count(*) FROM ingestion_inboxmessage",
    "SELECT count(*) FROM engagement_stalemark",
    "SELECT count(*) FROM engagement_scoreset WHERE state = 'building'",
)
_EVENTS: LiteralString = """
    SELECT u.external_id, e.occurred_at, count(*)
    FROM engagement_event e JOIN engagement_user u ON u.id = e.user_id
    GROUP BY u.external_id, e.occurred_at
"""
_DROPPED: LiteralString = """
    SELECT message_id, count(*) FROM ingestion_droppedmessage
    WHERE reason = 'unknown_key' GROUP BY message_id
"""
# Where the counts by day, user, event and account differ from the events that they count.
_MISCOUNTED: LiteralString = """
    SELECT count(*) FROM (
        SELECT user_id, (occurred_at AT TIME ZONE 'UTC')::date AS day, event_name_id,
               COALESCE(account_id, 0) AS account_id, count(*) AS number
        FROM engagement_event GROUP BY 1, 2, 3, 4) e
    FULL JOIN engagement_dailycount d USING (user_id, day, event_name_id, account_id)
    WHERE e.number IS DISTINCT FROM d.count
"""
# All weights are one and all events of today or yesterday: a raw score is a number of events.
_MISSCORED: LiteralString = """
    SELECT count(*) FROM (
        SELECT e.user_id, e.raw, COALESCE(sum(d.count), 0) AS counted
        FROM engagement_userengagement e
        JOIN engagement_workspace w ON w.scores_id = e.score_set_id
        LEFT JOIN engagement_dailycount d ON d.user_id = e.user_id
        GROUP BY e.user_id, e.raw) s WHERE raw <> counted
"""
_QUARANTINED: LiteralString = "SELECT count(*) FROM ingestion_quarantinedmessage"


def until_settled(connect: Callable[[], psycopg.Connection[Any]]) -> float:
    """Wait for an empty inbox and fresh scores; the seconds that it took, or Failed."""

    def is_settled() -> bool:
        # StopIteration: while PostgreSQL starts again there is no socket to connect to.
        with suppress(psycopg.Error, StopIteration), connect() as database:
            return all(_number(database, statement) == 0 for statement in _UNSETTLED)
        return False

    started = time.monotonic()
    until(is_settled, "the inbox to be empty and scores fresh", SETTLE_PATIENCE)
    return time.monotonic() - started


def account_for(posted: Posted, database: psycopg.Connection[Any]) -> dict[str, Any]:
    recorded: Counter[Track] = Counter()
    for user, occurred_at, number in database.execute(_EVENTS):
        recorded[Track(user, occurred_at)] = number
    dropped = dict(database.execute(_DROPPED).fetchall())
    uncertain = posted.unanswered | posted.refused
    known = posted.acknowledged | uncertain
    return {
        "posted": len(known) + posted.others + len(posted.to_be_dropped),
        "acknowledged": len(posted.acknowledged) + posted.others + len(posted.to_be_dropped),
        "refused": len(posted.refused),
        "unanswered": len(posted.unanswered) + len(posted.perhaps_dropped),
        "recorded": sum(recorded.values()),
        "recorded_without_a_202": len(uncertain & recorded.keys()),
        "dropped": sum(dropped.values()),
        "quarantined": _number(database, _QUARANTINED),
        "lost": len(posted.acknowledged - recorded.keys())
        + len(posted.to_be_dropped - dropped.keys()),
        "doubled": sum(number > 1 for number in (*recorded.values(), *dropped.values())),
        "invented": len(recorded.keys() - known)
        + len(dropped.keys() - posted.to_be_dropped - posted.perhaps_dropped),
        "miscounted": _number(database, _MISCOUNTED),
        "misscored": _number(database, _MISSCORED),
        "in_the_inbox": _number(database, _UNSETTLED[0]),
    }


def _number(database: psycopg.Connection[Any], statement: LiteralString) -> int:
    row = database.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def rows(runs: list[dict[str, Any]]) -> list[list[str]]:
    """The figures of each run, name by name, for a table with a column for each."""
    return [[name.replace("_", " "), *(f"{run[name]:,}" for run in runs)] for name in SHOWN]


def faults(run: dict[str, Any]) -> list[str]:
    return [
        f"{run['broker']}: {name} is {run[name]:,} and must be 0."
        for name in MUST_BE_NONE
        if run[name]
    ]
