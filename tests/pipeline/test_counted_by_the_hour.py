"""What a product sent in the last day is in exactly one place, by the hour in which it arrived."""

from datetime import timedelta

import pytest
from django.db import DataError
from msgspec.structs import replace

from engagement.messages import ReceivedMessage, Rejection
from engagement.models import Product
from engagement.recording.record import record
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from ingestion import retention
from ingestion.drain import processing, quarantine
from ingestion.log import hours, last_24h
from ingestion.log.last_24h import Last24Hours
from ingestion.models import DropReason, HourCount, IngestionKey
from tests.engagement.history import NOON, identify, track
from tests.pipeline.waiting import at_once, drain, quarantined, repeat, wait, wait_raw

HOUR = timedelta(hours=1)


def of(product: Product, at: object = NOON) -> Last24Hours:
    return last_24h.for_products([product.pk], at)[product.pk]  # type: ignore[arg-type]


def stored() -> dict[tuple[str, int, str], int]:
    """The counts by product, hour of the day and reason."""
    rows = HourCount.objects.values_list("product__name", "hour", "reason", "count")
    return {(name, hour.hour, reason): count for name, hour, reason, count in rows}


# --- Counting -------------------------------------------------------------------------------


def test_messages_count_in_the_hour_in_which_they_were_received(
    acme: Product, acme_key: str
) -> None:
    wait(acme_key, identify("ada"), track("ada"), received_at=NOON - timedelta(minutes=1))
    wait(acme_key, track("ada"), received_at=NOON + timedelta(minutes=59))
    # Long after the workers came back.
    drain(NOON + timedelta(hours=9))
    assert stored() == {("Acme", 11, ""): 2, ("Acme", 12, ""): 1}


def test_what_is_dropped_counts_by_its_reason(acme: Product, acme_key: str) -> None:
    named = replace(track("ada"), message_id="m1")
    wait(acme_key, named, named, track("ada"))
    drain()
    assert stored() == {("Acme", 12, ""): 2, ("Acme", 12, "duplicate"): 1}


def test_nobodys_messages_are_in_no_products_counts(acme: Product, acme_key: str) -> None:
    wait("edk_of_nobody", track("ada"))
    drain()
    assert stored() == {}


def test_each_product_has_counts_of_its_own(acme: Product, acme_key: str, globex: Product) -> None:
    wait(acme_key, track("ada"))
    wait(IngestionKey.create(globex, "test").secret, *repeat([track("bob")], 3))
    drain()
    assert stored() == {("Acme", 12, ""): 1, ("Globex", 12, ""): 3}


def test_a_batch_adds_to_what_the_one_before_it_counted(acme: Product, acme_key: str) -> None:
    wait(acme_key, *repeat([track("ada")], 7))
    drain(batch_size=3)
    assert stored() == {("Acme", 12, ""): 7}


@pytest.mark.django_db(transaction=True)
def test_workers_that_drain_one_product_together_lose_no_count(
    acme: Product, acme_key: str
) -> None:
    wait(acme_key, identify("ada"), *repeat([track("ada")], 199))
    at_once(*[lambda: drain(batch_size=10) for _ in range(4)])
    assert stored() == {("Acme", 12, ""): 200}


def test_a_batch_that_was_split_counts_what_it_settled_once(acme: Product, acme_key: str) -> None:
    wait(acme_key, *repeat([track("ada")], 9))
    wait_raw(acme_key, b"\xc1planted")
    drain()
    assert stored() == {("Acme", 12, ""): 9}


def test_a_message_of_a_forgotten_user_counts_only_as_dropped(acme: Product, acme_key: str) -> None:
    forgetting.forget(SubjectRef(acme.pk, SubjectScope.USER, "ada"), NOON, suppress=True)
    wait(acme_key, identify("ada"), identify("bob"))
    drain()
    assert stored() == {("Acme", 12, ""): 1, ("Acme", 12, "forgotten"): 1}


def test_waiting_messages_of_a_forgotten_user_are_counted_too(acme: Product, acme_key: str) -> None:
    wait(acme_key, identify("ada"), identify("bob"))
    forgetting.forget(SubjectRef(acme.pk, SubjectScope.USER, "ada"), NOON)
    assert stored() == {("Acme", 12, "forgotten"): 1}
    drain()
    assert of(acme).accepted == 2


