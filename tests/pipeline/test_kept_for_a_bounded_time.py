"""Message ids and dropped messages are forgotten in time; the counts of what was dropped stay."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from pytest_django import Settings

from engagement.models import Product
from ingestion import retention
from ingestion.models import DropCount, DroppedMessage, SeenMessageId
from tests.engagement.history import NOON, track
from tests.pipeline.waiting import counts, drain, dropped, wait

OF_NOBODY = "edk_of_nobody"


def test_message_ids_are_forgotten_after_seven_days(acme: Product, acme_key: str) -> None:
    for day in range(3):
        wait(acme_key, replace(track("ada"), message_id=f"of day {day}"))
        drain(NOON + timedelta(days=day))
    retention.forget_old(NOON + timedelta(days=8))
    kept = SeenMessageId.objects.order_by("seen_at").values_list("message_id", flat=True)
    assert list(kept) == ["of day 1", "of day 2"]


def test_dropped_messages_are_forgotten_by_age(db: None, settings: Settings) -> None:
    settings.DROPPED_RETENTION_DAYS = 30
    for day in range(3):
        wait(OF_NOBODY, track("ada"))
        drain(NOON + timedelta(days=day))
    retention.forget_old(NOON + timedelta(days=31))
    kept = DroppedMessage.objects.order_by("pk").values_list("dropped_at", flat=True)
    assert list(kept) == [NOON + timedelta(days=1), NOON + timedelta(days=2)]
    assert sum(DropCount.objects.values_list("count", flat=True)) == 3


@pytest.mark.parametrize("limit", [1, 10, 25, 30])
def test_of_too_many_dropped_messages_the_newest_are_kept(
    limit: int, db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DROPPED_LIMIT = limit
    monkeypatch.setattr(retention, "CHUNK", 7)
    ids = wait(OF_NOBODY, *[track("ada")] * 25)
    drain()
    retention.forget_old(NOON)
    assert [id for id, _ in dropped()] == ids[-limit:]
    assert DropCount.objects.get().count == 25


def test_what_was_recorded_stays(acme: Product, acme_key: str) -> None:
    wait(acme_key, replace(track("ada"), message_id="m1"))
    drain()
    retention.forget_old(NOON + timedelta(days=8))
    assert counts(acme) == {("ada", "opened"): 1}
