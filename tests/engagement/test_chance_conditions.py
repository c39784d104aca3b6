"""Conditions on chances, and orders by them. Today is 24 September 2026."""

import random
from typing import Any

import pytest

from engagement.models import AccountChance, Product, ScoreSet, Segment, Workspace
from engagement.orders.columns import sorted_rows
from engagement.rules import rules, texts
from engagement.scopes import ACCOUNTS
from engagement.segments import chances, members
from tests.cases import each
from tests.chances import add_chance
from tests.engagement import rows
from tests.engagement.plain_segments import CHANCE_KINDS, Subject, lowest_percent
from tests.engagement.rows import account

pytestmark = pytest.mark.django_db

HALVES = [number / 200 for number in range(201)]


def chance(name: str, operator: str, percent: Any) -> dict[str, Any]:
    return {"kind": "chance", "chance": name, "operator": operator, "percent": percent}


@pytest.fixture
def customers(scores: ScoreSet, acme: Product, globex: Product) -> dict[str, Subject]:
    """Accounts with up to four chances each, and one with those of other workspaces only."""
    numbers = random.Random(7)
    kinds = sorted(set[str]().union(*CHANCE_KINDS.values()))
    subjects = {}
    for place in range(14):
        name = f"account {place:02}"
        account(scores, name)
        drawn = [
            (numbers.choice(kinds), numbers.choice(HALVES), numbers.random() < 0.2)
            for _ in range(numbers.randrange(5))
        ]
        for number, (kind, value, is_share) in enumerate(drawn):
            add_chance(acme, name, kind, value, is_share=is_share, license=f"E-{number}")
        subjects[name] = Subject(name, rows.ago(20), chances=drawn)
    account(scores, "elsewhere")
    other = Workspace.objects.create(product=acme, name="Other")
    add_chance(acme, "elsewhere", "evaluation", 0.3, workspace_id=other.pk)
    add_chance(acme, "elsewhere", "renewal", 0.3, product_id=globex.pk)
    return {**subjects, "elsewhere": Subject("elsewhere", rows.ago(20))}


def test_members_are_those_whose_lowest_chance_compares(
    scores: ScoreSet, customers: dict[str, Subject]
) -> None:
    numbers = random.Random(8)
    sizes = set()
    for _ in range(8):
        name, percent = numbers.choice(sorted(CHANCE_KINDS)), numbers.randrange(1, 101)
        percents = {each: lowest_percent(subject, name) for each, subject in customers.items()}
        by_name = {
            each: percent_of for each, percent_of in percents.items() if percent_of is not None
        }
        below = {each for each, percent_of in by_name.items() if percent_of < percent}
        expected = {"below": below, "at_least": set(by_name) - below}
        for operator, names in expected.items():
            condition = chance(name, operator, percent)
            assert rows.members(scores, "account", condition) == names
            segment = Segment(pk=1, scope="account", conditions=[condition])
            own = members.engagement_rows(scores, "account").select_related("account")
            for row in own:
                is_member = row.account.external_id in names
                containing = members.segments_containing(scores, [segment], row)
                assert containing == [segment] * is_member
            # What a list adds excludes none of them.
            parsed = rules.parse_rule({"conditions": [condition]}, "account").conditions[0]
            assert isinstance(parsed, rules.ChanceCondition)
            candidates = own.filter(chances.candidates_filter(parsed, scores))
            assert {row.account.external_id for row in candidates} >= names
            sizes.add(len(names))
    assert len(sizes) > 3


def test_accounts_are_sorted_by_their_lowest_chance(
    scores: ScoreSet, customers: dict[str, Subject]
) -> None:
    for name in CHANCE_KINDS:
        lowest = {
            each: min(
                (
                    value
                    for kind, value, is_share in subject.chances
                    if kind in CHANCE_KINDS[name] and not is_share
                ),
                default=None,
            )
            for each, subject in customers.items()
        }
        with_one = [each for each in lowest if lowest[each] is not None]
        for descending in (False, True):
            own = sorted_rows(scores, ACCOUNTS, f"chance_to_{name}", descending=descending)
            pairs = list(own.values_list("account__external_id", "sort_key"))
            assert dict(pairs) == lowest
            assert {each for each, _ in pairs[: len(with_one)]} == set(with_one), "others are last"
            values = [value for _, value in pairs[: len(with_one)]]
            assert values == sorted(values, reverse=descending)


def test_what_is_shown_is_what_compares(scores: ScoreSet, customers: dict[str, Subject]) -> None:
    own = members.engagement_rows(scores, "account").select_related("account")
    shares = 0
    for row in own.annotate(account_chances=chances.account_chances(scores)):
        subject = customers[row.account.external_id]
        for name in rules.CHANCES:
            chance_of = chances.shown_chance(row.account_chances, name)
            percent = lowest_percent(subject, name)
            if chance_of is None or chance_of.is_share:
                shares += chance_of is not None
                assert percent is None
                has_any = any(kind in CHANCE_KINDS[name] for kind, *_ in subject.chances)
                assert has_any is (chance_of is not None)
            else:
                assert chance_of.percent == percent
                assert chance_of.low <= chance_of.percent <= chance_of.high
    assert shares


@each(
    ("value", "percent"),
    [
        (0, 0),
        (0.0049, 0),
        (0.005, 1),
        (0.3449, 34),
        (0.345, 35),
        (0.994, 99),
        (0.995, 100),
        (1, 100),
    ],
)
def test_chances_are_rounded(value: float, percent: int) -> None:
    assert chances.to_percent(value) == percent


def test_the_chances_that_a_workspace_has(scores: ScoreSet, acme: Product) -> None:
    account(scores, "hooli")
    assert chances.names_of(scores) == []
    add_chance(acme, "hooli", "dormancy", 0.5, is_share=True)
    assert chances.names_of(scores) == ["stay"]
    add_chance(acme, "hooli", "evaluation", 0.5)
    assert chances.names_of(scores) == ["buy", "stay"]
    AccountChance.objects.all().delete()
    assert chances.names_of(scores) == []


@each(
    ("condition", "scope", "message"),
    [
        (chance("buy", "below", 0), "account", "Enter a whole percentage from 1 to 100"),
        (chance("buy", "below", 101), "account", "Enter a whole percentage from 1 to 100"),
        (chance("buy", "below", 12.5), "account", "not a valid condition"),
        (chance("buy", "at_most", 12), "account", "not a valid condition"),
        (chance("leave", "below", 12), "account", "not a valid condition"),
        (chance("buy", "below", 12), "user", "applies to accounts only"),
    ],
)
def test_what_is_refused(condition: dict[str, Any], scope: Any, message: str) -> None:
    with pytest.raises(rules.InvalidRule, match=message):
        rules.parse_rule({"conditions": [condition]}, scope)


@each(
    ("condition", "text"),
    [
        (chance("buy", "below", 30), "Chance to buy is below 30%"),
        (chance("renew", "at_least", 70), "Chance to renew is at least 70%"),
        (chance("stay", "below", 50), "Chance to stay is below 50%"),
    ],
)
def test_conditions_in_words(condition: dict[str, Any], text: str) -> None:
    rule = rules.parse_rule({"conditions": [condition]}, "account")
    assert texts.describe_rule(rule) == text
    assert not rule.uses_time
    assert rules.rule_to_json(rule)["conditions"] == [condition]
