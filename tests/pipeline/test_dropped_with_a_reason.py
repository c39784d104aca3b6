"""What is accepted and not recorded is listed with its reason and counted."""

from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db.models import Sum
from django.utils import timezone
from msgspec.structs import replace

from engagement.messages import Group, Identify
from engagement.models import Account, Product, User
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from ingestion.drain import processing
from ingestion.log.search import MessageState, find_messages
from ingestion.models import (
    DropCount,
    DroppedMessage,
    HourCount,
    InboxMessage,
    IngestionKey,
    QuarantinedMessage,
)
from tests.engagement.history import NOON, at, group, identify, track
from tests.pipeline.conftest import Post
from tests.pipeline.waiting import at_once, counts, drain, dropped, wait, waiting

LATER = NOON + timedelta(seconds=9)
OF_NOBODY = "edk_of_nobody"


def drop_counts() -> set[tuple[str | None, date, str, int]]:
    rows = DropCount.objects.values_list("product__name", "day", "reason", "count")
    return set(rows)


def revoke(secret: str, at: datetime = NOON) -> None:
    hint = secret[:9]
    assert IngestionKey.objects.filter(hint=hint).update(revoked_at=at) == 1


# --- Placeholders ---------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v2/track", {"userId": "undefined", "event": "opened"}),
        ("/v2/identify", {"userId": "null"}),
        ("/v2/group", {"groupId": "None"}),
        ("/segment/v1/track", {"userId": 0, "event": "opened"}),
        ("/segment/v1/alias", {"userId": "ada", "previousId": "anon"}),
        ("/segment", {"type": "page", "userId": "[object Object]"}),
        ("/segment/v1/batch", {"batch": [{"type": "identify", "userId": "Guest"}]}),
        ("/v2/batch", {"batch": [{"type": "track", "userId": "test", "event": "opened"}]}),
        ("/v1/events", {"user_id": "-1", "event": "opened"}),
    ],
)
def test_a_placeholder_is_a_reason_at_every_door(
    path: str, body: dict[str, Any], post: Post, acme: Product, acme_key: str
) -> None:
    assert post(path, {"api_key": acme_key, **body}).status_code in (200, 202)
    drain(timezone.now())
    assert [reason for _, reason in dropped()] == ["placeholder"]
    assert not User.objects.exists() and not Account.objects.exists()


def test_a_placeholder_beside_a_user_is_listed_and_the_rest_recorded(
    acme: Product, acme_key: str
) -> None:
    (arrival,) = wait(acme_key, track("ada", group="undefined"))
    drain()
    row = DroppedMessage.objects.get()
    assert (row.pk, row.reason, row.detail) == (
        arrival,
        "placeholder",
        "undefined was left out; the rest was recorded",
    )
    assert counts(acme) == {("ada", "opened"): 1}
    assert set(HourCount.objects.values_list("reason", "count")) == {("", 1)}
    states = {entry.state for entry in find_messages(acme, "ada", NOON).entries}
    assert states == {MessageState.PARTLY_RECORDED, MessageState.UNIDENTIFIED_USER}
    wait(acme_key, track("undefined"))
    drain()
    (last, *_) = find_messages(acme, "undefined", NOON).entries
    assert last.state is MessageState.DROPPED


def test_a_placeholder_beside_a_forgotten_user_is_listed_once(acme: Product, acme_key: str) -> None:
    forget(SubjectRef(acme.pk, SubjectScope.USER, "ada"), NOON, suppress=True)
    (arrival,) = wait(acme_key, track("ada", group="undefined"))
    drain()
    assert dropped() == [(arrival, "forgotten")]
    assert set(HourCount.objects.values_list("reason", "count")) == {("forgotten", 1)}
    assert not QuarantinedMessage.objects.exists() and not waiting()


# --- Keys -----------------------------------------------------------------------------------


def test_an_unknown_key_is_a_reason(db: None) -> None:
    (arrival,) = wait(OF_NOBODY, track("ada"))
    drain()
    assert dropped() == [(arrival, "unknown_key")]
    assert drop_counts() == {(None, NOON.date(), "unknown_key", 1)}


def test_a_missing_key_is_another(db: None) -> None:
    (arrival,) = wait("", track("ada"))
    drain()
    assert dropped() == [(arrival, "missing_key")]


