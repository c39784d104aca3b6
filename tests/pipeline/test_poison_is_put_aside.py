"""A message that cannot be recorded costs no other: it is tried again, then quarantined."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import msgspec
import pytest
from cryptography.fernet import Fernet
from django.db import DataError
from pytest_django import Settings

from engagement.messages import ReceivedMessage, Rejection
from engagement.models import Product
from engagement.recording.record import record
from ingestion.drain import processing, quarantine
from ingestion.models import InboxMessage, IngestionKey, QuarantinedMessage, SeenMessageId
from ingestion.payloads import encode
from tests.engagement.history import NOON, identify, track
from tests.pipeline.waiting import counts, drain, dropped, quarantined, wait, wait_raw, waiting

# Other characters compress less than repeated ones: the id does not fit an index entry.
LONG_ID = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(10_000))
POISON = {
    "no MessagePack": b"\xc1planted",
    "an unknown kind": msgspec.msgpack.encode(["x", "ada"]),
    "a kind that PostgreSQL cannot quote": msgspec.msgpack.encode(["\0", "ada"]),
    "a field too few": msgspec.msgpack.encode(["t", "ada"]),
    "a number for an id": msgspec.msgpack.encode(["i", 5, NOON]),
    "NUL in an id": encode(track("a\0da")),
    "NUL in a trait": encode(identify("ada", planted="\0")),
    "NUL in an event": encode(track("ada", "\0")),
    "an id too long for its index": encode(track(LONG_ID)),
    "a year that has no datetime": msgspec.msgpack.encode(
        ["t", "ada", "opened", msgspec.msgpack.Ext(-1, bytes(4) + b"\x7f" + bytes(7))]
    ),
}


@pytest.fixture
def mended(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Recording fails on events named ``cursed``, until this is called."""

    def refuse(received: Sequence[ReceivedMessage]) -> list[Rejection]:
        if any(getattr(message.message, "event", "") == "cursed" for message in received):
            raise DataError("it is cursed")
        return record(received)

    monkeypatch.setattr(processing, "record", refuse)
    return lambda: monkeypatch.setattr(processing, "record", record)


def drain_at_each_attempt() -> None:
    """Drain now and whenever a message that failed is due again."""
    for attempt in range(processing.MAX_ATTEMPTS + 1):
        drain(NOON + timedelta(minutes=attempt))


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
def test_one_bad_message_among_200_costs_no_other(
    poison: bytes, acme: Product, acme_key: str
) -> None:
    good = [track(f"user {number % 9}") for number in range(100)]
    wait(acme_key, *good)
    (bad,) = wait_raw(acme_key, poison)
    wait(acme_key, *good)
    drain()
    assert sum(counts(acme).values()) == 200
    assert waiting() == [bad]
    drain_at_each_attempt()
    assert sum(counts(acme).values()) == 200
    assert (waiting(), quarantined(), dropped()) == ([], [bad], [])


def test_it_is_put_back_for_a_later_attempt(acme: Product, acme_key: str) -> None:
    (bad,) = wait_raw(acme_key, b"\xc1")
    first = InboxMessage.objects.get()
    assert drain() == processing.DrainResult(1, True)
    back = InboxMessage.objects.get()
    assert (back.pk, back.attempts, back.not_before) == (bad, 1, NOON + timedelta(seconds=5))
    columns = ("received_at", "key_digest", "key_hint", "payload")
    assert [getattr(back, name) for name in columns] == [getattr(first, name) for name in columns]
    # It is not due yet, and then the pause is twice as long.
    assert drain(NOON + timedelta(seconds=4)) == processing.DrainResult(0, True)
    drain(NOON + timedelta(seconds=5))
    back.refresh_from_db()
    assert (back.attempts, back.not_before) == (2, NOON + timedelta(seconds=15))


def test_after_its_last_attempt_it_is_quarantined_with_its_error(
    acme: Product, acme_key: str
) -> None:
    (bad,) = wait(acme_key, track("ada", "\0"))
    drain_at_each_attempt()
    message = QuarantinedMessage.objects.get()
    assert (message.pk, message.product_id, message.attempts) == (bad, acme.pk, 3)
    assert (message.received_at, message.key_hint) == (NOON, acme_key[:9])
    assert bytes(message.payload) == encode(track("ada", "\0"))
    assert message.error.startswith("DataError: invalid byte sequence")
    assert message.quarantined_at == NOON + timedelta(minutes=2)


