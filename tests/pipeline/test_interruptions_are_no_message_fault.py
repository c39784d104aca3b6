"""What the database cannot do just now is never counted against a message, nor ends a worker."""

import logging
from collections.abc import Callable, Sequence

import psycopg
import pytest
from django.db import (
    DatabaseError,
    DataError,
    InterfaceError,
    InternalError,
    OperationalError,
    ProgrammingError,
    connection,
)

from core.database import retries
from engagement import tasks as engagement_tasks
from engagement.messages import ReceivedMessage, Rejection
from engagement.models import Product
from engagement.recording.record import record
from ingestion import tasks
from ingestion.drain import processing
from ingestion.models import ClaimedBatch, InboxMessage
from tests.cases import each
from tests.engagement.history import identify, track
from tests.pipeline.waiting import (
    at_once,
    counts,
    drain,
    kill_own_connection,
    quarantined,
    somebody_else,
    wait,
    waiting,
)


def database_error(sqlstate: str | None, kind: type[DatabaseError]) -> DatabaseError:
    """An error as Django raises it from one of the driver's."""
    error = kind("what happened")
    cause = psycopg.errors.lookup(sqlstate)() if sqlstate else psycopg.OperationalError()
    assert cause.sqlstate == sqlstate
    error.__cause__ = cause
    return error


@each(
    ("sqlstate", "kind"),
    [
        ("08006", OperationalError),  # connection failure
        ("25006", InternalError),  # read-only transaction, as on a standby
        ("40P01", OperationalError),  # deadlock
        ("40001", OperationalError),  # serialization failure
        ("42P01", ProgrammingError),  # undefined table: a migration is still to run
        ("42703", ProgrammingError),  # undefined column
        ("42501", ProgrammingError),  # insufficient privilege
        ("53100", OperationalError),  # disk full
        ("53200", OperationalError),  # out of memory
        ("53300", OperationalError),  # too many connections
        ("55P03", OperationalError),  # lock not available
        ("57014", OperationalError),  # query canceled
        ("57P01", OperationalError),  # admin shutdown
        ("57P03", OperationalError),  # cannot connect now
        ("58030", OperationalError),  # I/O error
        (None, OperationalError),  # lost connection
    ],
)
def test_transient(sqlstate: str | None, kind: type[DatabaseError]) -> None:
    assert retries.is_transient(database_error(sqlstate, kind))


@each(
    ("sqlstate", "kind"),
    [
        ("54000", OperationalError),  # an index row too large
        ("22P05", DataError),  # a character that cannot be stored
        ("22008", DataError),  # a time out of range
        ("22001", DataError),  # a text too long
        ("23502", DatabaseError),  # a value missing
        ("23505", DatabaseError),  # a repeated key
        ("55000", OperationalError),
        ("XX000", InternalError),
    ],
)
@pytest.mark.django_db  # A cluster is asked whether a node is missing.
def test_a_messages_fault(sqlstate: str, kind: type[DatabaseError]) -> None:
    assert not retries.is_transient(database_error(sqlstate, kind))


def of_node(message: str) -> InternalError:
    """What a coordinator makes of an error of a node."""
    error = InternalError(message)
    error.__cause__ = psycopg.errors.InternalError_(message)
    return error


@pytest.mark.django_db
def test_a_nodes_error_is_known_by_its_message() -> None:
    """In a COPY, Citus passes on the message of a node and not its SQLSTATE."""
    deadlock = of_node("deadlock detected\nDETAIL:  Process 7 waits")
    timeout = of_node("canceling statement due to statement timeout")
    lost = of_node("failure on connection marked as essential: 10.0.0.7:5432")
    assert retries.is_conflict(deadlock)
    assert retries.is_timeout(timeout)
    assert retries.is_transient(lost)
    assert retries.is_transient(of_node("terminating connection due to administrator command"))
    assert not retries.is_transient(of_node("duplicate key value violates unique constraint"))


def test_a_lost_connection_has_several_faces() -> None:
    assert retries.is_transient(InterfaceError("connection already closed"))
    assert retries.is_transient(OperationalError("the connection is lost"))


@pytest.mark.parametrize("error", [ValueError(), TypeError(), KeyError(), OSError(), DataError()])
def test_what_is_no_database_failure_is_not_transient(error: Exception) -> None:
    assert not retries.is_transient(error)


