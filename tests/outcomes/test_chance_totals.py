"""The interval of how many end well covers what happens."""

import random

import pytest

from engagement.models import Account, AccountChance, Product, Workspace
from outcomes.chances.totals import totals_of
from outcomes.kinds import Kind
from tests.engagement.history import NOON
from tests.outcomes.worlds import TODAY

pytestmark = pytest.mark.django_db


def store(workspace: Workspace, chances: list[float]) -> None:
    accounts = Account.objects.bulk_create(
        Account(
            product=workspace.product,
            external_id=f"a {number}",
            first_seen_at=NOON,
            last_seen_at=NOON,
        )
        for number in range(len(chances))
    )
    AccountChance.objects.filter(workspace=workspace).delete()
    AccountChance.objects.bulk_create(
        AccountChance(
            product=workspace.product,
            workspace=workspace,
            account=account,
            kind=Kind.DORMANCY,
            began_on=TODAY,
            day=TODAY,
            chance=chance,
            low=chance,
            high=chance,
            outcomes=100,
            is_share=False,
            looked_on=TODAY,
        )
        for account, chance in zip(accounts, chances, strict=True)
    )


def distribution(chances: list[float]) -> list[float]:
    """The exact probabilities of 0, 1, … that end well."""
    total = [1.0]
    for chance in chances:
        longer = [*total, 0.0]
        total = [
            longer[number] * (1 - chance) + (longer[number - 1] * chance if number else 0.0)
            for number in range(len(longer))
        ]
    return total


@pytest.mark.parametrize("number", [1, 3, 12, 60])
def test_the_interval_covers_as_it_says(acme: Product, number: int) -> None:
    workspace = acme.workspaces.get()
    draw = random.Random(number)
    for spread in (0.5, 2.0, 8.0):
        Account.objects.filter(product=acme).delete()
        chances = [draw.betavariate(spread, 2.0) for _ in range(number)]
        store(workspace, chances)
        own = totals_of(workspace, Kind.DORMANCY, TODAY)
        assert own.running == own.learned == number
        assert own.expected == pytest.approx(sum(chances))
        # As the page shows it: whole numbers.
        covered = distribution(chances)[round(own.low) : round(own.high) + 1]
        assert sum(covered) > 0.94
        assert own.high - own.low < number or number < 12


def test_nothing_adds_up_to_nothing(acme: Product) -> None:
    own = totals_of(acme.workspaces.get(), Kind.EVALUATION, TODAY)
    assert (own.running, own.expected, own.low, own.high) == (0, 0, 0, 0)