def test_a_bad_message_with_an_unknown_key_is_quarantined_without_a_product(db: None) -> None:
    (bad,) = wait_raw("edk_of_nobody", b"\xc1")
    drain_at_each_attempt()
    assert (quarantined(), QuarantinedMessage.objects.get().product_id) == ([bad], None)


def test_a_key_that_cannot_be_decrypted_does_not_matter(
    acme: Product, acme_key: str, settings: Settings
) -> None:
    settings.ENCRYPTION_KEYS = [Fernet.generate_key()]
    wait(acme_key, track("ada"))
    (bad,) = wait_raw(acme_key, b"\xc1")
    drain_at_each_attempt()
    assert (quarantined(), counts(acme)) == ([bad], {("ada", "opened"): 1})


def test_the_log_names_the_message_and_quotes_nothing_of_it(
    acme_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    (bad,) = wait_raw(acme_key, msgspec.msgpack.encode(["planted", "planted"]))
    drain()
    (line,) = caplog.messages
    assert f"Message {bad} failed in attempt 1 of 3" in line
    assert "planted" not in caplog.text


def test_its_message_id_is_not_remembered(
    acme: Product, acme_key: str, mended: Callable[[], None]
) -> None:
    bad = msgspec.structs.replace(track("ada", "cursed"), message_id="m1")
    wait(acme_key, bad)
    drain_at_each_attempt()
    assert len(quarantined()) == 1
    assert not SeenMessageId.objects.exists()
    # Its sender sends it again, under the same id, and may.
    wait(acme_key, msgspec.structs.replace(bad, event="opened"))
    drain()
    assert counts(acme) == {("ada", "opened"): 1}


def test_tried_again_once_the_cause_is_mended_it_is_recorded_once(
    acme: Product, acme_key: str, mended: Callable[[], None]
) -> None:
    (bad,) = wait(acme_key, msgspec.structs.replace(track("ada", "cursed"), message_id="m1"))
    drain_at_each_attempt()
    assert quarantine.retry([bad]) == 1
    # The cause is still there: all attempts are made anew.
    drain()
    assert InboxMessage.objects.get().attempts == 1
    drain_at_each_attempt()
    assert quarantined() == [bad]

    mended()
    quarantine.retry([bad])
    drain()
    assert (waiting(), quarantined(), dropped()) == ([], [], [])
    assert counts(acme) == {("ada", "cursed"): 1}


def test_what_failed_before_is_tried_apart_from_the_others(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_raw(acme_key, b"\xc1")
    drain()
    sizes: list[int] = []

    def note(received: Sequence[ReceivedMessage]) -> list[Rejection]:
        sizes.append(len(received))
        return []

    monkeypatch.setattr(processing, "record", note)
    wait(acme_key, *[track("ada")] * 50)
    drain(NOON + timedelta(minutes=1))
    assert sizes == [50]


@pytest.mark.slow
def test_one_percent_of_bad_messages_costs_a_bounded_number_of_attempts(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled = 0

    def record_and_count(received: Sequence[ReceivedMessage]) -> list[Rejection]:
        nonlocal handled
        handled += len(received)
        return record(received)

    monkeypatch.setattr(processing, "record", record_and_count)
    ids = wait(
        acme_key,
        *[track(f"user {place % 50}", "opened" if place % 100 else "\0") for place in range(3_000)],
    )
    drain_at_each_attempt()
    assert quarantined() == ids[::100]
    assert (waiting(), dropped()) == ([], [])
    assert sum(counts(acme).values()) == 2_970
    assert all(event == "opened" for _, event in counts(acme))
    # Each halving handles every message once more; the bad ones alone are tried twice more.
    assert handled <= 3_000 * 12 + 30 * 2


def test_no_message_of_another_product_is_affected(
    acme: Product, acme_key: str, globex: Product
) -> None:
    globex_key = IngestionKey.create(globex, "test").secret
    wait(acme_key, track("ada"), track(LONG_ID))
    wait(globex_key, *[track("gil")] * 20)
    drain()
    assert counts(globex) == {("gil", "opened"): 20}
    assert counts(acme) == {("ada", "opened"): 1}


def test_a_product_deleted_meanwhile_turns_its_messages_into_dropped_ones(
    acme: Product, acme_key: str
) -> None:
    (arrival,) = wait(acme_key, track("ada"))
    acme.delete()
    drain()
    assert dropped() == [(arrival, "unknown_key")]