def test_a_revoked_key_is_another_and_its_product_is_known(acme: Product, acme_key: str) -> None:
    (arrival,) = wait(acme_key, track("ada"))
    # After the message was accepted, and before it was drained.
    revoke(acme_key)
    drain()
    assert dropped() == [(arrival, "revoked_key")]
    assert drop_counts() == {("Acme", NOON.date(), "revoked_key", 1)}
    assert not counts(acme)


def test_an_expired_key_accepts_what_was_received_before(acme: Product, acme_key: str) -> None:
    before, after = wait(acme_key, track("ada"), track("ada"))
    InboxMessage.objects.filter(pk=before).update(received_at=NOON - timedelta(seconds=1))
    IngestionKey.objects.update(expires_at=NOON)
    InboxMessage.objects.filter(pk=after).update(received_at=NOON)
    drain()
    assert dropped() == [(after, "expired_key")]
    assert counts(acme) == {("ada", "opened"): 1}


def test_several_keys_of_a_product_are_live_at_once(acme: Product, acme_key: str) -> None:
    second, third = (IngestionKey.create(acme, name).secret for name in ("second", "third"))
    revoke(third)
    for key in (acme_key, second, third):
        wait(key, track("ada"))
    drain()
    assert counts(acme) == {("ada", "opened"): 2}
    assert [reason for _, reason in dropped()] == ["revoked_key"]


def test_a_key_reaches_its_own_product_only(acme: Product, acme_key: str, globex: Product) -> None:
    globex_key = IngestionKey.create(globex, "test").secret
    wait(acme_key, track("ada"))
    wait(globex_key, track("ada"), track("ada"))
    drain()
    assert counts(acme) == {("ada", "opened"): 1}
    assert counts(globex) == {("ada", "opened"): 2}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"HTTP_AUTHORIZATION": ""}, "missing_key"),
        ({"HTTP_AUTHORIZATION": "Bearer x"}, "missing_key"),
        ({"HTTP_AUTHORIZATION": "Basic edk_mistyped"}, "unknown_key"),
    ],
)
def test_it_gets_202_all_the_same(headers: dict[str, str], reason: str, post: Post) -> None:
    assert post("/v2/track", {"userId": "ada", "event": "x"}, **headers).status_code == 202
    drain()
    assert [drop_reason for _, drop_reason in dropped()] == [reason]


def test_the_last_use_of_a_key_is_written_at_most_once_a_minute(
    acme: Product, acme_key: str
) -> None:
    def used_at(now: datetime) -> datetime | None:
        wait(acme_key, track("ada"))
        drain(now)
        return IngestionKey.objects.get().last_used_at

    assert used_at(NOON) == NOON
    assert used_at(NOON + timedelta(seconds=59)) == NOON
    assert used_at(NOON + timedelta(seconds=61)) == NOON + timedelta(seconds=61)


# --- What is listed -------------------------------------------------------------------------


def test_a_dropped_message_is_listed_with_what_its_sender_knows_of_it(
    acme: Product, acme_key: str
) -> None:
    revoke(acme_key)
    wait(
        acme_key,
        replace(identify("ada", group="initech", secret="planted"), message_id="m1"),
        group("initech", user="bob"),
        track("cem", "Report exported"),
    )
    drain(LATER)
    listed = DroppedMessage.objects.order_by("pk").values_list(
        "kind", "user_external_id", "account_external_id", "event", "message_id"
    )
    assert list(listed) == [
        ("identify", "ada", "initech", "", "m1"),
        ("group", "bob", "initech", "", ""),
        ("track", "cem", "", "Report exported", ""),
    ]
    for drop in DroppedMessage.objects.all():
        assert (drop.product, drop.key_hint) == (acme, acme_key[:9])
        assert (drop.received_at, drop.dropped_at) == (NOON, LATER)


def test_drops_are_counted_per_reason_product_and_day(
    acme: Product, acme_key: str, globex: Product
) -> None:
    globex_key = IngestionKey.create(globex, "test").secret
    revoke(acme_key)
    revoke(globex_key)
    for day in range(2):
        wait(acme_key, *[track("ada")] * 3)
        wait(globex_key, track("ada"))
        wait(OF_NOBODY, *[track("ada")] * 2)
        wait("", track("ada"))
        drain(NOON + timedelta(days=day))
    assert drop_counts() == {
        (product, (NOON + timedelta(days=day)).date(), reason, number)
        for day in range(2)
        for product, reason, number in [
            ("Acme", "revoked_key", 3),
            ("Globex", "revoked_key", 1),
            (None, "unknown_key", 2),
            (None, "missing_key", 1),
        ]
    }


