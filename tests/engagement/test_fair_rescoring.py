"""Products are scored in turns, so that a busy one does not delay the others."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from engagement.models import Product, RescoreRequest, ScoreSet, UserEngagement, Workspace
from engagement.rescoring import ranges, rescore, sets
from engagement.rescoring.jobs import BUILD_SETS
from tests.engagement.history import NOON, identify, tell, track
from tests.jobs import run_job

pytestmark = pytest.mark.django_db
Turns = list[tuple[str, int]]


@pytest.fixture(autouse=True)
def first_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescore, "_last_product", 0)
    monkeypatch.setattr(rescore, "_turns_at", {})


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """The product of each turn, and its limit of requests."""
    turns: Turns = []
    take_turn = rescore._take_turn

    def note(product_id: int, *arguments: object) -> Any:
        turns.append((Product.objects.get(pk=product_id).name, arguments[1]))  # type: ignore[arg-type]
        return take_turn(product_id, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rescore, "_take_turn", note)
    return turns


def names(turns: Turns) -> list[str]:
    return [name for name, _ in turns]


def busy(product: Product, users: int = 10) -> None:
    tell(product, *(identify(f"user {number}") for number in range(users)))
    tell(product, *(track(f"user {number}") for number in range(users)))


def allow_steps(number: int) -> Callable[[], bool]:
    """An ``out_of_time`` that returns true after *number* calls."""
    steps_left = iter(range(number))
    return lambda: next(steps_left, None) is None


def test_a_product_with_many_requests_does_not_delay_the_others(
    acme: Product, globex: Product, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescore, "REQUESTS_PER_TURN", 4)
    busy(acme, 10)
    tell(globex, identify("zed"))
    # It is called before each turn and after its users, so time is up after two turns.
    rescore.rescore(NOON, out_of_time=allow_steps(4))
    assert names(turns) == ["Acme", "Globex"]
    assert not RescoreRequest.objects.filter(product=globex).exists()
    assert RescoreRequest.objects.filter(product=acme).exists()
    rescore.rescore(NOON)
    assert not RescoreRequest.objects.exists()
    assert UserEngagement.objects.filter(score_set__state=ScoreSet.State.CURRENT).count() == 11


def test_a_call_starts_after_the_last_product_of_the_previous_call(
    acme: Product, globex: Product, turns: Turns
) -> None:
    busy(acme)
    busy(globex)
    rescore.rescore(NOON, out_of_time=allow_steps(1))
    busy(acme)
    rescore.rescore(NOON, out_of_time=allow_steps(1))
    assert names(turns) == ["Acme", "Globex"]


def test_a_product_alone_takes_many_requests_at_once(
    acme: Product, globex: Product, turns: Turns
) -> None:
    busy(acme)
    rescore.rescore(NOON)
    busy(acme)
    busy(globex)
    rescore.rescore(NOON + timedelta(minutes=1))
    many, few = rescore.REQUESTS_PER_TRANSACTION, rescore.REQUESTS_PER_TURN
    assert turns[0] == ("Acme", many)
    assert sorted(turns[1:]) == [("Acme", few), ("Globex", few)]


def test_a_product_with_new_requests_gets_a_turn_in_the_same_call(
    acme: Product, globex: Product, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescore, "REQUESTS_PER_TRANSACTION", 4)
    busy(acme)
    calls = iter(range(100))

    def meanwhile() -> bool:
        if next(calls) == 1:
            tell(globex, identify("zed"), track("zed"))
        return False

    rescore.rescore(NOON, out_of_time=meanwhile)
    assert names(turns)[:3] == ["Acme", "Globex", "Acme"]


def test_a_finished_product_gets_further_turns_beside_an_unfinished_one(
    acme: Product, globex: Product, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescore, "REQUESTS_PER_TURN", 4)
    monkeypatch.setattr(rescore, "PAUSE_SECONDS", 0.0)
    busy(acme, 10)
    tell(globex, identify("zed"), track("zed"))

    def meanwhile() -> bool:
        # Somebody new after each turn, as long as Acme has requests.
        if names(turns)[-1:] == ["Globex"] and RescoreRequest.objects.filter(product=acme).exists():
            tell(globex, identify(f"zed {len(turns)}"))
        return False

    rescore.rescore(NOON, out_of_time=meanwhile)
    assert names(turns)[:6] == ["Acme", "Globex"] * 3
    # The turns stay short: somebody else was there a short time ago.
    assert {limit for _, limit in turns} == {4}
    # When all are finished, the call ends, whatever has arrived.
    turns.clear()
    tell(acme, track("user 1"))

    def always_more() -> bool:
        if turns:
            tell(acme, track("user 1"))
        return len(turns) > 5

    rescore.rescore(NOON, out_of_time=always_more)
    assert turns == [("Acme", 4)]


def test_sets_are_built_in_turns(
    acme: Product, globex: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    product_ids: list[int] = []
    build = sets._build_part

    def note(score_set: ScoreSet, now: datetime) -> bool:
        product_ids.append(score_set.product_id)
        return build(score_set, now)

    monkeypatch.setattr(ranges, "IDS_PER_RANGE", 1_000_000_000)
    monkeypatch.setattr(sets, "_build_part", note)
    sets.request_missing_score_sets(NOON.date())
    run_job(BUILD_SETS, NOON)
    assert product_ids == [acme.pk, globex.pk] * 3
    assert not Workspace.objects.filter(scores=None).exists()
