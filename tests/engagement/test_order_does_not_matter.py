"""The same messages in any order and in any batches leave the same state."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.messages import Alias, Group, Identify, Message, ReceivedMessage, Track
from engagement.models import AccountEngagement, Product, User, UserEngagement, last_seen
from engagement.recording.record import record
from engagement.rescoring.rescore import rescore
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON, state

pytestmark = pytest.mark.django_db

users = st.sampled_from(["ann", "bob"])
# One of them is named by aliases alone.
ids = st.sampled_from(["ann", "bob", "cem"])
groups = st.sampled_from(["acme", "globex", "initech"])
# Few distinct times, so that messages often carry the same one.
times = st.integers(-40, 4).map(lambda hours: NOON + timedelta(hours=hours))
traits = st.dictionaries(
    st.sampled_from(["plan", "seats", "am.tier", "AM.TIER"]),
    st.none() | st.integers(0, 3) | st.text("ab", max_size=1),
    max_size=3,
)
messages = st.one_of(
    st.builds(Identify, users, times, traits, st.none() | groups),
    st.builds(Group, groups, times, traits, st.none() | users),
    st.builds(Track, users, st.sampled_from(["opened", "saved"]), times, st.none() | groups),
)
# Each id has one that replaces it: of several, the first to arrive would count.
replacements = st.dictionaries(ids, ids, min_size=1)


@st.composite
def two_tellings(
    draw: st.DrawFn, with_aliases: bool = False
) -> tuple[list[Message], list[list[int]]]:
    """Messages, and their places in another order, split into batches."""
    drawn_messages: list[Message] = draw(st.lists(messages, min_size=1, max_size=12))
    if with_aliases:
        replaced = draw(replacements)
        aliases = st.sampled_from(sorted(replaced)).flatmap(
            lambda id: st.builds(Alias, st.just(replaced[id]), st.just(id), times)
        )
        drawn_messages += draw(st.lists(aliases, min_size=1, max_size=4))
    order = draw(st.permutations(range(len(drawn_messages))))
    cuts = sorted(draw(st.sets(st.integers(1, len(drawn_messages)), max_size=4)))
    bounds = [0, *cuts, len(drawn_messages)]
    batches = [order[a:b] for a, b in pairwise(bounds)]
    return drawn_messages, [batch for batch in batches if batch]


def scores(product: Product) -> dict[str, Any]:
    columns = ("raw", "event_count", "active_days", "last_active_at")
    of_users = UserEngagement.objects.filter(product=product)
    of_accounts = AccountEngagement.objects.filter(product=product)
    return {
        "users": sorted(map(str, of_users.values_list("user__external_id", *columns))),
        "accounts": sorted(
            map(str, of_accounts.values_list("account__external_id", *columns, "active_users"))
        ),
        "last seen": dict(
            User.objects.filter(product=product, is_identified=True).values_list(
                "external_id", last_seen(product.pk)
            )
        ),
    }


@given(two_tellings())
@examples(5)
@leaves_no_rows
def test_any_order_and_any_batches_give_the_same(
    db: None, tellings: tuple[list[Message], list[list[int]]]
) -> None:
    assert_same_state(tellings)


@pytest.mark.slow
@pytest.mark.whole
@given(two_tellings(with_aliases=True))
@examples(6)
@leaves_no_rows
def test_aliases_in_any_order_give_the_same(
    db: None, tellings: tuple[list[Message], list[list[int]]]
) -> None:
    assert_same_state(tellings)


def assert_same_state(tellings: tuple[list[Message], list[list[int]]]) -> None:
    messages, batches = tellings
    once, split = Product.create_with_workspace("once"), Product.create_with_workspace("split")

    record(
        [ReceivedMessage(once.pk, place, NOON, message) for place, message in enumerate(messages)]
    )
    for batch in batches:
        record([ReceivedMessage(split.pk, place, NOON, messages[place]) for place in batch])
        rescore(NOON)

    assert state(split) == state(once)
    assert scores(split) == scores(once)


@given(two_tellings())
@examples(5)
@leaves_no_rows
def test_each_event_belongs_to_the_account_of_the_latest_membership_before_it(
    db: None, tellings: tuple[list[Message], list[list[int]]]
) -> None:
    messages, batches = tellings
    product = Product.create_with_workspace("any")
    for batch in batches:
        record([ReceivedMessage(product.pk, place, NOON, messages[place]) for place in batch])

    recorded = {arrival: account for arrival, _, _, _, account in state(product)["events"]}
    expected = {
        place: account_when(messages, message)
        for place, message in enumerate(messages)
        if isinstance(message, Track)
    }
    assert recorded == expected


def account_when(messages: list[Message], event: Track) -> str:
    """The account of the event, by the rule applied to all messages at once."""
    memberships = sorted(
        (message.timestamp, place, message.group_id)
        for place, message in enumerate(messages)
        if message.user_id == event.user_id and message.group_id is not None
    )
    before = [group for at, _, group in memberships if at <= event.timestamp]
    first = [group for at, _, group in memberships if at == memberships[0][0]]
    return before[-1] if before else first[-1] if first else ""
