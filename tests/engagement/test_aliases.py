"""An alias joins two ids of one user, whatever arrives first and however much there is to move."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import wakeups
from engagement import tasks
from engagement.messages import Message, ReceivedMessage, Rejection, RejectionReason
from engagement.models import (
    Alias,
    DailyCount,
    Event,
    JoinRequest,
    Membership,
    Product,
    ReattributionRequest,
    User,
    UserEngagement,
    last_seen,
)
from engagement.recording import aliases, moving, reattribution
from engagement.recording.aliases import StoredAlias, current_id
from engagement.recording.jobs import MOVE_JOINED, REATTRIBUTE
from engagement.recording.record import record
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget, lift_suppression
from engagement.removal.jobs import ERASE_FORGOTTEN
from engagement.rescoring.rescore import rescore
from tests.cases import each, examples, leaves_no_rows
from tests.engagement.history import (
    NOON,
    alias,
    at,
    group,
    identify,
    received,
    state,
    tell,
    track,
)
from tests.engagement.test_order_does_not_matter import scores, two_tellings
from tests.jobs import run_job, step_job

pytestmark = pytest.mark.django_db


def joined_ids(product: Product) -> dict[str, str]:
    ids: dict[str, str] = state(product)["joined ids"]
    return ids


def count_of(product: Product) -> dict[str, int]:
    totals: dict[str, int] = {}
    for (user, *_), (count, _) in state(product)["counts"].items():
        totals[user] = totals.get(user, 0) + count
    return totals


# --- Which id stands for the user -----------------------------------------------------------


@each(
    ("messages", "current"),
    [
        (["a b"], "b"),
        (["a b", "b c"], "c"),
        # Late news of an id that is replaced already.
        (["b c", "a b"], "c"),
        (["a b", "a c"], "c"),
        (["a b", "b a"], "a"),
        (["a b", "b a", "a b"], "b"),
        (["a b", "b c", "c a"], "a"),
        (["a b", "b a", "a c"], "c"),
    ],
)
def test_the_id_that_no_alias_replaces_stands_for_the_user(
    messages: list[str], current: str
) -> None:
    pairs = [text.split() for text in messages]
    stored = [
        StoredAlias(previous, new, (at(hours), hours))
        for hours, (previous, new) in enumerate(pairs)
    ]
    assert current_id(stored) == current_id(reversed(stored)) == current


# --- What becomes of two users ----------------------------------------------------------------


def test_everything_of_the_old_id_becomes_the_new_users(acme: Product) -> None:
    tell(acme, identify("old", -9, group="initech", plan="free", seats=1), track("old", hours=-8))
    tell(acme, identify("new", -5, group="hooli", plan="pro"), track("new", hours=-4))
    tell(acme, track("old", hours=-3), identify("old", -2, plan="late"))
    rescore(NOON)

    tell(acme, alias("old", "new", -1))
    tell(acme, track("old"))
    rescore(NOON)

    user = User.objects.get(is_identified=True)
    assert (user.external_id, user.traits) == ("new", {"plan": "late", "seats": 1})
    times = User.objects.filter(product=acme, pk=user.pk)
    assert times.values_list("first_seen_at", last_seen(acme.pk)).get() == (at(-9), NOON)
    assert [event[1:] for event in state(acme)["events"]] == [
        ("new", "opened", at(-8), "initech"),
        ("new", "opened", at(-4), "hooli"),
        # The other user was not in the account of this event's user any more.
        ("new", "opened", at(-3), "hooli"),
        ("new", "opened", NOON, "hooli"),
    ]
    assert count_of(acme) == {"new": 4}
    row = UserEngagement.objects.get()
    assert (row.user, row.raw) == (user, 4)
    assert joined_ids(acme) == {"old": "new"}
    assert not JoinRequest.objects.exists()


def test_an_id_that_nobody_identified_is_the_users_from_then_on(acme: Product) -> None:
    tell(acme, track("old", group="initech"), alias("visitor", "new"), alias("old", "new"))
    assert not User.objects.filter(is_identified=True).exists()
    tell(acme, identify("new"), track("visitor"))
    assert count_of(acme) == {"new": 2}
    assert state(acme)["accounts"]["initech"][2], "the account of an identified user is identified"


def test_the_row_with_the_history_stays_and_takes_the_new_id(acme: Product) -> None:
    tell(acme, identify("old"), *(track("old") for _ in range(9)))
    before = User.objects.get().pk
    tell(acme, alias("old", "new"))
    assert User.objects.get(external_id="new").pk == before
    assert joined_ids(acme) == {"old": "new"}
    # An alias back makes the old id the current one again, and moves nothing.
    tell(acme, alias("new", "old", 1))
    assert User.objects.get(external_id="old").pk == before
    assert joined_ids(acme) == {"new": "old"}


def test_an_alias_of_an_id_to_itself_joins_nothing(acme: Product) -> None:
    tell(acme, identify("ada"), alias("ada", "ada", 1))
    user = User.objects.get()
    assert (user.joined_to, user.last_seen_at) == (None, at(1))
    assert not Alias.objects.exists()


def test_a_repeated_alias_is_stored_once(acme: Product) -> None:
    tell(acme, alias("old", "new"), alias("old", "new", 1))
    tell(acme, alias("old", "new", 2), alias("old", "new", -2))
    assert Alias.objects.get().occurred_at == at(2)


def test_products_do_not_share_ids(acme: Product, globex: Product) -> None:
    tell(globex, identify("old"), identify("new"))
    before = state(globex)
    tell(acme, identify("old"), identify("new"), alias("old", "new"))
    assert state(globex) == before


def test_a_user_has_a_bounded_number_of_ids(acme: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aliases, "MAX_IDS_PER_USER", 3)
    result = record(received(acme, [alias(old, "new") for old in ("a", "b", "c", "d")]))
    assert [(each.message.message, each.reason) for each in result] == [
        (alias("c", "new"), RejectionReason.TOO_MANY_IDS),
        (alias("d", "new"), RejectionReason.TOO_MANY_IDS),
    ]
    # Rejected aliases leave nothing.
    assert set(User.objects.values_list("external_id", flat=True)) == {"a", "b", "new"}
    tell(acme, identify("c"), alias("c", "other"))
    assert record(received(acme, [alias("other", "a", 1)]))
    assert joined_ids(acme) == {"a": "new", "b": "new", "c": "other"}
    # A repeat is not one more.
    assert not record(received(acme, [alias("b", "new", 2)]))


def test_traits_without_room_are_reported_with_the_alias(acme: Product) -> None:
    tell(acme, identify("old", -2, big="x" * 100_000), identify("new", -1, big_too="x" * 200_000))
    (message,) = received(acme, [alias("old", "new")])
    assert record([message]) == [Rejection(message, RejectionReason.TRAITS, "not kept: big")]


# --- In the background ------------------------------------------------------------------------


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch moves nothing; a background step moves two rows of a kind."""
    monkeypatch.setattr(moving, "MAX_ROWS_PER_BATCH", 0)
    monkeypatch.setattr(moving, "ROWS_PER_STEP", 2)