def test_counts_are_kept_for_eight_days(acme: Product, acme_key: str) -> None:
    wait(acme_key, track("ada"), received_at=NOON)
    wait(acme_key, track("ada"), received_at=NOON + HOUR)
    drain(NOON + HOUR)
    retention.delete_expired(NOON + retention.HOUR_COUNT_RETENTION + timedelta(minutes=1))
    assert stored() == {("Acme", 13, ""): 1}


def test_the_hour_begins_on_the_hour() -> None:
    assert hours.start_of_hour(NOON + timedelta(minutes=59, seconds=59, microseconds=999)) == NOON


# --- The last day ---------------------------------------------------------------------------


def test_accepted_is_recorded_dropped_quarantined_and_waiting(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(received: list[ReceivedMessage]) -> list[Rejection]:
        if any(getattr(message.message, "event", "") == "cursed" for message in received):
            raise DataError("it is cursed")
        return record(received)

    named = replace(track("ada"), message_id="m1")
    wait(acme_key, identify("ada"), named, named, received_at=NOON - 2 * HOUR)
    wait(acme_key, track("ada", "cursed"), received_at=NOON - HOUR)
    monkeypatch.setattr(processing, "record", refuse)
    for attempt in range(processing.MAX_ATTEMPTS):
        drain(NOON + timedelta(minutes=attempt))
    wait(acme_key, track("ada"), track("ada"), received_at=NOON)

    status = of(acme)
    assert status.recorded[-3:] == [2, 0, 0]
    assert {reason: counts[-3:] for reason, counts in status.dropped.items()} == {
        DropReason.DUPLICATE: [1, 0, 0]
    }
    assert status.in_quarantine[-3:] == [0, 1, 0] and status.quarantined == 1
    assert status.in_inbox[-3:] == [0, 0, 2]
    assert status.waiting and (
        status.waiting.messages,
        status.waiting.oldest,
    ) == (2, NOON)
    assert status.accepted == 6
    # What moves on is in its new place alone.
    monkeypatch.setattr(processing, "record", record)
    quarantine.retry(quarantined())
    assert of(acme).in_inbox[-3:] == [0, 1, 2] and of(acme).accepted == 6
    drain()
    assert of(acme).recorded[-3:] == [2, 1, 2] and of(acme).accepted == 6


def test_the_last_day_is_24_hours_with_the_one_that_has_begun(acme: Product, acme_key: str) -> None:
    for back in (24, 23, 0):
        wait(acme_key, track("ada"), received_at=NOON - back * HOUR)
    drain()
    counts = of(acme, NOON + timedelta(minutes=30))
    assert (counts.hours[0], counts.hours[-1]) == (NOON - 23 * HOUR, NOON)
    assert counts.recorded == [1, *[0] * 22, 1]


def test_what_waits_for_longer_than_a_day_is_in_the_depth_of_the_inbox(
    acme: Product, acme_key: str
) -> None:
    wait(acme_key, track("ada"), received_at=NOON - 30 * HOUR)
    counts = of(acme)
    assert counts.waiting and (counts.waiting.messages, counts.waiting.oldest) == (
        1,
        NOON - 30 * HOUR,
    )
    assert counts.accepted == 0


def test_a_product_that_sent_nothing_has_nothing(acme: Product, globex: Product) -> None:
    counts = of(acme)
    assert counts.accepted == 0 and counts.dropped == {}
    assert counts.waiting and counts.waiting.oldest is None


def test_an_inbox_too_deep_to_count_is_reported_as_such(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait(acme_key, *repeat([track("ada")], 5000))
    monkeypatch.setattr(last_24h, "COUNT_TIMEOUT_SECONDS", 0.001)
    counts = of(acme)
    assert counts.waiting is None and counts.accepted == 0


@pytest.mark.parametrize("products", [1, 8])
def test_any_number_of_products_costs_the_same_queries(
    products: int, db: None, django_assert_num_queries: object
) -> None:
    product_rows = [Product.create_with_workspace(f"Number {number}") for number in range(products)]
    for product_row in product_rows:
        wait(IngestionKey.create(product_row, "test").secret, track("ada"))
    # Four, and the two time limits with their savepoints.
    with django_assert_num_queries(6):  # type: ignore[operator]
        last_24h.for_products([product_row.pk for product_row in product_rows], NOON)
