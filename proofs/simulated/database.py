"""Points of the schedule in a real PostgreSQL, and its clock."""

import os
import re
import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, LiteralString

import psycopg
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from proofs.simulated.scheduler import SHORT, Killed, Scheduler, Thread, current, real_sleep

# The functions of the simulation come before those of PostgreSQL.
_CLOCK: LiteralString = """
    CREATE SEQUENCE IF NOT EXISTS simulated_microseconds;
    GRANT SELECT ON simulated_microseconds TO public;
    CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS $$ SELECT to_timestamp(last_value / 1000000.0) FROM simulated_microseconds $$;
    CREATE OR REPLACE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE
    AS $$ SELECT to_timestamp(last_value / 1000000.0) FROM simulated_microseconds $$;
"""
_OWN_FUNCTIONS_FIRST: LiteralString = "SET search_path TO public, pg_catalog"
_WAITS: LiteralString = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
_WAITING: LiteralString = """
    SELECT pid, pg_blocking_pids(pid) FROM unnest(%s::integer[]) AS pid
"""
_END: LiteralString = "SELECT pg_terminate_backend(%s)"
# It is left out after its locks are free. The server itself looks only ten times a second.
_IS_THERE: LiteralString = "SELECT FROM pg_stat_activity WHERE pid = %s"
_SET_TIME: LiteralString = "SELECT setval('simulated_microseconds', %s)"
# Characters of a statement that name its point.
NAME_LENGTH = 60
# What a fault raises, by its name. The lost connection is one without a SQLSTATE.
ERRORS: dict[str, type[psycopg.Error]] = {
    "deadlock": psycopg.errors.DeadlockDetected,
    "no lock": psycopg.errors.LockNotAvailable,
    "canceled": psycopg.errors.QueryCanceled,
}
# What the driver does without the server, and what the server never refuses: nothing fails there.
NOT_SENT, ROLLBACK = {"set_autocommit"}, "rollback"
LOST, LOST_AFTER, DIE_AFTER = "lost", "lost after", "die after"

# Columns may have the time as their default.
_MAY_ASK_TIME = re.compile("now|clock|insert|update|copy", re.IGNORECASE)
_OF_ONE_RUN = re.compile(r"\d{5,}\w*")

_scheduler: Scheduler | None = None


class SimulatedConnection(psycopg.Connection[Any]):
    """A connection of a simulated thread, which reaches a point before each statement."""

    def wait(self, gen: Generator[Any, Any, Any], *limits: Any, **named_limits: Any) -> Any:
        thread = current()
        statement = _statement_of(gen)
        name = _name_of(statement)
        if thread is None or _scheduler is None or name in NOT_SENT:
            return super().wait(gen, *limits, **named_limits)
        thread.pause(name)
        fault, thread.fault = thread.fault, ""
        if (error := ERRORS.get(fault)) and name != ROLLBACK and not self._is_busy():
            gen.close()
            raise error(f"The schedule fails it: {fault}.")
        if fault == LOST:
            gen.close()
            self._lose()
        if _MAY_ASK_TIME.search(statement):
            _scheduler.show_time()
        try:
            result = super().wait(gen, *limits, **named_limits)
        except psycopg.Error as error:
            # Who closes a circle of locks fails without being held.
            is_victim = isinstance(error, psycopg.errors.DeadlockDetected)
            _scheduler.incidents["real deadlock"] += is_victim
            _let_go_on(thread, thread.is_locked or is_victim)
            raise
        _let_go_on(thread, thread.is_locked)
        if fault == LOST_AFTER:
            self._lose()
        if fault == DIE_AFTER:
            _scheduler.doom(thread.process)
            thread.pause(f"after {name}")
        return result

    def _is_busy(self) -> bool:
        """Whether the driver waits for results of what it has sent: those cannot be refused now."""
        return self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE

    def _lose(self) -> None:
        # The server ends the transaction before anybody goes on.
        assert _scheduler is not None
        _scheduler.lose_session()
        self.pgconn.finish()
        raise psycopg.OperationalError("the connection is lost")


def _let_go_on(thread: Thread, has_waited: bool) -> None:
    """A thread that waited for a lock runs no Python beside the one whose turn it is."""
    thread.raise_if_killed()
    if has_waited:
        thread.pause("unlocked")


def _statement_of(generator: Generator[Any, Any, Any]) -> str:
    """What the driver is about to do: a statement, or the name of another step, as commit."""
    frame = getattr(generator, "gi_frame", None)
    query = frame and (frame.f_locals.get("query") or frame.f_locals.get("statement"))
    if query is None:
        name: str = generator.__qualname__.rpartition(".")[2]  # type: ignore[attr-defined]
        return name.strip("_").removesuffix("_gen")
    return query.decode() if isinstance(query, bytes) else str(query)


def _name_of(statement: str) -> str:
    # Names of savepoints and cursors are those of one run.
    return _OF_ONE_RUN.sub("…", " ".join(statement.split())[:NAME_LENGTH])


class Database:
    """The database as the scheduler sees it, over a connection of its own."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection
        connection.execute(_CLOCK)

    def is_waiting(self, thread: Thread) -> bool:
        if thread.session is None:
            return False
        row = self._connection.execute(_WAITS, [thread.session]).fetchone()
        return bool(row and row[0])

    def has_circle(self, threads: Sequence[Thread]) -> bool:
        sessions = [thread.session for thread in threads]
        holders = dict(self._connection.execute(_WAITING, [sessions]).fetchall())
        return any(_reaches(session, holders) for session in sessions if session)

    def hold(self, thread: Thread) -> None:
        # It sleeps in the lock's queue, and holds nothing that others of the server need.
        assert thread.session is not None
        os.kill(thread.session, signal.SIGSTOP)

    def let_go(self, thread: Thread) -> None:
        assert thread.session is not None
        os.kill(thread.session, signal.SIGCONT)

    def end(self, thread: Thread) -> None:
        if thread.session is not None:
            session, thread.session = thread.session, None
            self._connection.execute(_END, [session])
            if thread.is_locked:
                # It ends before it does anything else.
                os.kill(session, signal.SIGCONT)
            while self._connection.execute(_IS_THERE, [session]).rowcount:
                real_sleep(SHORT)

    def set_time(self, now: datetime) -> None:
        self._connection.execute(_SET_TIME, [round(now.timestamp() * 1_000_000)])


def _reaches(start: int, holders: dict[int, list[int]]) -> bool:
    """Whether the session waits, through others, for itself."""
    visited: set[int] = set()
    waiting = list(holders.get(start, ()))
    while waiting:
        session = waiting.pop()
        if session == start:
            return True
        if session not in visited:
            visited.add(session)
            waiting += holders.get(session, ())
    return False


@contextmanager
def follow_schedule(scheduler: Scheduler) -> Iterator[None]:
    """Statements of simulated threads are points of this schedule while the block runs."""
    global _scheduler
    _scheduler = scheduler
    connection_created.connect(_take_over)
    try:
        yield
    finally:
        connection_created.disconnect(_take_over)
        _scheduler = None


def _take_over(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if thread := current():
        follow(connection.connection, thread)


def follow(connection: "psycopg.Connection[Any]", thread: Thread) -> None:
    """Have the statements of this connection be points of the thread, whose session it is."""
    connection.execute(_OWN_FUNCTIONS_FIRST)
    if not connection.autocommit:
        connection.commit()
    thread.session = connection.info.backend_pid
    connection.__class__ = SimulatedConnection


def leave(thread: Thread) -> None:
    """Close the connections of a thread that ends."""
    if thread.process.is_dead:
        raise Killed
    connections.close_all()
