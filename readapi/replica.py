"""Answering from a replica of the database, where there is one.

Tokens, their last use and their counts of requests stay with the primary: a replica takes no
writes, and a revoked token is refused at once. All that a request then reads comes from one
database: the answer is one that the primary could have given a moment earlier.
"""

import logging
from collections.abc import Callable
from typing import LiteralString

from django.db import Error, ProgrammingError, connection, connections
from rest_framework.response import Response

from engagement.database import retries, routing, sql
from readapi.errors import ReplicaUnavailable, is_connection_error

logger = logging.getLogger(__name__)

# The entry of DATABASES.
ALIAS = "replica"


def is_configured() -> bool:
    return ALIAS in connections


def read_from_replica(answer: Callable[[], Response]) -> Response:
    """What *answer*, which only reads, gives. Raises ReplicaAway where nobody can be asked.

    A replica that has to apply a change ends the statements that still look at what was there
    before. Asked again it might do the same, so the primary answers that request.
    """
    if not is_configured():
        return answer()
    try:
        verify_replica()
        # Back to the pool, where there is one: who waits for the replica holds up nobody else.
        connection.close_if_unusable_or_obsolete()
        with routing.read_from(ALIAS):
            return answer()
    except Error as error:
        if is_connection_error(error):
            raise ReplicaUnavailable(type(error).__name__) from error
        if not retries.is_conflict(error):
            raise
    logger.info("The replica ended a statement to apply a change; the primary answers instead.")
    return answer()


# Its moment is in every copy of this service's database, and in no other's.
_FIRST_MIGRATION: LiteralString = "SELECT applied FROM django_migrations ORDER BY id LIMIT 1"
_is_ours = False


def verify_replica() -> None:
    """ReplicaAway where EDS_REPLICA_URL names another service's database; asked until it does not.

    A product's number is another product there, and its scores are nothing for this token.
    """
    global _is_ours
    if not _is_ours:
        with routing.read_from(ALIAS):
            theirs = _first_migration()
        _is_ours = theirs == _first_migration()
    if not _is_ours:
        raise ReplicaUnavailable("it is no replica of this service's database.")


def _first_migration() -> list[sql.Row]:
    try:
        return sql.fetch(_FIRST_MIGRATION)
    except ProgrammingError:
        # No such table.
        return []


_PRIMARY_IS_AT: LiteralString = "SELECT pg_current_wal_lsn()::text, clock_timestamp()"
# A replica that was promoted lags behind nobody.
_LAG: LiteralString = """
    SELECT CASE
        WHEN NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= %(place)s::pg_lsn THEN 0
        ELSE greatest(0, extract(epoch FROM %(now)s
            - coalesce(pg_last_xact_replay_timestamp(), pg_postmaster_start_time())))
    END::float8
"""


def lag_seconds() -> float:
    """By how many seconds the replica's state is older than the primary's.

    Nothing while it has all that was written; else the age of the last commit that it has.
    """
    ((place, now),) = sql.fetch(_PRIMARY_IS_AT)
    with routing.read_from(ALIAS):
        ((seconds,),) = sql.fetch(_LAG, {"place": place, "now": now})
    return float(seconds)
