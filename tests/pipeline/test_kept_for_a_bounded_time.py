"""Message ids, dropped and quarantined messages are forgotten in time; counts of drops stay."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from pytest_django import Settings

from core import retention as core_retention
from engagement.messages import Track
from engagement.models import Product
from ingestion import retention
from ingestion.models import DropCount, DroppedMessage, IngestionKey, SeenMessageId
from tests.engagement.history import NOON, track
from tests.pipeline.waiting import counts, drain, dropped, quarantined, wait, wait_raw

OF_NOBODY = "edk_of_nobody"


def named(message_id: str) -> Track:
    return replace(track("ada"), message_id=message_id)


def remembered() -> list[str]:
    ids = SeenMessageId.objects.order_by("seen_at").values_list("message_id", flat=True)
    return list(ids)


# --- Message ids ----------------------------------------------------------------------------


def test_message_ids_are_forgotten_after_seven_days(acme: Product, acme_key: str) -> None:
    for day in range(3):
        wait(acme_key, named(f"of day {day}"), received_at=NOON + timedelta(days=day))
        drain(NOON + timedelta(days=day))
    retention.delete_expired(NOON + timedelta(days=8))
    assert remembered() == ["of day 1", "of day 2"]


def test_how_long_message_ids_are_remembered_is_a_setting(
    acme: Product, acme_key: str, settings: Settings
) -> None:
    settings.MESSAGE_ID_RETENTION_DAYS = 2
    wait(acme_key, named("m1"))
    drain()
    wait(acme_key, named("m1"), received_at=NOON + timedelta(days=3))
    drain(NOON + timedelta(days=3))
    assert counts(acme) == {("ada", "opened"): 2}
    retention.delete_expired(NOON + timedelta(days=5, minutes=1))
    assert remembered() == []


def test_a_message_id_is_remembered_while_a_repeat_of_it_may_wait(
    acme: Product, acme_key: str
) -> None:
    wait(acme_key, named("m1"))
    drain()
    # The repeat arrives the next day, and the workers are away for two weeks.
    wait(acme_key, named("m1"), received_at=NOON + timedelta(days=1))
    retention.delete_expired(NOON + timedelta(days=14))
    drain(NOON + timedelta(days=14))
    assert counts(acme) == {("ada", "opened"): 1}
    retention.delete_expired(NOON + timedelta(days=14))
    assert remembered() == []


# --- Dropped and quarantined messages -------------------------------------------------------


def test_dropped_messages_are_forgotten_by_age(db: None, settings: Settings) -> None:
    settings.DROPPED_RETENTION_DAYS = 30
    for day in range(3):
        wait(OF_NOBODY, track("ada"))
        drain(NOON + timedelta(days=day))
    retention.delete_expired(NOON + timedelta(days=31))
    times = DroppedMessage.objects.order_by("pk").values_list("dropped_at", flat=True)
    assert list(times) == [NOON + timedelta(days=1), NOON + timedelta(days=2)]
    assert sum(DropCount.objects.values_list("count", flat=True)) == 3


@pytest.mark.parametrize("limit", [1, 10, 25, 30])
def test_of_too_many_dropped_messages_the_newest_are_kept(
    limit: int, db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DROPPED_LIMIT = limit
    monkeypatch.setattr(core_retention, "CHUNK_ROWS", 7)
    ids = wait(OF_NOBODY, *[track("ada")] * 25)
    drain()
    retention.delete_expired(NOON)
    assert [id for id, _ in dropped()] == ids[-limit:]
    assert DropCount.objects.get().count == 25


def test_a_flood_with_unknown_keys_pushes_out_nobodys_entries(
    acme: Product, acme_key: str, globex: Product, settings: Settings
) -> None:
    settings.DROPPED_LIMIT = 5
    globex_key = IngestionKey.create(globex, "test").secret
    _, *of_acme = wait(acme_key, *[named("m1")] * 4)
    _, *of_globex = wait(globex_key, *[named("m1")] * 9)
    of_nobody = wait(OF_NOBODY, *[track("ada")] * 50)
    drain()
    retention.delete_expired(NOON)
    assert [id for id, _ in dropped()] == [*of_acme, *of_globex[-5:], *of_nobody[-5:]]


def test_quarantined_messages_are_forgotten_by_age(
    acme: Product, acme_key: str, settings: Settings
) -> None:
    settings.QUARANTINE_RETENTION_DAYS = 90
    for day in range(2):
        wait_raw(acme_key, b"\xc1")
        for minute in range(3):
            drain(NOON + timedelta(days=day, minutes=minute))
    before = quarantined()
    retention.delete_expired(NOON + timedelta(days=90, hours=1))
    assert quarantined() == before[1:]


# --- What is due ----------------------------------------------------------------------------


def test_what_is_left_when_time_is_up_goes_the_next_time(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_retention, "CHUNK_ROWS", 10)
    wait(OF_NOBODY, *[track("ada")] * 25)
    drain()
    later = NOON + timedelta(days=100)
    looks = iter([False, False, True, *[True] * 10])
    retention.delete_expired(later, lambda: next(looks))
    assert len(dropped()) == 15
    retention.delete_expired(later)
    assert dropped() == []


def test_what_was_recorded_stays(acme: Product, acme_key: str) -> None:
    wait(acme_key, named("m1"))
    drain()
    retention.delete_expired(NOON + timedelta(days=8))
    assert counts(acme) == {("ada", "opened"): 1}
