"""Conditions on what happened to an account's licenses. Today is 24 September 2026."""

from datetime import timedelta
from typing import Any

import pytest

from engagement.models import Product, ScoreSet, Segment
from engagement.rules import rules, texts
from engagement.segments import members as segments
from tests.cases import each
from tests.engagement.rows import TODAY, account, members
from tests.license_events import RECORDED_AT, add_event

pytestmark = pytest.mark.django_db


def event(type: str, within_days: int | None = None, operator: str = "happened") -> dict[str, Any]:
    return {
        "kind": "license_event", "event": type, "operator": operator, "within_days": within_days,
    }  # fmt: skip


def ago(days: int) -> str:
    return str(TODAY - timedelta(days=days))


@pytest.fixture
def customers(scores: ScoreSet, acme: Product, globex: Product) -> ScoreSet:
    """Accounts named for what happened to their licenses."""
    lives: dict[str, list[tuple[str, int, dict[str, Any]]]] = {
        "bought today": [("evaluation_bought", 0, {})],
        "bought, lost": [("evaluation_bought", 29, {}), ("churned", 1, {"license": "E-2"})],
        "bought long ago": [("evaluation_bought", 30, {})],
        "not lost after all": [("churned", 5, {"withdrawn_at": RECORDED_AT}), ("renewed", 5, {})],
        "renews tomorrow": [("renewed", -1, {})],
        "trial ended": [("evaluation_expired", 10, {})],
        "nothing": [],
    }
    for name, events in lives.items():
        account(scores, name)
        for type, days, fields in events:
            add_event(acme, type, ago(days), cloud_id=name, **fields)
    add_event(globex, "churned", ago(1), cloud_id="nothing")
    return scores


EVERYBODY = {
    *("bought today", "bought, lost", "bought long ago", "not lost after all", "renews tomorrow"),
    *("trial ended", "nothing"),
}


@each(
    ("conditions", "expected"),
    [
        ([event("evaluation_bought", 1)], {"bought today"}),
        ([event("evaluation_bought", 29)], {"bought today"}),
        ([event("evaluation_bought", 30)], {"bought today", "bought, lost"}),
        ([event("evaluation_bought")], {"bought today", "bought, lost", "bought long ago"}),
        ([event("churned", 90)], {"bought, lost"}),
        ([event("renewed", 90)], {"not lost after all"}),
        ([event("renewed")], {"not lost after all"}),
        ([event("seats_up")], set()),
        ([event("churned", 90, "not_happened")], EVERYBODY - {"bought, lost"}),
        ([event("churned", 1, "not_happened")], EVERYBODY),
        (
            [event("evaluation_expired", 90), event("evaluation_bought", None, "not_happened")],
            {"trial ended"},
        ),
    ],
)
def test_members(customers: ScoreSet, conditions: list[dict[str, Any]], expected: set[str]) -> None:
    assert members(customers, "account", *conditions) == expected
    segment = Segment(pk=1, scope="account", conditions=conditions)
    for row in segments.engagement_rows(customers, "account").select_related("account"):
        is_member = row.account.external_id in expected
        assert segments.segments_containing(customers, [segment], row) == [segment] * is_member


def test_a_new_day_alone_moves_accounts(customers: ScoreSet) -> None:
    rule = rules.parse_rule({"conditions": [event("evaluation_bought", 30)]}, "account")
    assert rule.uses_time
    assert rules.parse_rule({"conditions": [event("renewed")]}, "account").uses_time
    customers.scored_day = TODAY + timedelta(days=1)
    assert members(customers, "account", event("evaluation_bought", 30)) == {"bought today"}
    assert members(customers, "account", event("renewed", 1)) == {"renews tomorrow"}


def test_an_event_that_is_withdrawn_and_restored(customers: ScoreSet, acme: Product) -> None:
    lost = add_event(acme, "churned", ago(3), cloud_id="nothing", license="E-3")
    assert members(customers, "account", event("churned", 90)) == {"bought, lost", "nothing"}
    type(lost).objects.filter(license="E-3").update(withdrawn_at=RECORDED_AT)
    assert members(customers, "account", event("churned", 90)) == {"bought, lost"}


@each(
    ("condition", "scope", "message"),
    [
        (event("bought"), "account", "Choose what happened to the license"),
        (event("churned", 0), "account", "from 1 to 3,650"),
        (event("churned"), "user", "applies to accounts only"),
        ({**event("churned"), "operator": "done"}, "account", "not a valid condition"),
    ],
)
def test_what_is_refused(condition: dict[str, Any], scope: Any, message: str) -> None:
    with pytest.raises(rules.InvalidRule, match=message):
        rules.parse_rule({"conditions": [condition]}, scope)


@each(
    ("condition", "text"),
    [
        (event("churned", 90), "License event “Churned” happened within 90 days"),
        (event("won_back", 1), "License event “Won back” happened within 1 day"),
        (
            event("evaluation_bought", None, "not_happened"),
            "License event “Evaluation bought” did not happen ever",
        ),
    ],
)
def test_in_words(condition: dict[str, Any], text: str) -> None:
    stored = {"match": "all", "conditions": [condition]}
    rule = rules.parse_rule(stored, "account")
    assert texts.describe_rule(rule) == text
    assert rules.rule_to_json(rule) == stored
