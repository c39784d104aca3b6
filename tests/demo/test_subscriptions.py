"""Subscriptions of the demo are paused by their planted chance."""

from datetime import UTC, date, datetime, timedelta
from statistics import mean

import pytest

from engagement.models import Account, Product, TraitChange
from harness.demo import loading, population, products, vocabulary
from harness.demo.population import Size
from harness.demo.subscriptions import (
    PAUSED,
    RUNNING,
    TRAIT,
    Subscriptions,
    SubscriptionTruth,
    quarters,
)
from outcomes.kinds import Kind
from outcomes.reading import available_kinds, read_outcomes

NOW = datetime(2026, 11, 23, 15, 30, tzinfo=UTC)
SIZE = Size(60, 240, days=300)
WEIGHTS = {feature.event: feature.weight for feature in vocabulary.INVOICES.features}
SINCE = NOW.date() - timedelta(days=SIZE.days - 1)


def planted(truth: SubscriptionTruth) -> Subscriptions:
    subscriptions = Subscriptions(truth, WEIGHTS, SINCE, NOW.date(), 1)
    assert list(subscriptions.plant(customers()))
    return subscriptions


def customers() -> list[population.Customer]:
    return list(population.generate(vocabulary.INVOICES, SIZE, NOW, 1))


def test_quarters_end_before_today() -> None:
    assert list(quarters(date(2026, 2, 3), date(2026, 11, 23))) == [
        (date(2026, 2, 3), date(2026, 3, 31)),
        (date(2026, 4, 1), date(2026, 6, 30)),
        (date(2026, 7, 1), date(2026, 9, 30)),
    ]
    assert list(quarters(date(2026, 10, 1), date(2026, 12, 31))) == []


def test_a_chance_without_a_slope_is_the_same_for_all() -> None:
    truth = SubscriptionTruth(0.15)
    assert [round(truth.chance_at(points), 9) for points in (0, 3, 200)] == [0.15] * 3
    steep = SubscriptionTruth(0.3, slope=2.0, points=12.0)
    assert steep.chance_at(0) > 0.99 and steep.chance_at(200) < 0.01
    assert steep.chance_at(11.9) == pytest.approx(0.3)


def test_with_a_slope_those_pause_who_do_little() -> None:
    subscriptions = planted(SubscriptionTruth(0.3, slope=2.0, points=12.0))
    activity: dict[bool, list[int]] = {True: [], False: []}
    for customer in customers():
        points = sum(use.event_count for person in customer.people for use in person.event_uses)
        activity[len(subscriptions.pauses[customer.external_id]) > 1].append(points)
    assert mean(activity[True]) * 2 < mean(activity[False])


def test_the_trait_changes_nothing_else_of_a_population() -> None:
    subscriptions = Subscriptions(
        SubscriptionTruth(0.2, customers=6), WEIGHTS, SINCE, NOW.date(), 1
    )
    with_trait = list(subscriptions.plant(customers()))
    assert [customer.traits.pop(TRAIT, None) for customer in with_trait][:7] == [RUNNING] * 6 + [
        None
    ]
    assert with_trait == customers()
    assert len(subscriptions.pauses) == 6


def test_pauses_are_outcomes_of_each_workspace(acme: Product) -> None:
    truth = SubscriptionTruth(0.4)
    list(loading.populate(acme, vocabulary.INVOICES, SIZE, NOW, truth=truth))
    loading.score_products([acme], lambda: NOW, lambda text: False)
    workspace = acme.workspaces.select_related("product", "scores").get()
    assert Kind.TRAIT in available_kinds(workspace)
    outcomes = read_outcomes(workspace, Kind.TRAIT, NOW.date())
    pauses = planted(truth).pauses
    names = dict(Account.objects.filter(product=acme).values_list("pk", "external_id"))
    bad = {(names[each.account_id], each.day) for each in outcomes.outcomes if not each.is_good}
    assert bad and bad <= {(name, day) for name in pauses for day, _ in pauses[name]}
    quarter_ends = {last for _, last in quarters(SINCE + timedelta(days=1), NOW.date())}
    assert {each.day for each in outcomes.outcomes if each.is_good} <= quarter_ends
    changes = TraitChange.objects.filter(product=acme).values_list("value", flat=True)
    assert changes.filter(value=PAUSED).count() == changes.filter(value=RUNNING).count() > 10


def test_each_product_of_the_demo_has_its_truth() -> None:
    assert set(products.SUBSCRIPTIONS) == {products.PRODUCT_NAME, *products.OTHER_PRODUCTS}
