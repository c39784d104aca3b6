"""A user or an account has a bounded number of traits, even if messages keep adding others."""

from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.database import sql
from engagement.messages import Group, Message, ReceivedMessage, Rejection, RejectionReason
from engagement.models import Account, Product, User
from engagement.recording import stored_traits, trait_limits
from engagement.recording.record import record
from engagement.recording.rejection_details import name_traits
from engagement.recording.trait_limits import (
    MAX_BYTES,
    MAX_REMOVED_STAMPS,
    MAX_TRAITS,
    merge_patches,
)
from engagement.traits import MARKETPLACE_TRAITS, Source, make_stamp
from tests.engagement.history import NOON, group, identify, received, tell

pytestmark = pytest.mark.django_db

_arrivals = count(2_000_000_000)


def many(first: int, last: int, value: Any = 1) -> dict[str, Any]:
    return {f"trait {number:06}": value for number in range(first, last)}


def texts(*numbers: int, letter: str = "x") -> dict[str, Any]:
    return {f"text {number}": letter * 60_000 for number in numbers}


def of_account() -> dict[str, Any]:
    traits: dict[str, Any] = Account.objects.get(external_id="initech").traits
    return traits


def record_messages(product: Product, *messages: Message) -> list[str]:
    """What is missing of each message, in words."""
    rejections = record(received(product, messages))
    assert all(each.reason is RejectionReason.TRAITS for each in rejections)
    return [each.detail for each in rejections]


def fill(product: Product) -> None:
    """Give the account as many traits as it may have."""
    for first in range(0, MAX_TRAITS, 250):
        tell(product, group("initech", **many(first, first + 250)))
    assert len(of_account()) == MAX_TRAITS


def test_new_traits_without_room_are_dropped_and_named(acme: Product) -> None:
    fill(acme)
    message = group("initech", hours=1, plan="pro", **many(0, 2, "new"))
    (received_message,) = received(acme, [message])

    result = record([received_message])

    assert result == [Rejection(received_message, RejectionReason.TRAITS, "not kept: plan")]
    assert len(of_account()) == MAX_TRAITS
    assert of_account()["trait 000000"] == of_account()["trait 000001"] == "new"
    assert Account.objects.get().last_seen_at == NOON + timedelta(hours=1), "the rest is recorded"


def test_a_user_has_the_same_limits(acme: Product) -> None:
    for first in range(0, MAX_TRAITS + 250, 250):
        details = record_messages(acme, identify("ann", **many(first, first + 250)))
    assert details == [f"not kept: {name_traits(many(1000, 1250))}"]
    assert len(User.objects.get().traits) == MAX_TRAITS


def test_a_new_account_has_the_same_limits(acme: Product) -> None:
    batch = [group("initech", **many(first, first + 250)) for first in range(0, 1250, 250)]
    details = record_messages(acme, *batch)
    assert details == [f"not kept: {name_traits(many(1000, 1250))}"]
    assert len(of_account()) == MAX_TRAITS


def test_a_removed_trait_makes_room(acme: Product) -> None:
    fill(acme)
    tell(acme, group("initech", hours=1, **many(0, 1, None)))
    assert not record_messages(acme, group("initech", hours=2, plan="pro"))
    assert of_account()["plan"] == "pro"
    assert "trait 000000" not in of_account()


def test_the_size_of_all_traits_is_limited(acme: Product) -> None:
    for number in range(5):
        result = record_messages(acme, group("initech", **texts(number)))
    assert result == ["not kept: text 4"]
    assert sorted(of_account()) == ["text 0", "text 1", "text 2", "text 3"]


def test_an_existing_trait_grows_as_far_as_there_is_room(acme: Product) -> None:
    tell(acme, *(group("initech", **texts(number)) for number in range(4)))
    tell(acme, group("initech", hours=1, plan="pro"))
    assert record_messages(acme, group("initech", hours=2, plan="y" * 60_000))
    assert of_account()["plan"] == "pro"
    assert not record_messages(acme, group("initech", hours=3, plan="y" * 200))
    assert not record_messages(acme, group("initech", hours=4, **texts(0, letter="z")))
    assert of_account()["plan"] == "y" * 200
    assert len(str(of_account())) < MAX_BYTES + 1000


def test_traits_that_fit_after_the_batch_are_kept(acme: Product) -> None:
    fill(acme)
    result = record_messages(
        acme,
        group("initech", hours=1, plan="pro"),
        group("initech", hours=2, **many(0, 1, None)),
    )
    assert not result
    assert of_account()["plan"] == "pro"


def test_there_is_always_room_for_a_license(acme: Product) -> None:
    fill(acme)
    license = dict.fromkeys(MARKETPLACE_TRAITS, "x" * 4000)
    message = Group("initech", NOON, license)
    result = record([ReceivedMessage(acme.pk, next(_arrivals), NOON, message, Source.MARKETPLACE)])
    assert not result
    assert len(of_account()) == MAX_TRAITS + len(MARKETPLACE_TRAITS)
    # It takes no room from others.
    tell(acme, group("initech", hours=1, **many(0, 1, None)))
    assert not record_messages(acme, group("initech", hours=2, plan="pro"))