def test_counts_add_up_over_batches(db: None) -> None:
    wait(OF_NOBODY, *[track("ada")] * 25)
    drain(batch_size=10)
    assert drop_counts() == {(None, NOON.date(), "unknown_key", 25)}
    assert len(dropped()) == 25


# --- Repeats --------------------------------------------------------------------------------

NAMED = replace(track("ada"), message_id="m1")
REPEAT = replace(track("ada", "repeated"), message_id="m1")


def test_a_repeat_within_a_batch_is_a_duplicate(acme: Product, acme_key: str) -> None:
    _, *repeats = wait(acme_key, NAMED, REPEAT, REPEAT)
    drain()
    assert counts(acme) == {("ada", "opened"): 1}
    assert dropped() == [(repeat, "duplicate") for repeat in repeats]
    assert drop_counts() == {("Acme", NOON.date(), "duplicate", 2)}


def test_a_repeat_in_a_later_batch_is_a_duplicate(acme: Product, acme_key: str) -> None:
    wait(acme_key, NAMED, REPEAT)
    drain(batch_size=1)
    wait(acme_key, REPEAT)
    drain()
    assert counts(acme) == {("ada", "opened"): 1}
    assert [reason for _, reason in dropped()] == ["duplicate"] * 2


@pytest.mark.django_db(transaction=True)
def test_a_repeat_in_another_drain_is_a_duplicate(acme: Product, acme_key: str) -> None:
    messages = [
        replace(track(f"user {number % 5}", "opened"), message_id=f"message {number % 300}")
        for number in range(900)
    ]
    wait(acme_key, *messages)
    at_once(*[partial(drain, batch_size=50)] * 4)
    drain()
    assert waiting() == []
    assert sum(counts(acme).values()) == 300
    assert [reason for _, reason in dropped()] == ["duplicate"] * 600
    assert DropCount.objects.aggregate(Sum("count")) == {"count__sum": 600}


def test_the_same_id_in_another_product_is_no_repeat(
    acme: Product, acme_key: str, globex: Product
) -> None:
    wait(acme_key, NAMED)
    wait(IngestionKey.create(globex, "test").secret, NAMED)
    drain()
    assert counts(acme) == counts(globex) == {("ada", "opened"): 1}
    assert dropped() == []


def test_the_same_id_under_another_key_of_the_product_is_a_repeat(
    acme: Product, acme_key: str
) -> None:
    wait(acme_key, NAMED)
    wait(IngestionKey.create(acme, "second").secret, REPEAT)
    drain()
    assert counts(acme) == {("ada", "opened"): 1}
    assert [reason for _, reason in dropped()] == ["duplicate"]


def test_the_same_id_on_another_kind_of_message_is_a_repeat(acme: Product, acme_key: str) -> None:
    wait(acme_key, NAMED, Identify("ada", NOON, {"plan": "pro"}, message_id="m1"))
    drain()
    assert [reason for _, reason in dropped()] == ["duplicate"]


def test_an_id_that_came_with_no_valid_key_is_not_remembered(acme: Product, acme_key: str) -> None:
    wait(OF_NOBODY, NAMED)
    wait(acme_key, NAMED)
    drain()
    assert counts(acme) == {("ada", "opened"): 1}
    assert [reason for _, reason in dropped()] == ["unknown_key"]


@pytest.mark.parametrize(("days", "times"), [(6.99, 1), (7.01, 2)])
def test_an_id_is_remembered_for_seven_days(
    days: float, times: int, acme: Product, acme_key: str
) -> None:
    later = NOON + timedelta(days=days)
    wait(acme_key, NAMED)
    drain()
    wait(acme_key, NAMED, received_at=later)
    drain(later)
    assert counts(acme) == {("ada", "opened"): times}
    # Taken up again, it is remembered for seven days from then.
    soon_after = later + timedelta(minutes=1)
    wait(acme_key, NAMED, received_at=soon_after)
    drain(soon_after)
    assert counts(acme) == {("ada", "opened"): times}


