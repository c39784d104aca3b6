"""Each message takes effect exactly once, however its drain ends and however many drain."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat

import pytest
from django.db import OperationalError, connection

from core.database import retries
from engagement.messages import Message, ReceivedMessage, Rejection, Track
from engagement.models import Event, Membership, Product, User
from engagement.recording.jobs import REATTRIBUTE
from engagement.recording.record import record
from ingestion.drain import batches, fairness, processing
from ingestion.models import InboxMessage
from tests.engagement.history import NOON, group, identify, state, track
from tests.jobs import run_job
from tests.pipeline.waiting import (
    at_once,
    counts,
    drain,
    dropped,
    kill_own_connection,
    quarantined,
    somebody_else,
    wait,
    waiting,
)


class PowerCut(BaseException):
    """The process ends here: nothing that handles errors may handle this."""


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have something happen once, in the middle of a batch: after it was recorded."""

    def interrupt(happens: Callable[[], None]) -> None:
        pending = [happens]

        def record_and_then(received: Sequence[ReceivedMessage]) -> list[Rejection]:
            refused = record(received)
            if pending:
                pending.pop()()
            return refused

        monkeypatch.setattr(processing, "record", record_and_then)

    return interrupt


Interrupted = Callable[[Callable[[], None]], None]


def cut_power() -> None:
    raise PowerCut


# --- One drain ------------------------------------------------------------------------------


def test_a_drain_goes_on_until_the_inbox_is_empty(acme: Product, acme_key: str) -> None:
    wait(acme_key, identify("ada"), *[track("ada")] * 24)
    assert drain(batch_size=10) == processing.DrainResult(25, True)
    assert counts(acme) == {("ada", "opened"): 24}
    assert waiting() == []


def test_an_empty_inbox_is_nothing_done(db: None) -> None:
    assert drain() == processing.DrainResult(0, True)


