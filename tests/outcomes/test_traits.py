"""Outcomes of a trait against a plain model over random changes of random accounts."""

from datetime import date, timedelta
from random import Random
from typing import Any

import pytest

from engagement.models import (
    Account,
    AccountEngagement,
    Product,
    ScoreSet,
    Workspace,
)
from outcomes.kinds import Exclusion, Kind, OutcomeSet
from outcomes.reading import available_kinds, read_outcomes
from outcomes.settings import OutcomeSettings, to_json
from outcomes.sources import units
from tests.engagement.history import NOON, group, identify, tell, track

pytestmark = pytest.mark.django_db

TODAY = NOON.date()
DAY = timedelta(days=1)
SINCE = date(2025, 11, 14)
# Each with the last day, of those that are over.
QUARTERS = [
    (SINCE + DAY, date(2025, 12, 31)),
    (date(2026, 1, 1), date(2026, 3, 31)),
    (date(2026, 4, 1), date(2026, 6, 30)),
]
VALUES = ["active", "Active", "paused", "churned", "CHURNED", None, 3, 12.5, -1]


def is_bad(value: Any) -> bool:
    if isinstance(value, int | float):
        return value < 5
    return str(value).lower() == "churned"


@pytest.fixture
def workspace(acme: Product) -> Workspace:
    Product.objects.filter(pk=acme.pk).update(history_traits={"status": SINCE.isoformat()})
    settings = OutcomeSettings(trait="status", values=("Churned",), below=5)
    Workspace.objects.filter(product=acme).update(outcomes=to_json(settings))
    return Workspace.objects.get(product=acme)


def score(workspace: Workspace) -> None:
    """Have the workspace score all accounts that there are."""
    score_set = ScoreSet.objects.create(
        product=workspace.product, workspace=workspace, state="current", lookback_days=7,
        default_weight=1,
    )  # fmt: skip
    Workspace.objects.filter(pk=workspace.pk).update(scores=score_set)
    AccountEngagement.objects.bulk_create(
        AccountEngagement(
            product=workspace.product, score_set=score_set, account=account, raw=0, event_count=0,
            active_days=0, active_users=0,
        )
        for account in Account.objects.filter(product=workspace.product)
    )  # fmt: skip


def hours(day: date) -> float:
    return (day - TODAY).days * 24


def read(workspace: Workspace, **options: Any) -> OutcomeSet:
    fresh = Workspace.objects.get(pk=workspace.pk)
    return read_outcomes(fresh, Kind.TRAIT, options.pop("today", TODAY), **options)


def be_active(workspace: Workspace, account: str, day: date) -> None:
    user, at = f"user of {account}", hours(day)
    tell(workspace.product, identify(user, at), track(user, "opened", at, account))


def set_status(workspace: Workspace, account: str, day: date, value: Any) -> None:
    tell(workspace.product, group(account, hours(day), status=value))


def expected(changes: dict[str, dict[date, Any]]) -> set[tuple[str, date, date, bool]]:
    """Account, day, beginning, and whether it is good, by going from day to day."""
    outcomes = set()
    for account, own in changes.items():
        for first, last in QUARTERS:
            before = [value for day, value in sorted(own.items()) if day < first]
            value = before[-1] if before else None
            if value is None or is_bad(value):
                continue
            bad = [day for day in sorted(own) if first <= day <= last and is_bad(own[day])]
            outcomes.add((account, bad[0] if bad else last, first, not bad))
    return outcomes


def test_outcomes_are_those_of_a_model_that_goes_from_day_to_day(workspace: Workspace) -> None:
    random = Random(3)
    changes: dict[str, dict[date, Any]] = {}
    for number in range(60):
        account = f"account {number}"
        days = sorted(random.sample(range((TODAY - SINCE).days), random.randrange(4)))
        changes[account] = {}
        if random.random() < 0.8:
            # Before anybody chose the trait: nothing is noted of it.
            changes[account][SINCE - 9 * DAY] = random.choice(["active", "paused", 40])
        changes[account] |= {SINCE + (1 + n) * DAY: random.choice(VALUES) for n in days}
        be_active(workspace, account, SINCE - 20 * DAY)
    history = workspace.product.history_traits
    for since in (dict[str, str](), history):
        Product.objects.filter(pk=workspace.product_id).update(history_traits=since)
        for account, own in changes.items():
            for day in sorted(own):
                if (day > SINCE) == bool(since):
                    set_status(workspace, account, day, own[day])
    score(workspace)
    outcomes = read(workspace)
    names = dict(Account.objects.values_list("pk", "external_id"))
    assert {
        (names[each.account_id], each.day, each.began_on, each.is_good)
        for each in outcomes.outcomes
    } == expected(changes)
    assert {each.result for each in outcomes.outcomes} == {"kept", "became_bad"}
    assert {each.known_on for each in outcomes.outcomes} == {last + DAY for _, last in QUARTERS}
    assert (outcomes.excluded, outcomes.sampled_of, outcomes.revision) == ({}, None, None)


def test_accounts_without_data_before_the_day_are_counted(workspace: Workspace) -> None:
    for account, last in (("early", 0), ("late", 1), ("silent", None)):
        if last is not None:
            day = date(2025, 12, 30) + last * DAY
            be_active(workspace, account, day)
        set_status(workspace, account, SINCE, "active")
    score(workspace)
    outcomes = read(workspace, today=date(2026, 1, 1))
    assert len(outcomes.outcomes) == 1
    assert outcomes.excluded == {Exclusion.NO_DATA: 2}


def test_the_running_quarter_counts_when_it_is_over(workspace: Workspace) -> None:
    be_active(workspace, "a", SINCE)
    set_status(workspace, "a", SINCE, "active")
    set_status(workspace, "a", date(2026, 7, 5), "churned")
    score(workspace)
    assert [each.is_good for each in read(workspace).outcomes] == [True, True, True]
    later = read(workspace, today=date(2026, 10, 1)).outcomes
    assert [(each.is_good, each.day) for each in later][3:] == [(False, date(2026, 7, 5))]


def test_of_many_units_an_even_sample_is_taken(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "MAX_CANDIDATES", 400)
    for number in range(300):
        account = f"account {number}"
        be_active(workspace, account, SINCE - DAY)
        set_status(workspace, account, SINCE, "active")
    score(workspace)
    sample = read(workspace, limit=50)
    assert len(sample.outcomes) == 50 and sample == read(workspace, limit=50)
    assert sample.sampled_of == pytest.approx(900, rel=0.3)
    assert len({each.day for each in sample.outcomes}) == 3


def test_the_trait_is_a_kind_while_it_has_a_history(workspace: Workspace) -> None:
    assert available_kinds(workspace) == [Kind.TRAIT, Kind.DORMANCY]
    product = workspace.product
    for since in ({"plan": "2026-01-01"}, {}):
        product.history_traits = since
        assert available_kinds(workspace) == [Kind.DORMANCY]
        Product.objects.filter(pk=product.pk).update(history_traits=since)
        assert read(workspace).outcomes == []
    workspace.outcomes = to_json(OutcomeSettings(off=frozenset({Kind.DORMANCY})))
    assert available_kinds(workspace) == []