@pytest.mark.parametrize(("days", "times"), [(6.99, 1), (7.01, 2)])
@pytest.mark.parametrize("first_is_drained", ["at once", "late"])
@pytest.mark.parametrize("in_order", [True, False])
def test_when_messages_were_received_counts_and_not_when_they_were_drained(
    days: float,
    times: int,
    first_is_drained: str,
    in_order: bool,
    acme: Product,
    acme_key: str,
) -> None:
    received = [NOON, NOON + timedelta(days=days)]
    first, second = received if in_order else received[::-1]
    long_after = NOON + timedelta(days=30)
    wait(acme_key, NAMED, received_at=first)
    drain(first if first_is_drained == "at once" else long_after)
    wait(acme_key, NAMED, received_at=second)
    drain(long_after + timedelta(days=30))
    assert counts(acme) == {("ada", "opened"): times}


def test_nothing_is_a_repeat_by_its_content(acme: Product, acme_key: str) -> None:
    wait(acme_key, *[track("ada")] * 3, *[identify("ada", plan="pro")] * 3)
    drain()
    assert counts(acme) == {("ada", "opened"): 3}
    assert dropped() == []


@pytest.mark.django_db(transaction=True)
def test_the_idempotency_key_names_a_message_too(acme: Product, post: Post) -> None:
    body = {"userId": "ada", "event": "opened"}
    assert post("/v2/track", body, HTTP_IDEMPOTENCY_KEY="m1").status_code == 202
    assert post("/v2/track", body, HTTP_IDEMPOTENCY_KEY="m1").status_code == 202
    assert post("/v2/track", {**body, "messageId": "m1"}).status_code == 202
    assert post("/v2/track", body, HTTP_IDEMPOTENCY_KEY="m2").status_code == 202
    drain()
    assert counts(acme) == {("ada", "opened"): 2}
    assert [reason for _, reason in dropped()] == ["duplicate"] * 2


# --- Places in the order of arrival ---------------------------------------------------------


def test_a_place_in_the_order_of_arrival_is_never_given_twice(acme: Product, acme_key: str) -> None:
    arrivals = [*wait(acme_key, track("ada")), *wait(OF_NOBODY, track("ada"))]
    drain()
    arrivals += wait(acme_key, NAMED, REPEAT, track("ada", "\0"))
    for attempt in range(processing.MAX_ATTEMPTS):
        drain(NOON + timedelta(minutes=attempt))
    arrivals += wait(acme_key, track("ada"))
    assert sorted(set(arrivals)) == arrivals


# --- Traits that find no room ---------------------------------------------------------------


def full(acme: Product, acme_key: str) -> None:
    """Give the account as many traits as it may have."""
    for first in range(0, 1000, 250):
        traits: dict[str, Any] = {f"trait {number}": 1 for number in range(first, first + 250)}
        wait(acme_key, group("initech", **traits))
    drain()
    assert not dropped()


def test_traits_without_room_are_listed_and_the_rest_of_the_message_is_recorded(
    acme: Product, acme_key: str
) -> None:
    full(acme, acme_key)
    message = Group("initech", at(1), {"plan": "pro", "trait 7": 2}, "ada")
    (arrival,) = wait(acme_key, message)
    drain()

    assert dropped() == [(arrival, "too_many_traits")]
    row = DroppedMessage.objects.get()
    assert row.detail == "not kept: plan" and row.account_external_id == "initech"
    account = Account.objects.get()
    assert account.traits["trait 7"] == 2 and "plan" not in account.traits
    assert User.objects.get().account == account
    assert drop_counts() == {("Acme", NOON.date(), "too_many_traits", 1)}
    # By the hour each message counts once: this one as recorded.
    assert set(HourCount.objects.values_list("reason", "count")) == {("", 5)}


def test_the_log_says_which_traits_were_not_kept(acme: Product, acme_key: str) -> None:
    full(acme, acme_key)
    names: dict[str, Any] = {
        f"an extra trait with a name that is long {number:>50}": 1 for number in range(12)
    }
    wait(acme_key, group("initech", hours=1, **names))
    drain()
    entry = next(
        entry
        for entry in find_messages(acme, "initech", NOON).entries
        if entry.state is MessageState.PARTLY_RECORDED
    )
    assert entry.explanation.startswith("Too many traits: not kept: an extra trait")
    assert entry.explanation.endswith("… and 2 more") and len(entry.explanation) < 1000
    assert "To make room" in entry.remedy
