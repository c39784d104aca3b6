"""Reading from a replica of the database, if there is one.

Tokens, their last use, and their request counts stay on the primary: a replica accepts no writes,
and a revoked token must stop working at once. Everything else that a request reads comes from one
database, so the response is one that the primary could have given a moment earlier.
"""

import logging
from collections.abc import Callable
from typing import LiteralString, TypeVar

from django.db import Error, ProgrammingError, connection, connections

from core.database import retries, routing, sql
from readapi.errors import ReplicaUnavailable, is_connection_error

logger = logging.getLogger(__name__)

T = TypeVar("T")

# The entry of DATABASES.
ALIAS = "replica"


def is_configured() -> bool:
    return ALIAS in connections


def read_from_replica(read: Callable[[], T]) -> T:
    """The result of *read*, which only reads. Raises ReplicaUnavailable.

    A replica that applies a change may cancel statements that still read the old state. A retry
    could be canceled again, so the primary serves that request.
    """
    if not is_configured():
        return read()
    try:
        verify_replica()
        # Return the primary's connection to its pool while this request waits for the replica.
        connection.close_if_unusable_or_obsolete()
        with routing.read_from(ALIAS):
            return read()
    except Error as error:
        if is_connection_error(error):
            raise ReplicaUnavailable(type(error).__name__) from error
        if not retries.is_conflict(error):
            raise
    logger.info("The replica canceled a statement to apply a change; the primary serves it.")
    return read()


# Every copy of this service's database has this time, and no other database does.
_FIRST_MIGRATION: LiteralString = "SELECT applied FROM django_migrations ORDER BY id LIMIT 1"
_is_ours = False


def verify_replica() -> None:
    """Raise ReplicaUnavailable if EDS_REPLICA_URL names another service's database.

    There, the same product ID belongs to another product, whose scores this token must not see.
    Once verified, the replica is not checked again.
    """
    global _is_ours
    if not _is_ours:
        with routing.read_from(ALIAS):
            replica_time = _first_migration()
        _is_ours = replica_time == _first_migration()
    if not _is_ours:
        raise ReplicaUnavailable("it is not a replica of this service's database.")


def _first_migration() -> list[sql.Row]:
    try:
        return sql.fetch(_FIRST_MIGRATION)
    except ProgrammingError:
        # The table does not exist.
        return []


_PRIMARY_POSITION: LiteralString = "SELECT pg_current_wal_lsn()::text, clock_timestamp()"
# A promoted replica has no lag.
_LAG: LiteralString = """
    SELECT CASE
        WHEN NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= %(position)s::pg_lsn THEN 0
        ELSE greatest(0, extract(epoch FROM %(now)s
            - coalesce(pg_last_xact_replay_timestamp(), pg_postmaster_start_time())))
    END::float8
"""


def lag_seconds() -> float:
    """How many seconds the replica lags behind the primary.

    It is 0 while the replica has everything that was written, and else the age of its last commit.
    """
    ((position, now),) = sql.fetch(_PRIMARY_POSITION)
    with routing.read_from(ALIAS):
        ((seconds,),) = sql.fetch(_LAG, {"position": position, "now": now})
    return float(seconds)