def test_messages_are_recorded_in_the_order_of_arrival(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[list[int]] = []

    def note(received: Sequence[ReceivedMessage]) -> list[Rejection]:
        batches.append([message.arrival for message in received])
        return []

    monkeypatch.setattr(processing, "record", note)
    ids = wait(acme_key, *[track("ada")] * 50)
    # The table's order need not be that of arrival.
    moved = list(InboxMessage.objects.filter(pk__in=ids[:10]))
    InboxMessage.objects.filter(pk__in=ids[:10]).delete()
    InboxMessage.objects.bulk_create(moved)
    drain(batch_size=20)
    assert batches == [ids[:20], ids[20:40], ids[40:]]


def test_a_drain_stops_when_its_time_is_up(acme: Product, acme_key: str) -> None:
    wait(acme_key, *[track("ada")] * 25)
    times = iter([False, False, True])
    assert drain(out_of_time=lambda: next(times), batch_size=10) == processing.DrainResult(
        20, False
    )
    assert len(waiting()) == 5
    assert drain().is_empty
    assert counts(acme) == {("ada", "opened"): 25}


def test_each_batch_is_reported_once_it_is_committed(acme: Product, acme_key: str) -> None:
    wait(acme_key, *[track("ada")] * 25)
    sizes: list[int] = []
    drain(batch_size=10, after_batch=lambda: sizes.append(len(waiting())))
    assert sizes == [15, 5, 0]


def test_messages_that_are_committed_late_are_found(acme: Product, acme_key: str) -> None:
    late = wait(acme_key, *[track("late")] * 3)
    rows = list(InboxMessage.objects.all())
    InboxMessage.objects.all().delete()
    wait(acme_key, *[track("ada")] * 20)

    def commit_late() -> None:
        # Their ids are lower than those of what was claimed meanwhile.
        if rows:
            InboxMessage.objects.bulk_create(rows)
            rows.clear()

    assert drain(batch_size=10, after_batch=commit_late) == processing.DrainResult(23, True)
    assert counts(acme) == {("ada", "opened"): 20, ("late", "opened"): 3}
    assert list(Event.objects.order_by("arrival").values_list("arrival", flat=True))[:3] == late


def test_messages_that_are_committed_late_do_not_wait_for_a_long_backlog(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fairness, "BATCHES_PER_SWEEP", 3)
    wait(acme_key, track("late"))
    rows = list(InboxMessage.objects.all())
    InboxMessage.objects.all().delete()
    wait(acme_key, *[track("ada")] * 100)
    batches = 0

    def commit_late() -> None:
        nonlocal batches
        batches += 1
        if batches == 1:
            InboxMessage.objects.bulk_create(rows)

    drain(batch_size=2, after_batch=commit_late, out_of_time=lambda: batches == 4)
    assert counts(acme)["late", "opened"] == 1


def test_large_messages_make_small_batches(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH_BYTES", 250_000)
    sizes: list[int] = []

    def note(received: Sequence[ReceivedMessage]) -> list[Rejection]:
        sizes.append(len(received))
        return []

    monkeypatch.setattr(processing, "record", note)
    large = identify("ada", bio="x" * 100_000)
    wait(acme_key, *[large] * 4, identify("bob", bio="x" * 300_000), *[track("ada")] * 20)
    drain()
    # Whoever crosses the limit is the last of its batch; one that crosses it alone is a batch.
    assert sizes == [3, 2, 20]
    assert waiting() == []


# --- Interruptions --------------------------------------------------------------------------


def test_a_process_that_dies_after_recording_leaves_all_as_it_was(
    acme: Product, acme_key: str, interrupted: Interrupted
) -> None:
    wait(acme_key, identify("ada", plan="pro"), group("initech", user="ada"), track("ada"))
    before = state(acme), waiting()
    interrupted(cut_power)
    with pytest.raises(PowerCut):
        drain()
    assert (state(acme), waiting()) == before
    drain()
    assert counts(acme) == {("ada", "opened"): 1}
    assert User.objects.get().traits == {"plan": "pro"}
    assert Membership.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_connection_lost_after_recording_leaves_all_as_it_was(
    acme: Product, acme_key: str, interrupted: Interrupted
) -> None:
    ids = wait(acme_key, identify("ada"), *[track("ada")] * 50)
    interrupted(kill_own_connection)
    with pytest.raises(OperationalError):
        drain()
    assert waiting() == ids
    assert not User.objects.exists()
    assert set(InboxMessage.objects.values_list("attempts", flat=True)) == {0}
    drain()
    assert counts(acme) == {("ada", "opened"): 50}


@pytest.mark.django_db(transaction=True)
def test_batches_before_the_interruption_are_done_and_not_done_again(
    acme: Product, acme_key: str, interrupted: Interrupted
) -> None:
    wait(acme_key, *[track("ada")] * 30)
    batches = 0

    def interrupt_the_next() -> None:
        nonlocal batches
        batches += 1
        if batches == 2:
            interrupted(cut_power)

    with pytest.raises(PowerCut):
        drain(batch_size=10, after_batch=interrupt_the_next)
    assert counts(acme) == {("ada", "opened"): 20}
    drain()
    assert counts(acme) == {("ada", "opened"): 30}


# --- Side by side ---------------------------------------------------------------------------

USERS = [f"user {number}" for number in range(7)]
ACCOUNTS = [f"account {number}" for number in range(3)]


def busy_messages(number: int) -> list[Message]:
    """Messages of few users, who change accounts and traits all the time."""
    messages: list[Message] = []
    for place in range(number):
        user, account = USERS[place % len(USERS)], ACCOUNTS[place // 5 % len(ACCOUNTS)]
        match place % 20:
            case 0:
                messages.append(identify(user, place / 1000, account, place=place))
            case 1:
                messages.append(group(account, place / 1000, user, place=place))
            case 2:
                messages.append(track(user, "opened", place / 1000, account))
            case _:
                messages.append(track(user, f"event {place % 4}", place / 1000))
    return messages


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("drains", "batch_size"), [(2, 300), (4, 40)])
def test_drains_side_by_side_record_each_message_once(
    acme: Product, acme_key: str, globex: Product, drains: int, batch_size: int
) -> None:
    messages = busy_messages(2_100)
    ids = wait(acme_key, *messages)
    results = at_once(*[partial(drain, batch_size=batch_size)] * drains)
    # A drain that was rolled back at the end may have left its batch to the next one.
    rest = drain()
    assert sum(result.messages for result in [*results, rest]) == len(messages)
    assert (waiting(), quarantined(), dropped()) == ([], [], [])
    tracks = Counter(
        (message.user_id, message.event) for message in messages if isinstance(message, Track)
    )
    assert counts(acme) == tracks
    # It is what one batch makes of them, in another product.
    record(
        [
            ReceivedMessage(globex.pk, *message)
            for message in zip(ids, repeat(NOON), messages, strict=False)
        ]
    )
    run_job(REATTRIBUTE, NOON)
    assert state(acme) == state(globex)


@pytest.mark.django_db(transaction=True)
def test_what_another_drain_has_claimed_is_left_to_it(acme: Product, acme_key: str) -> None:
    ids = wait(acme_key, *[track("ada")] * 10)
    with somebody_else() as other, other.transaction():
        other.execute("SELECT FROM ingestion_inboxmessage WHERE id = %s FOR UPDATE", [ids[0]])
        assert drain() == processing.DrainResult(9, True)
    assert waiting() == ids[:1]


@pytest.mark.django_db(transaction=True)
def test_a_batch_that_loses_against_another_worker_goes_again(
    acme: Product, acme_key: str, interrupted: Interrupted
) -> None:
    wait(acme_key, *[track("ada")] * 10)
    interrupted(lose_a_race)
    assert drain() == processing.DrainResult(10, True)
    assert counts(acme) == {("ada", "opened"): 10}


@pytest.mark.django_db(transaction=True)
def test_a_drain_does_not_go_again_for_ever(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []

    def always_lose(received: Sequence[ReceivedMessage]) -> None:
        attempts.append(len(received))
        lose_a_race()

    monkeypatch.setattr(processing, "record", always_lose)
    wait(acme_key, *[track("ada")] * 10)
    with pytest.raises(OperationalError, match="deadlock"):
        drain()
    assert attempts == [10] * (retries.MAX_CONFLICT_RETRIES + 1)
    assert set(InboxMessage.objects.values_list("attempts", flat=True)) == {0}


def lose_a_race() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = 'deadlock_detected'; END $$"
        )
