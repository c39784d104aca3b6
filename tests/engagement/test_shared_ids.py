"""An id that several people name as their previous one joins none of them to another."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.messages import Alias, Identify, Message, ReceivedMessage, RejectionReason
from engagement.models import Product, User
from engagement.recording.record import record
from tests.cases import each, examples, leaves_no_rows
from tests.engagement.history import NOON, alias, at, identify, received, state, tell, track

pytestmark = pytest.mark.django_db

PEOPLE = ["u1", "u2", "u3", "u4"]
DEVICES = ["device", "kiosk"]
PLACEHOLDER = "anon"


def persons(product: Product) -> set[frozenset[str]]:
    """The ids of each person."""
    rows = User.objects.filter(product=product).values_list("pk", "joined_to_id", "external_id")
    groups: dict[int, set[str]] = {}
    for pk, joined_to, external_id in rows:
        groups.setdefault(joined_to or pk, set()).add(external_id)
    return set(map(frozenset, groups.values()))


def reasons(product: Product, *messages: Message) -> list[RejectionReason]:
    return [each.reason for each in record(received(product, messages))]


def test_forty_people_who_name_one_device_stay_forty(acme: Product) -> None:
    tell(acme, track("device"))
    for number in range(40):
        person = f"u{number}"
        shared = reasons(acme, alias("device", person), identify(person), track(person))
        assert shared == ([RejectionReason.SHARED_ID] if number else [])
    assert persons(acme) == {
        frozenset({"device", "u0"}),
        *(frozenset({f"u{number}"}) for number in range(1, 40)),
    }
    # What the first one joined stays.
    assert [event[1] for event in state(acme)["events"]].count("u0") == 2


@each(
    "messages_told",
    [
        # One person after another, each identified before, with, or after the own alias.
        [[identify("u1"), alias("device", "u1")], [identify("u2"), alias("device", "u2")]],
        [[identify("u1")], [alias("device", "u1")], [identify("u2")], [alias("device", "u2")]],
        [[alias("device", "u1")], [identify("u1")], [alias("device", "u2")], [identify("u2")]],
        # All in one batch, in any order.
        [[alias("device", "u1"), alias("device", "u2", 1), identify("u2"), identify("u1")]],
        # The device is a known user itself.
        [[identify("device")], [alias("device", "u1")], [alias("device", "u2"), identify("u2")]],
    ],
)
def test_the_first_who_names_it_has_it(acme: Product, messages_told: list[list[Message]]) -> None:
    for batch in messages_told:
        tell(acme, *batch)
    assert persons(acme) == {frozenset({"device", "u1"}), frozenset({"u2"})}


def test_before_anybody_is_identified_all_are_one(acme: Product) -> None:
    tell(acme, alias("device", "visitor"), alias("device", "u1", 1))
    tell(acme, identify("u1"))
    assert persons(acme) == {frozenset({"device", "visitor", "u1"})}


def test_a_repeat_and_further_ids_of_the_same_person_are_accepted(acme: Product) -> None:
    tell(acme, identify("u1"), alias("device", "u1"), alias("kiosk", "u1"))
    assert reasons(acme, alias("device", "u1", 1), alias("u1", "u2", 2)) == []
    # It is the same person under another id.
    assert reasons(acme, alias("device", "u2", 3)) == []
    assert reasons(acme, alias("device", "u3", 4)) == [RejectionReason.SHARED_ID]


shared_aliases = st.builds(
    Alias,
    st.sampled_from(PEOPLE),
    st.sampled_from([*DEVICES, PLACEHOLDER]),
    st.integers(-3, 3).map(at),
)
identifies = st.builds(Identify, st.sampled_from(PEOPLE), st.just(NOON))


@st.composite
def batches(draw: st.DrawFn) -> list[list[Message]]:
    messages: list[Message] = draw(st.lists(shared_aliases, min_size=1, max_size=8))
    messages += draw(st.lists(identifies, max_size=6))
    messages = draw(st.permutations(messages))
    cuts = sorted(draw(st.sets(st.integers(1, len(messages)), max_size=5)))
    return [part for a, b in pairwise([0, *cuts, len(messages)]) if (part := messages[a:b])]


@given(batches())
@examples(25)
@leaves_no_rows
def test_no_two_identified_people_are_joined_by_a_shared_id(
    db: None, messages_told: list[list[Message]]
) -> None:
    product = Product.create_with_workspace("any")
    arrival = 0
    identified: set[str] = set()
    # The aliases of people who were not identified yet: the documented case.
    early: set[str] = set()
    for batch in messages_told:
        named = [
            ReceivedMessage(product.pk, arrival + n, NOON, each) for n, each in enumerate(batch)
        ]
        arrival += len(batch)
        record(named)
        identified |= {each.user_id for each in batch if isinstance(each, Identify)}
        early |= {
            each.user_id
            for each in batch
            if isinstance(each, Alias) and each.user_id not in identified
        }
    groups = persons(product)
    assert not any(PLACEHOLDER in group for group in groups)
    for group in groups:
        assert len(group & identified - early) <= 1 or group & early
        assert len(group - set(DEVICES)) <= 1 or group & early
    # Every id is somebody's, and nobody is lost.
    assert set().union(*groups) >= identified