# --- In the middle of a batch ---------------------------------------------------------------

INTERRUPTIONS = ["40001", "40P01", "42P01", "53100", "55P03", "57P01", "25006"]


def raise_in_database(sqlstate: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"DO $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '{sqlstate}'; END $$"
        )


@pytest.fixture
def fail_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have each batch end like this, after it was recorded."""

    def fail(failing: Callable[[], None]) -> None:
        def record_and_fail(received: Sequence[ReceivedMessage]) -> list[Rejection]:
            refused = record(received)
            failing()
            return refused

        monkeypatch.setattr(processing, "record", record_and_fail)

    return fail


FailWith = Callable[[Callable[[], None]], None]


@pytest.mark.parametrize("sqlstate", INTERRUPTIONS)
def test_no_attempt_is_counted(
    sqlstate: str, acme: Product, acme_key: str, fail_with: FailWith
) -> None:
    ids = wait(acme_key, *[track("ada")] * 5)
    fail_with(lambda: raise_in_database(sqlstate))
    for _ in range(processing.MAX_ATTEMPTS + 1):
        tasks.drain()
    assert (waiting(), quarantined()) == (ids, [])
    assert set(InboxMessage.objects.values_list("attempts", "not_before")) == {(0, None)}
    assert not counts(acme)


def test_messages_that_were_interrupted_go_with_the_others_again(
    acme_key: str, fail_with: FailWith
) -> None:
    wait(acme_key, *[track("ada")] * 5)
    fail_with(lambda: raise_in_database("53100"))
    tasks.drain()
    assert not ClaimedBatch.objects.exists()


@pytest.mark.parametrize("sqlstate", INTERRUPTIONS)
def test_the_task_ends_with_one_line_in_the_log(
    sqlstate: str, acme_key: str, fail_with: FailWith, caplog: pytest.LogCaptureFixture
) -> None:
    wait(acme_key, *[track("ada")] * 5)
    fail_with(lambda: raise_in_database(sqlstate))
    tasks.drain()
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    assert line.getMessage().startswith("The database interrupted the task to drain the inbox (")
    assert line.getMessage().endswith("; beat asks for it again.")
    assert "planted" not in line.getMessage()
    assert line.exc_info is None


def test_a_fault_of_our_own_is_not_hushed_up(
    acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def claim(*arguments: object) -> None:
        raise TypeError("a fault")

    wait(acme_key, track("ada"))
    monkeypatch.setattr(processing, "process_batch", claim)
    with pytest.raises(TypeError, match="a fault"):
        tasks.drain()


@pytest.mark.django_db(transaction=True)
def test_a_worker_whose_connection_dies_goes_on_with_the_next_task(
    acme: Product, acme_key: str, fail_with: FailWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait(acme_key, identify("ada"), *[track("ada")] * 5)
    fail_with(kill_own_connection)
    tasks.drain.apply(throw=True)
    assert len(waiting()) == 6
    monkeypatch.undo()
    tasks.drain.apply(throw=True)
    assert counts(acme) == {("ada", "opened"): 5}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("first", [tasks.drain, engagement_tasks.rescore, tasks.maintain])
def test_a_worker_whose_connection_died_between_two_tasks_does_not_notice(
    first: "Callable[..., None]", acme: Product, acme_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    wait(acme_key, identify("ada"), track("ada"))
    kill_own_connection()
    first.apply(throw=True)  # type: ignore[attr-defined]
    tasks.drain.apply(throw=True)
    assert counts(acme) == {("ada", "opened"): 1}
    assert caplog.messages == []


@pytest.mark.django_db(transaction=True)
def test_a_locked_table_is_waited_for_no_longer_than_the_role_allows(
    acme: Product, acme_key: str
) -> None:
    ids = wait(acme_key, *[track("ada")] * 5)

    def drain_impatiently() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '100ms'")
        tasks.drain()

    with somebody_else() as other, other.transaction():
        other.execute("LOCK TABLE engagement_dailycount IN ACCESS EXCLUSIVE MODE")
        at_once(drain_impatiently)
    assert waiting() == ids
    assert set(InboxMessage.objects.values_list("attempts", flat=True)) == {0}
    drain()
    assert counts(acme) == {("ada", "opened"): 5}
