"""Parting an id from a user takes along what came with it, and joining it again gives what was."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from engagement.messages import Alias, Identify, Message, ReceivedMessage, Track
from engagement.models import (
    Alias as StoredAlias,
)
from engagement.models import (
    Event,
    JoinRequest,
    PartRequest,
    Product,
    ReattributionRequest,
    User,
    UserEngagement,
)
from engagement.recording import moving, parting
from engagement.recording.jobs import MOVE_JOINED, MOVE_PARTED, REATTRIBUTE
from engagement.recording.record import record
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from engagement.removal.jobs import ERASE_FORGOTTEN, THIN_MEMBERSHIPS
from engagement.rescoring.rescore import rescore
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON, alias, at, identify, state, tell, track
from tests.jobs import run_job, step_job

pytestmark = pytest.mark.django_db(transaction=True)


def settle(product: Product) -> dict[str, Any]:
    run_job(MOVE_JOINED, NOON)
    run_job(MOVE_PARTED, NOON)
    run_job(REATTRIBUTE, NOON)
    for model in (JoinRequest, PartRequest, ReattributionRequest):
        assert not model.objects.filter(product=product).exists(), model
    return state(product)


def part(product: Product, id: str) -> list[list[str]]:
    """Part the id. Returns the ids that left, together with those they left with."""
    return [each.part.ids for each in parting.part(product.pk, id, NOON)]


def report_of(product: Product) -> dict[str, list[tuple[str, str]]]:
    """Each user's events, with their accounts."""
    events: dict[str, list[tuple[str, str]]] = {}
    for _, user, name, _, account in state(product)["events"]:
        events.setdefault(user, []).append((name, account))
    return events


@pytest.fixture
def joined(acme: Product) -> Product:
    """Ada, of Initech, has the events and the account of a kiosk and of Bob, of Hooli."""
    tell(acme, identify("ada", -9, "initech", plan="pro"), track("ada", "before", -8))
    tell(acme, track("kiosk", "kiosk", -7, "hooli"), identify("bob", -6, "hooli"))
    tell(acme, alias("kiosk", "ada", -5), alias("ada", "bob", -4))
    tell(acme, track("ada", "after", -3), track("bob", "bob", -2), track("kiosk", "late", -1))
    return acme


def test_what_came_with_an_id_goes_with_it(joined: Product) -> None:
    before = settle(joined)
    assert set(before["users"]) == {"bob"}
    assert part(joined, "kiosk") == [["kiosk"]]
    after = settle(joined)
    assert report_of(joined) == {
        "kiosk": [("kiosk", "hooli"), ("late", "hooli")],
        "bob": [("before", "initech"), ("after", "hooli"), ("bob", "hooli")],
    }
    assert after["joined ids"] == {"ada": "bob"}
    # Traits stay, because nothing says with which id they came.
    assert after["users"]["bob"][0] == {"plan": "pro"}
    tell(joined, alias("kiosk", "ada", -5))
    assert settle(joined) == before


def test_an_id_that_held_others_together_leaves_them_apart(joined: Product) -> None:
    before = settle(joined)
    assert part(joined, "ada") == [["ada"], ["kiosk"]]
    after = settle(joined)
    assert set(after["users"]) == {"ada", "bob", "kiosk"} and not after["joined ids"]
    assert report_of(joined) == {
        "ada": [("before", "initech"), ("after", "initech")],
        "bob": [("bob", "hooli")],
        "kiosk": [("kiosk", "hooli"), ("late", "hooli")],
    }
    tell(joined, alias("kiosk", "ada", -5), alias("ada", "bob", -4))
    assert settle(joined) == before


def test_the_shown_id_leaves_and_the_row_stays_with_the_others(joined: Product) -> None:
    settle(joined)
    assert part(joined, "bob") == [["bob"]]
    after = settle(joined)
    assert set(after["users"]) == {"ada", "bob"}
    assert after["joined ids"] == {"kiosk": "ada"}
    assert report_of(joined)["bob"] == [("bob", "hooli")]


def test_users_are_scored_apart(joined: Product) -> None:
    settle(joined)
    rescore(NOON)
    assert {row.user.external_id: row.raw for row in UserEngagement.objects.all()} == {"bob": 5}
    part(joined, "kiosk")
    settle(joined)
    rescore(NOON)
    scores = {row.user.external_id: row.raw for row in UserEngagement.objects.all()}
    assert scores == {"bob": 3, "kiosk": 2}


def test_only_one_of_several_ids_can_be_parted(joined: Product) -> None:
    for id in ("nobody", "zoe"):
        tell(joined, identify("zoe"))
        with pytest.raises(parting.PartError):
            parting.part(joined.pk, id, NOON)
    parting.part(joined.pk, "kiosk", NOON)
    with pytest.raises(parting.PartError):
        parting.part(joined.pk, "kiosk", NOON)


def test_other_users_and_products_are_untouched(joined: Product, globex: Product) -> None:
    tell(globex, identify("ada", group="initech"), track("kiosk"), alias("kiosk", "ada"))
    before = settle(globex)
    part(joined, "kiosk")
    settle(joined)
    assert state(globex) == before


def test_thinning_keeps_what_the_parts_need(acme: Product) -> None:
    """Both ids say the same account, so the later says nothing new of the joined user."""
    tell(acme, identify("ada", -2, "initech"), track("ada", "mine", 1))
    tell(acme, identify("kiosk", -1, "initech"), track("kiosk", "kiosk", 2))
    tell(acme, alias("kiosk", "ada", 3))
    settle(acme)
    run_job(THIN_MEMBERSHIPS, NOON + timedelta(days=30))
    part(acme, "kiosk")
    settle(acme)
    assert report_of(acme) == {"ada": [("mine", "initech")], "kiosk": [("kiosk", "initech")]}


