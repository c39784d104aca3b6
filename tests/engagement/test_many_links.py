"""Storing a membership costs the same however many memberships the user has."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.database import sql
from engagement.messages import Identify, Message, ReceivedMessage
from engagement.models import Event, Membership, Product, User
from engagement.recording.attribution import MembershipRecord, build_timeline, changed_spans
from engagement.recording.record import record
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON, identify, state, tell, track

pytestmark = pytest.mark.django_db


def alternating(count: int, *, first: int = 0) -> list[Identify]:
    """Identifies of one user, each in another account than the one before."""
    hours = range(first, first + count)
    return [identify("ann", hour, group=("initech", "hooli")[hour % 2]) for hour in hours]


def memberships_read() -> int:
    """The number of membership rows that this transaction has read so far."""
    ((rows,),) = sql.fetch(
        "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables"
        " WHERE relname = 'engagement_membership'"
    )
    return int(rows)


@contextmanager
def python_calls() -> Iterator[list[int]]:
    """Counts calls of Python functions: a measurement that other processes do not disturb."""
    calls = [0]

    def count(frame: Any, event: str, argument: Any) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("hours", [1500, 700.5, -3], ids=["after", "between", "before"])
def test_storing_a_membership_reads_only_its_neighbors(acme: Product, hours: float) -> None:
    tell(acme, *alternating(1500))
    tell(acme, track("ann", hours=1499))
    sql.execute("ANALYZE engagement_membership")
    before = memberships_read()

    tell(acme, identify("ann", hours, group="umbrella"))

    assert memberships_read() - before < 30


def test_an_event_of_long_ago_reads_few_memberships(acme: Product) -> None:
    tell(acme, *alternating(1500))
    sql.execute("ANALYZE engagement_membership")
    before = memberships_read()

    tell(acme, *(track("ann", hours=hours) for hours in (-5, 700.5, 1200.5)))

    assert memberships_read() - before < 30
    accounts = Event.objects.order_by("occurred_at").values_list("account__external_id", flat=True)
    assert list(accounts) == ["initech", "initech", "initech"]


def test_a_batch_of_memberships_of_one_user_takes_linear_time(acme: Product) -> None:
    def calls(count: int, first: int) -> int:
        messages = alternating(count, first=first)
        with python_calls() as total:
            tell(acme, *messages)
        return total[0]

    calls(10, 0)
    few, many = calls(200, 10), calls(1600, 210)

    assert many < 12 * few, "eight times the memberships, not 64 times the work"


def test_comparing_timelines_names_what_changed() -> None:
    def at(day: int) -> datetime:
        return NOON + timedelta(days=day)

    stored = [
        MembershipRecord(at(1), 1, 10),
        MembershipRecord(at(3), 2, 20),
        MembershipRecord(at(5), 3, 10),
    ]
    old = build_timeline(stored)
    assert changed_spans(old, old) == []
    assert changed_spans([], old) == [(None, None)]
    assert changed_spans(old, build_timeline([*stored, MembershipRecord(at(2), 4, 20)])) == [
        (at(2), at(3))
    ]
    assert changed_spans(old, build_timeline([*stored, MembershipRecord(at(0), 4, 30)])) == [
        (None, at(1))
    ]
    assert changed_spans(old, build_timeline([*stored, MembershipRecord(at(7), 4, 30)])) == [
        (at(7), None)
    ]
    # Changes that touch are one span, whichever accounts are in it.
    two = [*stored, MembershipRecord(at(3), 5, 30), MembershipRecord(at(4), 6, 40)]
    assert changed_spans(old, build_timeline(two)) == [(at(3), at(5))]


# --- Compared with the rule, applied to all messages at once ----------------------------------

moves = st.builds(
    identify,
    st.just("ann"),
    st.integers(0, 12),
    st.sampled_from(["acme", "globex", "initech"]),
)
tellings = st.lists(
    moves | st.builds(track, st.just("ann"), hours=st.integers(-1, 13)), max_size=30
)


def since(messages: list[Message]) -> tuple[str | None, datetime | None]:
    """The account of the latest membership, and since when no other one counts."""
    accounts = {}
    for message in sorted_by_time(messages):
        accounts[message.timestamp] = message.group_id
    account: str | None = None
    began: datetime | None = None
    for at, group in accounts.items():
        if group != account:
            account, began = group, None if account is None else at
    return account, began


def sorted_by_time(messages: list[Message]) -> list[Identify]:
    return sorted(
        (message for message in messages if isinstance(message, Identify)),
        key=lambda message: message.timestamp,
    )


@given(tellings, st.lists(st.integers(1, 8), max_size=8))
@examples(5)
@leaves_no_rows
def test_a_user_of_many_accounts_is_where_the_memberships_say(
    db: None, messages: list[Message], sizes: list[int]
) -> None:
    once, split = Product.create_with_workspace("once"), Product.create_with_workspace("split")
    received = [
        ReceivedMessage(once.pk, place, NOON, message) for place, message in enumerate(messages)
    ]
    record(received)
    rest = list(enumerate(messages))
    for size in [*sizes, len(messages)]:
        batch, rest = rest[:size], rest[size:]
        record([ReceivedMessage(split.pk, place, NOON, message) for place, message in batch])

    assert state(split) == state(once)
    for user in User.objects.filter(product=split).select_related("account"):
        current = (user.account.external_id if user.account else None, user.account_since)
        assert current == since(messages)


def test_all_memberships_are_kept(acme: Product) -> None:
    tell(acme, *alternating(20))
    tell(acme, *alternating(20, first=20))
    assert Membership.objects.count() == 40