def test_license_traits_in_a_message_count_like_any_other(acme: Product) -> None:
    fill(acme)
    result = record_messages(acme, Group("initech", NOON + timedelta(hours=1), {"am.tier": "x"}))
    assert result == ["not kept: am.tier"]


def test_the_stamps_of_removed_traits_are_bounded(acme: Product) -> None:
    for hour, first in enumerate(range(0, 2 * MAX_REMOVED_STAMPS, 250)):
        tell(acme, group("initech", hours=hour, **many(first, first + 250, None)))
    stamps = Account.objects.get().trait_stamps
    assert len(stamps) == MAX_REMOVED_STAMPS
    assert min(stamps) == "trait 001000", "the latest are kept"


# --- Subjects from before there were limits ---------------------------------------------------


def test_a_subject_over_the_limits_keeps_its_traits_and_gets_no_new_ones(acme: Product) -> None:
    old = many(0, 5000, "old")
    stamps = {name: list(make_stamp(NOON, 1)) for name in old}
    tell(acme, group("initech"))
    Account.objects.update(traits=old, trait_stamps=stamps)

    result = record_messages(acme, group("initech", hours=1, plan="pro", **many(0, 1, "new")))

    assert result == ["not kept: plan"]
    assert of_account() == {**old, "trait 000000": "new"}


def test_new_traits_of_a_subject_with_megabytes_are_dropped_without_reading_them(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_traits, "OVERSIZED_BYTES", 500)
    tell(acme, group("initech", **many(0, 250, "old")))
    rows = 0
    fetch = sql.fetch

    def counting(statement: Any, *arguments: Any, **options: Any) -> list[sql.Row]:
        nonlocal rows
        result = fetch(statement, *arguments, **options)
        if "traits::text" in statement:
            rows += len(result)
        return result

    monkeypatch.setattr(sql, "fetch", counting)
    result = record_messages(acme, group("initech", hours=1, plan="pro", gone=None))
    assert result == ["not kept: plan"] and rows == 0

    assert not record_messages(acme, group("initech", hours=1, **many(0, 1, "new")))
    license = Group("initech", NOON, {"am.tier": "10"})
    record([ReceivedMessage(acme.pk, next(_arrivals), NOON, license, Source.MARKETPLACE)])
    assert (of_account()["trait 000000"], of_account()["am.tier"]) == ("new", "10")


def test_many_subjects_with_many_traits_are_written_in_chunks(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"a{number}" for number in range(7)]
    tell(acme, *(group(name, **many(0, 200)) for name in names))
    tell(acme, *(identify(name, **many(0, 200)) for name in names))
    monkeypatch.setattr(stored_traits, "CHUNK_BYTES", 3 * 2 * MAX_BYTES)
    monkeypatch.setattr(stored_traits, "DECOMPRESSION_FACTOR", 1_000_000)
    read: list[int] = []
    fetch = sql.fetch

    def noting(statement: Any, *arguments: Any, **options: Any) -> list[sql.Row]:
        result = fetch(statement, *arguments, **options)
        if "traits::text" in statement:
            read.append(len(result))
        return result

    monkeypatch.setattr(sql, "fetch", noting)
    tell(acme, *(group(name, hours=1, plan="pro") for name in names))
    tell(acme, *(identify(name, hours=1, plan="pro") for name in names))

    assert read == [3, 3, 1, 3, 3, 1]
    for model in (Account, User):
        assert model.objects.filter(traits__plan="pro").count() == 7


# --- Merging ----------------------------------------------------------------------------------


def test_a_patch_that_changes_nothing_is_not_written() -> None:
    patch = ({"plan": "pro"}, make_stamp(NOON, 1))
    merged, _ = merge_patches("{}", "{}", [patch])
    assert merged is not None
    assert merge_patches(merged.traits, merged.stamps, [patch]).merged is None


writes = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abcdef"), st.none() | st.text("xyz", max_size=4)),
        st.integers(0, 5),
    ),
    max_size=8,
)


@given(writes, st.data())
def test_limits_hold_and_under_them_nothing_changes(
    updates: list[tuple[dict[str, Any], int]], data: st.DataObject
) -> None:
    patches = [
        (patch, make_stamp(NOON + timedelta(hours=hours), place))
        for place, (patch, hours) in enumerate(updates)
    ]
    free, _ = merge_patches("{}", "{}", patches)
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(trait_limits, "MAX_TRAITS", data.draw(st.integers(1, 6)))
        limits.setattr(trait_limits, "MAX_BYTES", data.draw(st.integers(20, 80)))
        limits.setattr(trait_limits, "ALWAYS_ALLOWED_BYTES", 0)
        traits, stamps, refused = "{}", "{}", False
        for patch in patches:
            assert trait_limits.merge_new([patch]) == merge_patches("{}", "{}", [patch])
            merged, names = merge_patches(traits, stamps, [patch])
            refused = refused or bool(names)
            if merged is not None:
                traits, stamps = merged.traits, merged.stamps
            assert len(traits) <= trait_limits.MAX_BYTES
            assert traits.count(":") <= trait_limits.MAX_TRAITS
    if not refused and free is not None:
        assert (traits, stamps) == (free.traits, free.stamps)
