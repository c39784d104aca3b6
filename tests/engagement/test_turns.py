"""Products are scored in turns: a busy one does not keep the others waiting."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from engagement.models import Product, RescoreRequest, ScoreSet, UserEngagement, Workspace
from engagement.rescoring import rescore, sets
from tests.engagement.history import NOON, identify, tell, track

pytestmark = pytest.mark.django_db
Turns = list[tuple[str, int]]


@pytest.fixture(autouse=True)
def from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescore, "_last_product", 0)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Whose turn it was, and how many marks it could take."""
    found: Turns = []
    rescore_some = rescore._rescore_some

    def note(product_id: int, *given: object) -> tuple[int, bool]:
        found.append((Product.objects.get(pk=product_id).name, given[1]))  # type: ignore[arg-type]
        return rescore_some(product_id, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(rescore, "_rescore_some", note)
    return found


def names(turns: Turns) -> list[str]:
    return [name for name, _ in turns]


def busy(product: Product, users: int = 10) -> None:
    tell(product, *(identify(f"user {number}") for number in range(users)))
    tell(product, *(track(f"user {number}") for number in range(users)))


def questions(number: int) -> Callable[[], bool]:
    """Says that time is up after so many questions."""
    left = iter(range(number))
    return lambda: next(left, None) is None


def test_a_product_with_many_marks_lets_the_others_have_their_turn(
    acme: Product, globex: Product, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescore, "REQUESTS_PER_TURN", 4)
    busy(acme, 10)
    tell(globex, identify("zed"))
    # Asked before each turn and after its users: the time is up after two turns.
    rescore.rescore(NOON, out_of_time=questions(4))
    assert names(turns) == ["Acme", "Globex"]
    assert not RescoreRequest.objects.filter(product=globex).exists()
    assert RescoreRequest.objects.filter(product=acme).exists()
    rescore.rescore(NOON)
    assert not RescoreRequest.objects.exists()
    assert UserEngagement.objects.filter(score_set__state=ScoreSet.State.CURRENT).count() == 11


def test_a_call_begins_behind_the_product_at_which_the_last_one_ended(
    acme: Product, globex: Product, turns: Turns
) -> None:
    busy(acme)
    busy(globex)
    rescore.rescore(NOON, out_of_time=questions(1))
    busy(acme)
    rescore.rescore(NOON, out_of_time=questions(1))
    assert names(turns) == ["Acme", "Globex"]


def test_a_product_that_is_alone_takes_many_marks_at_once(
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


def test_a_product_that_comes_meanwhile_has_its_turn_in_the_same_call(
    acme: Product, globex: Product, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescore, "REQUESTS_PER_TRANSACTION", 4)
    busy(acme)
    asked = iter(range(100))

    def meanwhile() -> bool:
        if next(asked) == 1:
            tell(globex, identify("zed"), track("zed"))
        return False

    rescore.rescore(NOON, out_of_time=meanwhile)
    assert names(turns)[:3] == ["Acme", "Globex", "Acme"]


def test_sets_are_built_in_turns(
    acme: Product, globex: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped: list[int] = []
    step = sets._step

    def note(pk: int, *given: object) -> bool:
        stepped.append(ScoreSet.objects.get(pk=pk).product_id)
        return step(pk, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(sets, "IDS_PER_RANGE", 1_000_000_000)
    monkeypatch.setattr(sets, "_step", note)
    sets.request_missing_score_sets()
    sets.build_requested(NOON, NOON.date(), lambda: False)
    assert stepped == [acme.pk, globex.pk] * 3
    assert not Workspace.objects.filter(scores=None).exists()
