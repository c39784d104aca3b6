"""What is bad or anonymous in a batch is listed as dropped, and the rest is recorded."""

from datetime import date

import pytest

from engagement.models import Product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.removal.jobs import ERASE_FORGOTTEN
from ingestion.models import DropCount, DroppedMessage, DropReason, InboxMessage, SeenMessageId
from ingestion.payloads import UnusableMessage
from tests.engagement.history import NOON, track
from tests.jobs import run_job
from tests.pipeline.conftest import Post
from tests.pipeline.waiting import counts, drain, dropped, places_of, quarantined, wait, waiting

GOOD = {"type": "track", "userId": "ada", "event": "Opened"}
NAMELESS = {"type": "track", "userId": "ada", "messageId": "m1", "properties": {"a": "planted"}}
ANONYMOUS = {"type": "page", "anonymousId": "planted", "name": "Home", "messageId": "m2"}
ALIAS = {"type": "alias", "userId": "planted", "previousId": "a1", "anonymousId": "a1"}
NOTE = UnusableMessage(DropReason.INVALID, "track", "event is required.", "Opened", "m1")


def listed() -> list[tuple[str, ...]]:
    rows = DroppedMessage.objects.order_by("pk")
    return list(rows.values_list("reason", "kind", "event", "message_id", "detail"))


@pytest.mark.django_db(transaction=True)
def test_a_batch_that_is_sent_again_with_its_idempotency_key_counts_once(
    post: Post, acme: Product
) -> None:
    batch = {"batch": [GOOD, GOOD, GOOD | {"messageId": "m1"}]}
    for key in ("first", "first", "second"):
        post("/segment/v1/batch", batch, HTTP_IDEMPOTENCY_KEY=key)
        drain()
    # Two of each batch, and one for all of them.
    assert counts(acme) == {("ada", "Opened"): 5}
    assert [row[3] for row in listed()] == ["first#0", "first#1", "m1", "m1"]


@pytest.mark.django_db(transaction=True)
def test_a_batch_is_recorded_but_for_what_is_wrong_in_it(post: Post, acme: Product) -> None:
    batch = [GOOD, NAMELESS, GOOD, ANONYMOUS, ALIAS, "nonsense", GOOD]
    assert post("/segment/v1/batch", {"batch": batch}).status_code == 200
    drain()
    assert counts(acme) == {("ada", "Opened"): 3}
    assert listed() == [
        (
            "unusable",
            "track",
            "",
            "m1",
            "event is required and must be a non-empty string.",
        ),
        ("anonymous", "page", "", "m2", ""),
        ("anonymous", "alias", "", "", ""),
        ("unusable", "unknown", "", "", "A message must be a JSON object."),
    ]
    assert set(DroppedMessage.objects.values_list("product__name", flat=True)) == {"Acme"}
    assert (waiting(), quarantined(), places_of("planted")) == ([], [], set())


@pytest.mark.django_db(transaction=True)
def test_whole_messages_that_are_not_recorded_wait_in_the_inbox_like_others(post: Post) -> None:
    assert post("/segment", {**ANONYMOUS, "type": "screen"}).status_code == 202
    assert post("/segment/v1/a", ALIAS).status_code == 200
    assert InboxMessage.objects.count() == 2
    assert listed() == []
    drain()
    assert [reason for _, reason in dropped()] == ["anonymous", "anonymous"]


def test_they_are_counted_per_reason(acme: Product, acme_key: str) -> None:
    alias = UnusableMessage(DropReason.ALIAS, "alias")
    wait(acme_key, NOTE, NOTE, alias)
    drain()
    rows = DropCount.objects.values_list("product__name", "day", "reason", "count")
    day: date = NOON.date()
    assert set(rows) == {("Acme", day, "unusable", 2), ("Acme", day, "alias", 1)}


def test_without_a_valid_key_that_is_the_reason(acme: Product) -> None:
    wait("edk_of_nobody", NOTE)
    drain()
    assert [reason for _, reason in dropped()] == ["unknown_key"]


def test_the_message_id_of_one_that_was_bad_may_come_again(acme: Product, acme_key: str) -> None:
    wait(acme_key, NOTE, NOTE)
    drain()
    assert not SeenMessageId.objects.exists()
    assert [reason for _, reason in dropped()] == ["unusable"] * 2


def test_forgetting_a_user_keeps_messages_that_mention_nobody(acme: Product, acme_key: str) -> None:
    # The note's message id is the user's id, by chance.
    wait(acme_key, track("m1"), NOTE)
    forgetting.forget(SubjectRef(acme.pk, SubjectScope.USER, "m1"), NOON, suppress=False)
    run_job(ERASE_FORGOTTEN, NOON)
    drain()
    assert sorted(reason for _, reason in dropped()) == ["forgotten", "unusable"]


@pytest.mark.django_db(transaction=True)
def test_a_batch_that_is_sent_again_counts_once(post: Post, acme: Product) -> None:
    batch = [{**GOOD, "messageId": f"message {number}"} for number in range(20)]
    for _ in range(3):
        assert post("/segment/v1/batch", {"batch": batch}).status_code == 200
        drain()
    assert counts(acme) == {("ada", "Opened"): 20}
    assert [reason for _, reason in dropped()] == ["duplicate"] * 40