def much(acme: Product) -> None:
    tell(acme, identify("old", -30, group="initech"), identify("new", -3.5, group="hooli"))
    tell(acme, *(track("old", f"event {hour % 3}", hours=hour) for hour in range(-8, 0)))
    tell(acme, track("new", hours=-1))


def after_all(product: Product) -> dict[str, Any]:
    run_job(MOVE_JOINED, NOON)
    run_job(REATTRIBUTE, NOON)
    assert not JoinRequest.objects.exists() and not ReattributionRequest.objects.exists()
    return state(product)


def comparable(state: dict[str, Any]) -> dict[str, Any]:
    """The state without arrivals."""
    users = {
        name: (traits, sorted(stamps), *rest)
        for name, (traits, stamps, *rest) in state["users"].items()
    }
    events = [event[1:] for event in state["events"]]
    return state | {"users": users, "events": events, "memberships": set(state["memberships"])}


def test_much_is_moved_in_bounded_steps_with_the_same_result(
    acme: Product, globex: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    much(globex)
    tell(globex, alias("old", "new"))
    assert not JoinRequest.objects.exists()

    monkeypatch.setattr(moving, "MAX_ROWS_PER_BATCH", 0)
    monkeypatch.setattr(moving, "ROWS_PER_STEP", 2)
    much(acme)
    tell(acme, alias("old", "new"))
    assert count_of(acme) == {"old": 8, "new": 1}
    # What arrives between the steps is recorded for the new user.
    steps = 0
    while step_job(MOVE_JOINED, NOON):
        steps += 1
        assert sum(count_of(acme).values()) == 9
    assert steps > 4
    assert comparable(after_all(acme)) == comparable(state(globex))


def count_of_events(state: dict[str, Any]) -> list[str]:
    return [event[1] for event in state["events"]]


@pytest.mark.usefixtures("few_at_once")
def test_the_rescoring_after_a_batch_requests_the_moves(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[Any] = []
    monkeypatch.setattr(wakeups, "enqueue", lambda task, **_: requested.append(task))
    much(acme)
    tell(acme, alias("old", "new"))
    tasks.rescore()
    assert requested == [tasks.reattribute]
    # A run ends when its time is out, on a busy machine before all is moved.
    for _ in range(20):
        if JoinRequest.objects.exists():
            tasks.reattribute()
    assert not JoinRequest.objects.exists()
    rescore(NOON)
    assert UserEngagement.objects.get().raw == 9


@given(two_tellings(with_aliases=True), st.data())
@examples(4)
@leaves_no_rows
def test_moving_step_by_step_between_any_messages_gives_the_same(
    db: None, tellings: tuple[list[Message], list[list[int]]], data: st.DataObject
) -> None:
    messages, batches = tellings
    once, split = Product.create_with_workspace("once"), Product.create_with_workspace("split")
    record(
        [ReceivedMessage(once.pk, place, NOON, message) for place, message in enumerate(messages)]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moving, "MAX_ROWS_PER_BATCH", 0)
        patch.setattr(moving, "ROWS_PER_STEP", 1)
        patch.setattr(reattribution, "EVENTS_PER_STEP", 1)
        for batch in batches:
            record([ReceivedMessage(split.pk, place, NOON, messages[place]) for place in batch])
            for _ in range(data.draw(st.integers(0, 3))):
                step_job(MOVE_JOINED, NOON)
                step_job(REATTRIBUTE, NOON)
        after_all(split)
    rescore(NOON)

    assert state(split) == state(once)
    assert scores(split) == scores(once)


# --- Forgetting -------------------------------------------------------------------------------


def user(product: Product, external_id: str) -> SubjectRef:
    return SubjectRef(product.pk, SubjectScope.USER, external_id)


def assert_nothing_is_left() -> None:
    run_job(ERASE_FORGOTTEN, NOON)
    for model in (User, Event, DailyCount, Membership, Alias, JoinRequest, UserEngagement):
        assert not model.objects.exists(), model


@pytest.mark.parametrize("named", ["old", "new", "older"])
def test_a_user_is_forgotten_with_all_ids(acme: Product, named: str) -> None:
    much(acme)
    tell(acme, alias("older", "old", -3), alias("old", "new"))
    rescore(NOON)
    later = NOON + timedelta(days=9)
    assert forget(user(acme, named), later, suppress=True)
    assert_nothing_is_left()
    for external_id in ("older", "old", "new"):
        (message,) = received(acme, [identify(external_id)])
        assert record([message]) == [Rejection(message, RejectionReason.FORGOTTEN)]
    (message,) = received(acme, [alias("other", "old")])
    assert record([message]) == [Rejection(message, RejectionReason.FORGOTTEN)]
    # Any of the ids lets all of them in again.
    assert lift_suppression(user(acme, "older")) == 1
    tell(acme, identify("old"), identify("new"))
    assert joined_ids(acme) == {}


@pytest.mark.usefixtures("few_at_once")
def test_a_user_is_forgotten_with_rows_that_were_to_move(acme: Product) -> None:
    much(acme)
    tell(acme, alias("old", "new"))
    step_job(MOVE_JOINED, NOON)
    assert forget(user(acme, "new"), NOON)
    run_job(MOVE_JOINED, NOON)
    assert_nothing_is_left()


@pytest.mark.usefixtures("few_at_once")
def test_an_account_is_forgotten_with_events_that_were_to_move(acme: Product) -> None:
    much(acme)
    tell(acme, alias("old", "new"))
    step_job(MOVE_JOINED, NOON)
    assert forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "hooli"), NOON)
    run_job(ERASE_FORGOTTEN, NOON)
    rest = after_all(acme)
    # The new user was in the account from -3.5 on.
    assert [event[2:] for event in rest["events"]] == [
        (f"event {hour % 3}", at(hour), "initech") for hour in range(-8, -3)
    ]
    assert sum(count_of(acme).values()) == 5


def test_an_alias_from_before_forgetting_takes_no_effect(acme: Product) -> None:
    tell(acme, identify("old"), identify("new"))
    early = [ReceivedMessage(acme.pk, 1, NOON, alias("old", "new"))]
    forget(user(acme, "new"), NOON)
    assert record(early) == [Rejection(early[0], RejectionReason.FORGOTTEN)]
    tell(acme, group("initech", user="old"))
    assert joined_ids(acme) == {}


def test_times_of_an_alias_count_as_naming(acme: Product) -> None:
    first: datetime = at(-100)
    tell(acme, identify("new"), alias("old", "new", -100))
    assert User.objects.get(external_id="new").first_seen_at == first
