"""Traits merge one by one: the last writer wins, in any order of arrival."""

from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.traits import (
    MARKETPLACE_TRAITS,
    Source,
    Stamp,
    canonical_name,
    make_stamp,
    merge_traits,
    read_stamp,
)
from tests.cases import each

Write = tuple[dict[str, Any], Stamp]
# The earliest and the latest time that a message can carry, and an ordinary one.
EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
NOON = datetime(2026, 9, 24, 12, tzinfo=UTC)


def merged(*writes: Write) -> dict[str, Any]:
    traits: dict[str, Any] = {}
    stamps: dict[str, Any] = {}
    for incoming, stamp in writes:
        merge_traits(traits, stamps, incoming, stamp)
    return traits


def in_any_order(*writes: Write) -> dict[str, Any]:
    results = [merged(*order) for order in permutations(writes)]
    assert all(result == results[0] for result in results)
    return results[0]


def test_the_later_timestamp_wins() -> None:
    assert in_any_order(({"plan": "free"}, (1, 1)), ({"plan": "pro"}, (2, 0))) == {"plan": "pro"}


def test_of_equal_timestamps_the_later_arrival_wins() -> None:
    assert in_any_order(({"plan": "free"}, (1, 1)), ({"plan": "pro"}, (1, 2))) == {"plan": "pro"}


def test_each_trait_has_its_own_last_writer() -> None:
    writes = ({"plan": "free", "seats": 1}, (1, 1)), ({"plan": "pro"}, (2, 2))
    assert in_any_order(*writes) == {"plan": "pro", "seats": 1}


def test_null_removes_a_trait_and_an_older_value_does_not_bring_it_back() -> None:
    assert in_any_order(({"plan": "free"}, (1, 1)), ({"plan": None}, (2, 2))) == {}
    writes = ({"plan": None}, (2, 2)), ({"plan": "pro"}, (3, 3)), ({"plan": "free"}, (1, 1))
    assert in_any_order(*writes) == {"plan": "pro"}


@pytest.mark.parametrize("license_at", [EARLIEST, NOON, LATEST])
@pytest.mark.parametrize("message_at", [EARLIEST, NOON, LATEST])
def test_a_message_never_changes_what_the_marketplace_wrote(
    license_at: datetime, message_at: datetime
) -> None:
    of_license = {"am.tier": "10 Users"}, make_stamp(license_at, 1, Source.MARKETPLACE)
    of_message = {"am.tier": "5", "plan": "pro"}, make_stamp(message_at, 2)
    assert in_any_order(of_license, of_message) == {"am.tier": "10 Users", "plan": "pro"}


def test_only_the_marketplace_restores_a_trait_that_it_removed() -> None:
    removed = {"am.tier": None}, make_stamp(NOON, 1, Source.MARKETPLACE)
    of_message = {"am.tier": "5"}, make_stamp(NOON + timedelta(days=1), 2)
    assert in_any_order(removed, of_message) == {}
    later = {"am.tier": "10 Users"}, make_stamp(NOON + timedelta(hours=1), 3, Source.MARKETPLACE)
    assert in_any_order(removed, of_message, later) == {"am.tier": "10 Users"}


@pytest.mark.parametrize("at", [EARLIEST, NOON, LATEST])
@pytest.mark.parametrize("source", Source)
def test_a_stamp_says_who_wrote_and_when(source: Source, at: datetime) -> None:
    stamp = make_stamp(at, 7, source)
    assert read_stamp(list(stamp)) == (source, at)
    assert all(-(2**63) <= number < 2**63 for number in stamp), "what JSON and SQL can hold"


def test_merging_says_whether_anything_changed() -> None:
    traits: dict[str, Any] = {}
    stamps: dict[str, Any] = {}
    assert merge_traits(traits, stamps, {"plan": "pro"}, (2, 2))
    assert not merge_traits(traits, stamps, {"plan": "free"}, (1, 1))
    assert not merge_traits(traits, stamps, {}, (9, 9))


@each("name", MARKETPLACE_TRAITS)
def test_a_marketplace_trait_in_any_case_is_that_trait(name: str) -> None:
    assert canonical_name(name.lower()) == name
    assert canonical_name(name.upper()) == name
    assert merged(({name.upper(): 1}, (1, 1)), ({name: 2}, (2, 2))) == {name: 2}


def test_other_names_are_kept_verbatim() -> None:
    for name in ("Plan", "plan", "am", "am.", "AM.something", "Am.Tier.Numbers", "ǅ"):
        assert canonical_name(name) == name
    assert merged(({"Plan": 1, "plan": 2}, (1, 1))) == {"Plan": 1, "plan": 2}


def test_of_two_spellings_in_one_message_the_right_one_wins() -> None:
    assert merged(({"am.tier": "10 Users", "AM.TIER": "other"}, (1, 1))) == {"am.tier": "10 Users"}
    assert merged(({"AM.TIER": "other", "am.tier": "10 Users"}, (1, 1))) == {"am.tier": "10 Users"}


writes = st.tuples(
    st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 3)),
    st.integers(0, 3),
    st.sampled_from(Source),
)


@given(
    st.lists(writes, max_size=6).flatmap(
        lambda writes: st.tuples(st.just(writes), st.permutations(range(len(writes))))
    )
)
def test_any_order_of_any_writes_merges_to_the_same(
    writes_and_order: tuple[list[tuple[dict[str, Any], int, Source]], list[int]],
) -> None:
    writes, order = writes_and_order
    numbered = [
        (incoming, make_stamp(NOON + timedelta(hours=hours), place, source))
        for place, (incoming, hours, source) in enumerate(writes)
    ]
    assert merged(*numbered) == merged(*(numbered[place] for place in order))
