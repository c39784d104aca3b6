"""Forms suggest a bounded number of names, whatever was sent."""

from typing import Any

import pytest

from console import suggestions as module
from console.suggestions import MAX_SUGGESTIONS, load_suggestions
from engagement.models import Account, Product
from tests.engagement.history import group, identify, tell, track

pytestmark = pytest.mark.django_db


def many(prefix: str, count: int) -> dict[str, Any]:
    return {f"{prefix} {number:04}": number for number in range(count)}


def test_names_are_suggested_in_order(acme: Product, globex: Product) -> None:
    tell(acme, identify("ann", role="admin", plan="pro"), group("initech", size=3))
    tell(acme, track("ann", "opened"), track("ann", "closed"))
    tell(globex, identify("ann", secret="theirs"))
    suggestions = load_suggestions(acme.pk)
    assert suggestions.user_traits == ["plan", "role"]
    assert suggestions.account_traits == ["size"]
    assert suggestions.events == ["closed", "opened"]


def test_the_number_of_names_is_bounded(acme: Product) -> None:
    for number in range(3):
        tell(acme, group(f"a{number}", **many(f"trait of {number}", 250)))
    assert len(load_suggestions(acme.pk).account_traits) == MAX_SUGGESTIONS


def test_so_is_the_number_of_traits_that_are_looked_at(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TRAITS_SAMPLED", 30)
    for number in range(10):
        tell(acme, group(f"a{number}", **many(f"trait of {number}", 20)))
    assert len(load_suggestions(acme.pk).account_traits) == 30


def test_who_has_megabytes_of_traits_is_passed_over(acme: Product) -> None:
    tell(acme, group("huge"), group("initech", plan="pro"))
    # Incompressible.
    text = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(600_000))
    Account.objects.filter(external_id="huge").update(traits={"text": text})
    assert load_suggestions(acme.pk).account_traits == ["plan"]
