"""A message that no worker survives is put aside; what was claimed with it is recorded."""

import os
import signal
import time
from collections.abc import Callable, Sequence

import pytest
from django.db import connection

from config.database import keepalive
from engagement.messages import ReceivedMessage, Rejection
from engagement.models import Product
from engagement.recording.record import record
from ingestion import tasks
from ingestion.drain import claims, processing
from ingestion.drain.batches import BatchSizer
from ingestion.drain.claims import BatchClaimer
from ingestion.models import ClaimedBatch, QuarantinedMessage
from tests.engagement.history import NOON, track
from tests.forks import survives
from tests.pipeline.test_interruptions_are_no_message_fault import raise_in_database
from tests.pipeline.waiting import (
    Eventually,
    at_once,
    counts,
    drain,
    quarantined,
    somebody_else,
    wait,
    waiting,
)

pytestmark = pytest.mark.django_db(transaction=True)

Curse = Callable[[Callable[[], None]], None]


@pytest.fixture
def curse(monkeypatch: pytest.MonkeyPatch) -> Curse:
    """Have this happen whenever an event named ``cursed`` was recorded with others or alone."""

    def set_up(happens: Callable[[], None]) -> None:
        def record_and_then(received: Sequence[ReceivedMessage]) -> list[Rejection]:
            outcome = record(received)
            if any(getattr(message.message, "event", "") == "cursed" for message in received):
                happens()
            return outcome

        monkeypatch.setattr(processing, "record", record_and_then)

    return set_up


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wait_with_a_cursed_one(key: str, number: int) -> int:
    """Have so many good messages wait, and a cursed one in their middle; its id."""
    wait(key, *[track("ada")] * (number // 2))
    (bad,) = wait(key, track("ada", "cursed"))
    wait(key, *[track("ada")] * (number - number // 2))
    return bad


def test_a_message_that_kills_its_worker_is_quarantined_and_the_others_are_recorded(
    acme: Product, acme_key: str, curse: Curse
) -> None:
    bad = wait_with_a_cursed_one(acme_key, 2_000)
    curse(kill_this_process)
    # Twice with all, then with 201, 21 and 3, and three times alone.
    killed = 0
    while not survives(lambda: drain(sizer=BatchSizer())):
        killed += 1
        assert killed <= 8
    assert killed == 8
    assert counts(acme) == {("ada", "opened"): 2_000}
    assert (waiting(), quarantined()) == ([], [bad])
    message = QuarantinedMessage.objects.get()
    assert (message.product_id, message.attempts, message.received_at) == (acme.pk, 3, NOON)
    assert message.error.startswith("The worker did not survive this message in 3 attempts:")
    assert not ClaimedBatch.objects.exists()


def test_new_messages_are_recorded_while_a_batch_kills_its_workers(
    acme: Product, acme_key: str, curse: Curse
) -> None:
    wait_with_a_cursed_one(acme_key, 20)
    curse(kill_this_process)
    survives(drain)
    for number in range(1, 4):
        wait(acme_key, track("bob"))
        survives(drain)
        assert counts(acme)["bob", "opened"] == number


@pytest.mark.parametrize("number", [1, 20])
def test_workers_that_are_killed_once_quarantine_nothing(
    number: int, acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a deployment does."""
    wait(acme_key, *[track("ada")] * number)
    monkeypatch.setattr(processing, "record", lambda received: kill_this_process())
    assert not survives(drain)
    monkeypatch.setattr(processing, "record", record)
    assert drain() == processing.DrainResult(number, True)
    assert counts(acme) == {("ada", "opened"): number}
    assert quarantined() == []


def test_a_message_alone_is_tried_three_times(acme_key: str, curse: Curse) -> None:
    (bad,) = wait(acme_key, track("ada", "cursed"))
    curse(kill_this_process)
    assert [survives(drain) for _ in range(3)] == [False] * 3
    assert (waiting(), quarantined()) == ([bad], [])
    drain()
    assert (waiting(), quarantined()) == ([], [bad])


# --- Too much for one transaction -------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.whole
def test_a_batch_whose_transaction_is_ended_for_taking_too_long_is_divided(
    acme: Product, acme_key: str, curse: Curse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(keepalive._SERVER_SETTINGS, "idle_in_transaction_session_timeout", 200)
    connection.close()
    bad = wait_with_a_cursed_one(acme_key, 30)
    curse(lambda: time.sleep(0.5))
    tasks.drain()
    connection.close()
    assert counts(acme) == {("ada", "opened"): 30}
    assert (waiting(), quarantined()) == ([], [bad])
    assert QuarantinedMessage.objects.get().error == claims.WORKER_DIED_ERROR


def test_a_batch_whose_statement_takes_too_long_is_divided(
    acme: Product, acme_key: str, curse: Curse
) -> None:
    bad = wait_with_a_cursed_one(acme_key, 30)
    curse(lambda: raise_in_database("57014"))
    tasks.drain()
    assert counts(acme) == {("ada", "opened"): 30}
    assert (waiting(), quarantined()) == ([], [bad])


@pytest.mark.slow
@pytest.mark.whole
def test_no_statement_of_a_batch_runs_for_ever(
    acme: Product, acme_key: str, curse: Curse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "STATEMENT_TIMEOUT_SECONDS", 1)
    bad = wait_with_a_cursed_one(acme_key, 1)

    def run_for_ever() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(3600)")

    curse(run_for_ever)
    tasks.drain()
    assert (waiting(), quarantined()) == ([], [bad])


def test_a_limit_that_somebody_set_for_the_role_stays(
    acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[str] = []

    def note(received: Sequence[ReceivedMessage]) -> list[Rejection]:
        with connection.cursor() as cursor:
            for name in ("statement_timeout", "lock_timeout"):
                cursor.execute(f"SHOW {name}")
                limits.append(cursor.fetchone()[0])
        return []

    monkeypatch.setattr(processing, "record", note)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '7s'")
    wait(acme_key, track("ada"))
    drain()
    connection.close()
    assert limits == ["1min", "7s"]


# --- Who works on what ------------------------------------------------------------------------


def test_a_worker_whose_batch_was_taken_over_does_nothing(acme: Product, acme_key: str) -> None:
    wait(acme_key, *[track("ada")] * 5)
    late = BatchClaimer().claim_next(NOON, 10)
    assert late is not None
    assert drain().messages == 5
    assert processing.process_batch(late, NOON) == 0
    assert counts(acme) == {("ada", "opened"): 5}


def test_a_look_at_a_claim_takes_it_from_nobody(acme: Product, acme_key: str) -> None:
    """A search for unfinished batches may lock a claim that a worker has just taken."""
    wait(acme_key, *[track("ada")] * 5)
    claim = BatchClaimer().claim_next(NOON, 10)
    assert claim is not None
    with somebody_else() as searcher:
        with searcher.transaction():
            searcher.execute("SELECT FROM ingestion_claimedbatch FOR UPDATE")
            work = Eventually(lambda: processing.process_batch(claim, NOON))
            time.sleep(0.3)
        assert work.result() == 5
    assert counts(acme) == {("ada", "opened"): 5}


def test_a_worker_that_falls_behind_its_note_is_given_a_moment(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "CLAIM_GRACE_SECONDS", 3600.0)
    wait(acme_key, *[track("ada")] * 5)
    late = BatchClaimer().claim_next(NOON, 10)
    assert late is not None
    wait(acme_key, track("bob"))
    assert drain() == processing.DrainResult(1, True)
    assert processing.process_batch(late, NOON) == 5
    assert counts(acme) == {("ada", "opened"): 5, ("bob", "opened"): 1}
    assert not ClaimedBatch.objects.exists()


def test_a_batch_that_is_worked_on_is_nobody_elses(
    acme: Product, acme_key: str, curse: Curse
) -> None:
    wait(acme_key, track("ada", "cursed"))
    others: list[bool] = []
    curse(lambda: others.append(_another_process_finds_nothing()))
    drain()
    assert others == [True]
    assert counts(acme) == {("ada", "cursed"): 1}


def _another_process_finds_nothing() -> bool:
    return at_once(drain) == [processing.DrainResult(0, True)]
