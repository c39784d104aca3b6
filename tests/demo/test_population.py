"""Synthetic populations are believable, of the requested size, and reproducible."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice
from statistics import median

import pytest

from engagement.metric_names import Scope
from engagement.rules.rules import parse_rule
from engagement.tenure import parse_created_at
from harness.demo import vocabulary
from harness.demo.calendar import holiday_activity
from harness.demo.population import Customer, Size, generate
from harness.demo.vocabulary import BOARDS, Company, company

# A Thursday, at half past two.
NOW = datetime(2026, 9, 24, 14, 30, tzinfo=UTC)
SIZE = Size(accounts=60, users=900, days=60, event_days=5)


@pytest.fixture(scope="module")
def customers() -> list[Customer]:
    return list(generate(BOARDS, SIZE, NOW, seed=1))


def test_the_same_seed_makes_the_same_population(customers: list[Customer]) -> None:
    assert list(generate(BOARDS, SIZE, NOW, seed=1)) == customers
    assert list(generate(BOARDS, SIZE, NOW, seed=2)) != customers


@pytest.mark.parametrize(
    ("accounts", "users"), [(1, 0), (1, 1), (5, 3), (7, 7), (10, 1000), (300, 301)]
)
def test_it_has_the_requested_size(accounts: int, users: int) -> None:
    customers = list(generate(BOARDS, Size(accounts, users, days=2), NOW, seed=1))
    teams = [len(customer.people) for customer in customers]
    assert (len(customers), sum(teams)) == (accounts, users)
    assert users < accounts or min(teams) >= 1


def test_names_addresses_and_ids_are_unique(customers: list[Customer]) -> None:
    people = [person for customer in customers for person in customer.people]
    for values in (
        [customer.external_id for customer in customers],
        [customer.traits["domain"] for customer in customers],
        [person.external_id for person in people],
        [person.traits["email"] for person in people],
    ):
        assert len(set(values)) == len(values)
    assert all(person.traits["email"].isascii() for person in people)
    assert all(
        person.traits["email"].endswith("@" + customer.traits["domain"])
        for customer in customers
        for person in customer.people
    )


def test_companies_stay_distinct_beyond_all_pairs_of_words() -> None:
    names = [company(number) for number in range(40_000)]
    assert (
        len({company.name for company in names})
        == len({company.domain for company in names})
        == 40_000
    )


def test_the_caller_can_name_companies() -> None:
    def named(number: int) -> Company:
        return Company(f"cloud-{number}", f"Site {number}", f"site-{number}.example", "Chile", -4)

    (customer,) = islice(generate(BOARDS, SIZE, NOW, 1, named), 1)
    assert (customer.external_id, customer.traits["name"]) == ("cloud-0", "Site 0")
    assert customer.traits["country"] == "Chile"


def test_no_events_in_the_future_or_before_a_user_is_seen(
    customers: list[Customer],
) -> None:
    for customer in customers:
        assert customer.seen_at < NOW
        for person in customer.people:
            assert customer.seen_at.date() <= person.seen_at.date() and person.seen_at < NOW
            created = parse_created_at(person.traits)
            assert created is not None and created <= person.seen_at
            for use in person.event_uses:
                assert person.seen_at <= use.last_at <= NOW


def test_single_events_are_made_of_recent_days_only_and_are_as_many_as_are_counted(
    customers: list[Customer],
) -> None:
    first = NOW.date() - timedelta(days=SIZE.event_days - 1)
    recent = 0
    for person in (person for customer in customers for person in customer.people):
        for use in person.event_uses:
            if use.last_at.date() < first:
                assert not use.times
                continue
            recent += len(use.times)
            assert len(use.times) == use.event_count and max(use.times) == use.last_at
            assert {at.date() for at in use.times} == {use.last_at.date()}
    assert recent > 500


def test_weeks_have_their_rhythm(customers: list[Customer]) -> None:
    days = Counter(
        use.last_at.weekday()
        for customer in customers
        for person in customer.people
        for use in person.event_uses
    )
    assert min(days[day] for day in range(5)) > 3 * max(days[5], days[6])


def test_a_few_customers_are_large_and_a_few_people_do_most(customers: list[Customer]) -> None:
    teams = sorted(len(customer.people) for customer in customers)
    assert teams[-1] > 4 * median(teams)
    work = sorted(
        sum(use.event_count for use in person.event_uses)
        for customer in customers
        for person in customer.people
    )
    busiest = work[-len(work) // 5 :]
    assert sum(busiest) > 0.5 * sum(work)


def user_days(customer: Customer, first: int, last: int) -> int:
    """The active user-days from one day of the history up to another."""
    begin = NOW.date() - timedelta(days=HISTORY.days - 1)
    return sum(
        len(
            {(use.last_at.date() - begin).days for use in person.event_uses} & {*range(first, last)}
        )
        for person in customer.people
    )


HISTORY = Size(accounts=250, users=2_500, days=200)


@pytest.fixture(scope="module")
def planted() -> dict[str, list[Customer]]:
    """The customers of a long history by their truth."""
    by_truth: dict[str, list[Customer]] = {}
    for customer in generate(BOARDS, HISTORY, NOW, seed=3):
        by_truth.setdefault(customer.truth.change, []).append(customer)
    return by_truth


def test_most_customers_never_change_and_each_change_happens_to_some(
    planted: dict[str, list[Customer]],
) -> None:
    numbers = {change: len(customers) for change, customers in planted.items()}
    changes = {"halved", "stopped", "doubled", "users left", "feature dropped", "joined"}
    assert numbers.keys() == {"unchanged", *changes}
    assert numbers["unchanged"] > 0.6 * HISTORY.accounts
    assert min(numbers.values()) >= 3


@pytest.mark.parametrize(
    ("change", "least", "most"),
    [("halved", 0.35, 0.7), ("stopped", 0, 0), ("doubled", 1.4, 2.6), ("users left", 0.3, 0.9)],
)
def test_a_change_is_in_the_activity_from_its_day_on(
    planted: dict[str, list[Customer]], change: str, least: float, most: float
) -> None:
    before = after = 0.0
    for customer in planted[change]:
        day = customer.truth.day
        assert day is not None
        days = HISTORY.days - 1 - day
        after += user_days(customer, day, HISTORY.days - 1)
        before += user_days(customer, max(0, day - days), day) * days / min(day, days)
    assert least <= after / before <= most


def test_an_unchanged_customer_is_as_active_as_before(planted: dict[str, list[Customer]]) -> None:
    customers = planted["unchanged"]
    early = sum(user_days(customer, 40, 110) for customer in customers)
    late = sum(user_days(customer, 110, 180) for customer in customers)
    assert 0.8 < late / early < 1.2


def test_a_dropped_feature_is_no_longer_used(planted: dict[str, list[Customer]]) -> None:
    begin = NOW.date() - timedelta(days=HISTORY.days - 1)
    for customer in planted["feature dropped"]:
        truth = customer.truth
        assert truth.day is not None
        days = {
            (use.last_at.date() - begin).days
            for person in customer.people
            for use in person.event_uses
            if use.event == truth.event
        }
        assert not days or max(days) < truth.day


def test_the_truth_is_among_the_traits(planted: dict[str, list[Customer]]) -> None:
    begin = NOW.date() - timedelta(days=HISTORY.days - 1)
    for change, customers in planted.items():
        for customer in customers:
            assert customer.traits["demo.truth"] == change
            day = customer.truth.day
            changed_on = None if day is None else (begin + timedelta(days=day)).isoformat()
            assert customer.traits.get("demo.changedOn") == changed_on


def test_holidays_are_those_of_the_country() -> None:
    assert holiday_activity("Germany", 12, 25) < 0.5 < holiday_activity("Japan", 12, 25)
    assert holiday_activity("Japan", 5, 1) < 0.5 < holiday_activity("Germany", 5, 1)
    assert holiday_activity("Sweden", 8, 10) < holiday_activity("Sweden", 6, 10) == 1


@pytest.mark.parametrize("catalog", [BOARDS, vocabulary.INVOICES, vocabulary.NOTES])
def test_catalogs_start_with_an_event_that_everybody_does_and_weigh_1_to_10(
    catalog: vocabulary.Catalog,
) -> None:
    assert catalog.features[0].share == 1.0
    assert all(1 <= feature.weight <= 10 for feature in catalog.features)
    names = [feature.event for feature in catalog.features]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("scope", "name", "conditions"), vocabulary.SEGMENTS)
def test_the_demos_segments_are_rules(
    scope: Scope, name: str, conditions: list[dict[str, object]]
) -> None:
    assert len(parse_rule({"match": "all", "conditions": conditions}, scope).conditions) == 2