# --- Steps, crashes, and what comes in between --------------------------------------------------


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parting, "ROWS_PER_STEP", 2)


@pytest.mark.usefixtures("small_steps")
def test_counts_and_events_agree_after_every_step(joined: Product) -> None:
    tell(joined, *(track("kiosk", f"event {n % 3}", -0.9 + n / 100) for n in range(9)))
    settle(joined)
    part(joined, "kiosk")
    assert PartRequest.objects.get().total == 11
    steps = 0
    while step_job(MOVE_PARTED, NOON):
        steps += 1
        now = state(joined)
        counted = {key[:3]: count for key, (count, _) in now["counts"].items()}
        stored: dict[Any, int] = {}
        for _, user, name, moment, _ in now["events"]:
            key = (user, moment.date(), name)
            stored[key] = stored.get(key, 0) + 1
        assert counted == stored
    assert steps > 5
    assert len(report_of(joined)["kiosk"]) == 11


@pytest.mark.usefixtures("small_steps")
def test_an_alias_between_the_steps_joins_them_again(joined: Product) -> None:
    before = settle(joined)
    part(joined, "kiosk")
    step_job(MOVE_PARTED, NOON)
    tell(joined, alias("kiosk", "ada", -5))
    assert settle(joined) == before


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("forgotten", ["kiosk", "bob"])
def test_forgetting_waits_for_what_is_still_to_move(joined: Product, forgotten: str) -> None:
    settle(joined)
    part(joined, "kiosk")
    forget(SubjectRef(joined.pk, SubjectScope.USER, forgotten), NOON)
    run_job(ERASE_FORGOTTEN, NOON)
    settle(joined)
    other = {"kiosk": "bob", "bob": "kiosk"}[forgotten]
    assert set(report_of(joined)) == {other}
    assert len(report_of(joined)[other]) == {"kiosk": 2, "bob": 3}[other]
    assert Event.objects.count() == len(report_of(joined)[other])


# --- Any history ------------------------------------------------------------------------------

IDS = ["ann", "bob", "cem", "dan"]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[Message]], str]:
    """Batches of messages, each at a time of its own, and an id that aliases name."""
    ids, groups = st.sampled_from(IDS), st.sampled_from(["acme", "globex", "initech"])
    message = st.one_of(
        st.builds(Identify, ids, st.just(NOON), st.just({}), st.none() | groups),
        st.builds(Track, ids, st.sampled_from(["opened", "saved"]), st.just(NOON)),
        st.builds(Track, ids, st.just("opened"), st.just(NOON), groups),
    )
    messages: list[Message] = draw(st.lists(message, min_size=3, max_size=14))
    # Each id has one that replaces it, because of several the first to arrive counts.
    replaced = draw(st.dictionaries(ids, ids, min_size=2))
    pairs = [(old, new) for old, new in sorted(replaced.items()) if old != new]
    messages += [Alias(new, old, NOON) for old, new in pairs or [("ann", "bob")]]
    messages = draw(st.permutations(messages))
    hours = draw(st.permutations(range(len(messages))))
    timed = [replace(each, timestamp=at(-hour)) for each, hour in zip(messages, hours, strict=True)]
    cuts = sorted(draw(st.sets(st.integers(1, len(timed)), max_size=4)))
    batches = [timed[a:b] for a, b in pairwise([0, *cuts, len(timed)]) if a < b]
    named = [
        id for each in timed if isinstance(each, Alias) for id in (each.user_id, each.previous_id)
    ]
    return batches, draw(st.sampled_from(named))


def record_all(product: Product, batches: list[list[Message]], leaving_out: str = "") -> None:
    arrival = 0
    for batch in batches:
        numbered = [
            ReceivedMessage(product.pk, arrival + place, NOON, each)
            for place, each in enumerate(batch)
            if not names(each, leaving_out)
        ]
        arrival += len(batch)
        record(numbered)


def names(message: Message, id: str) -> bool:
    return isinstance(message, Alias) and id in (message.user_id, message.previous_id)


@given(histories(), st.booleans())
@examples(12)
@leaves_no_rows
def test_parting_gives_what_would_have_been_and_joining_gives_what_was(
    db: None, drawn: tuple[list[list[Message]], str], in_steps: bool
) -> None:
    batches, id = drawn
    acme, never = Product.create_with_workspace("acme"), Product.create_with_workspace("never")
    with pytest.MonkeyPatch.context() as patch:
        if in_steps:
            patch.setattr(parting, "ROWS_PER_STEP", 1)
            patch.setattr(moving, "MAX_ROWS_PER_BATCH", 0)
            patch.setattr(moving, "ROWS_PER_STEP", 1)
        record_all(acme, batches)
        record_all(never, batches, leaving_out=id)
        before_parting = settle(acme)
        parting.part(acme.pk, id, NOON)
        apart, expected = settle(acme), settle(never)
        for what in ("events", "counts", "memberships"):
            assert apart[what] == expected[what], what
        # Ids that only an alias named have no row without it.
        assert {name: row[3:5] for name, row in expected["users"].items()}.items() <= {
            name: row[3:5] for name, row in apart["users"].items()
        }.items()
        record_all(acme, [[each for batch in batches for each in batch if names(each, id)]])
        assert settle(acme) == before_parting
    assert not StoredAlias.objects.exclude(product__in=(acme, never)).exists()
    assert User.objects.filter(product=acme).exists()
