"""The members that each condition without scores selects, and the rules that are rejected.

Members are listed by name. Today is 24 September 2026.
"""

from typing import Any

import pytest

from engagement.messages import Identify
from engagement.models import Product, User
from engagement.rules import filters, rules
from engagement.rules.rules import InvalidRule
from tests.cases import each
from tests.engagement.history import NOON, group, identify, tell, track

TODAY = NOON.date()

# Conditions with the members that they select.
Cases = list[tuple[dict[str, Any], set[str]]]


def trait(operator: str, value: Any = None, name: str = "x", kind: str = "trait") -> dict[str, Any]:
    return {"kind": kind, "trait": name, "operator": operator, "value": value}


def event(operator: str, name: str = "opened", **more: Any) -> dict[str, Any]:
    return {"kind": "event", "event": name, "operator": operator, **more}


def when(kind: str, operator: str, days: Any) -> dict[str, Any]:
    return {"kind": kind, "operator": operator, "days": days}


def members_of(product: Product, *conditions: dict[str, Any], match: str = "all") -> set[str]:
    """The members of an audience with these conditions."""
    stored = {"match": match, "conditions": list(conditions)}
    rule = rules.parse_rule(stored, "user", for_audience=True)
    matches = filters.audience_filter(rule, product.pk, TODAY)
    users = User.objects.filter(product=product)
    members = set(users.filter(matches).values_list("external_id", flat=True))
    others = set(users.exclude(matches).values_list("external_id", flat=True))
    assert members.isdisjoint(others)
    assert members | others == set(users.values_list("external_id", flat=True))
    return members


# --- Traits ---------------------------------------------------------------------------------

# Each user is named for the trait x that they have; "without" has none.
VALUES: dict[str, Any] = {
    "pro": "pro",
    "Pro plan": "Pro plan",
    "5": 5,
    "5.0": 5.0,
    "text 5": "5",
    "text 05.50": "05.50",
    "-7": -7,
    "1e300": 1e300,
    "boolean": True,
    "text true": "true",
    "list": ["PRO", 5, True, None],
    "empty list": [],
    "object": {"pro": 5},
    "empty": "",
    "percent": "100%_sure",
    "day": "2025-01-31",
    "moment": "2025-01-31T23:59:59.999999999Z",
    "elsewhere": "2025-02-01 01:30:00+02:00",
    "no day": "2025-02-30",
    "words for days": "now",
}
NOT_NONE = set(VALUES)


TRAITS: Cases = [
    (trait("is", "pro"), {"pro"}),
    (trait("is", "5"), {"5", "5.0", "text 5"}),
    (trait("is", "5.00"), {"5", "5.0"}),
    (trait("is", "true"), {"boolean", "text true"}),
    (trait("is", "%"), set()),
    (trait("is", "'; --"), set()),
    (trait("is", "1e999"), set()),
    (trait("is_ignoring_case", "PRO"), {"pro"}),
    (trait("is_ignoring_case", "PRO PLAN"), {"Pro plan"}),
    (trait("is_ignoring_case", "True"), {"boolean", "text true"}),
    (trait("is_ignoring_case", "5.00"), {"5", "5.0"}),
    (trait("is_ignoring_case", "%"), set()),
    (trait("is_not_ignoring_case", "PRO"), NOT_NONE - {"pro"} | {"without"}),
    (trait("is_not", "5"), NOT_NONE - {"5", "5.0", "text 5"} | {"without"}),
    (trait("contains", "PRO"), {"pro", "Pro plan", "list"}),
    (
        trait("contains", "5"),
        {"text 5", "text 05.50", "list"} | {"day", "moment", "elsewhere", "no day"},
    ),
    (trait("contains", "%"), {"percent"}),
    (trait("contains", "_"), {"percent"}),
    (trait("contains", "0%_s"), {"percent"}),
    (trait("contains", "\\"), set()),
    (trait("is_set"), NOT_NONE),
    (trait("is_not_set"), {"without"}),
    (trait("at_least", 5), {"5", "5.0", "text 5", "text 05.50", "1e300"}),
    (trait("at_least", 5.25), {"text 05.50", "1e300"}),
    (trait("at_least", 1e15), {"1e300"}),
    (trait("at_most", 5), {"5", "5.0", "text 5", "-7"}),
    (trait("at_most", -7), {"-7"}),
    (trait("before", "2025-02-01"), {"day", "moment", "elsewhere"}),
    (trait("before", "2025-01-31"), set()),
    (trait("after", "2025-01-30"), {"day", "moment", "elsewhere"}),
    (trait("after", "2025-01-31"), set()),
    (trait("after", "9998-12-31"), set()),
    (trait("is", "pro", name="X"), set()),
    (trait("is_set", name="a'b\"c%s"), set()),
]


@pytest.mark.django_db
def test_traits(acme: Product) -> None:
    tell(acme, identify("without"), *(identify(name, x=value) for name, value in VALUES.items()))
    for condition, expected in TRAITS:
        assert members_of(acme, condition) == expected, condition


@pytest.mark.django_db
def test_a_trait_named_like_a_number_is_no_list_index(acme: Product) -> None:
    tell(acme, Identify("ann", NOON, {"0": "here"}), identify("bob"))
    assert members_of(acme, trait("contains", "here", name="0")) == {"ann"}
    assert members_of(acme, trait("is_set", name="0")) == {"ann"}


@pytest.mark.django_db
def test_marketplace_traits_ignore_case_in_their_name(acme: Product) -> None:
    tell(acme, Identify("ann", NOON, {"am.tier": "100 users"}))
    for name in ("am.tier", "AM.Tier"):
        assert members_of(acme, trait("is", "100 users", name=name)) == {"ann"}
        assert members_of(acme, trait("contains", "100", name=name)) == {"ann"}


ACCOUNT_TRAITS: Cases = [
    (trait("is", "pro"), {"ann"}),
    (trait("is_not", "pro"), {"bob", "cara"}),
    (trait("contains", "r"), {"ann"}),
    (trait("is_set"), {"ann"}),
    (trait("is_not_set"), {"bob", "cara"}),
    (trait("at_least", 1), set()),
]


@pytest.mark.django_db
def test_a_user_without_an_account_has_no_account_traits(acme: Product) -> None:
    tell(acme, identify("ann", group="initech", x="own"), identify("bob", group="hooli"))
    tell(acme, identify("cara", x="pro"), group("initech", x="pro"))
    for condition, expected in ACCOUNT_TRAITS:
        assert members_of(acme, {**condition, "kind": "account_trait"}) == expected, condition


# --- Events and times -----------------------------------------------------------------------


EVENTS: Cases = [
    (event("done"), {"twice today", "three days ago", "now and then"}),
    (event("done", times=2), {"twice today", "now and then"}),
    (event("done", times=3), {"now and then"}),
    (event("done", within_days=1), {"twice today", "now and then"}),
    (event("done", within_days=3), {"twice today", "now and then"}),
    (event("done", within_days=4), {"twice today", "three days ago", "now and then"}),
    (event("done", times=2, within_days=4), {"twice today"}),
    (event("done", times=2, within_days=11), {"twice today", "now and then"}),
    (event("not_done"), {"never", "other"}),
    (event("not_done", within_days=3), {"never", "other", "three days ago"}),
    (event("done", name="other"), {"other"}),
    (event("done", name="unheard of"), set()),
    (
        event("not_done", name="closed"),
        {"twice today", "three days ago", "now and then", "never", "other"},
    ),
]


@pytest.mark.django_db
def test_events(acme: Product, globex: Product) -> None:
    tell(globex, identify("never"), track("never"), track("never", "closed"))
    tell(acme, identify("never"), identify("other"), track("other", "other"))
    # Midnight is twelve hours ago; events in two accounts are the user's all the same.
    tell(acme, identify("twice today"), track("twice today", hours=-12), track("twice today"))
    tell(acme, identify("three days ago"), track("three days ago", hours=-60.1))
    tell(acme, identify("now and then"), track("now and then"))
    tell(acme, track("now and then", hours=-240, group="initech"))
    tell(acme, track("now and then", hours=-480, group="hooli"))
    for condition, expected in EVENTS:
        assert members_of(acme, condition) == expected, condition


TIMES: Cases = [
    (when("first_seen", "within_days", 1), {"today"}),
    (when("first_seen", "more_than_days_ago", 1), {"yesterday", "created long ago"}),
    (when("first_seen", "within_days", 2), {"today", "yesterday", "created long ago"}),
    (when("first_seen", "more_than_days_ago", 2), set()),
    (when("created", "within_days", 1), {"today"}),
    (when("created", "within_days", 2), {"today", "yesterday"}),
    (when("created", "more_than_days_ago", 2), {"created long ago"}),
    # The first of January is 266 days before the 24th of September.
    (when("created", "more_than_days_ago", 266), {"created long ago"}),
    (when("created", "more_than_days_ago", 267), set()),
    (when("created", "within_days", 267), {"today", "yesterday", "created long ago"}),
]


@pytest.mark.django_db
def test_times(acme: Product) -> None:
    tell(acme, identify("today", hours=-12), identify("yesterday", hours=-12.1))
    tell(acme, identify("created long ago", hours=-24, createdAt="2026-01-01T23:00:00Z"))
    for condition, expected in TIMES:
        assert members_of(acme, condition) == expected, condition


# --- All or any -----------------------------------------------------------------------------


@pytest.mark.django_db
def test_all_or_any_of_the_conditions(acme: Product) -> None:
    tell(acme, identify("both", a="1", b="1"), identify("a", a="1"), identify("neither"))
    conditions = trait("is", "1", name="a"), trait("is_set", name="b")
    assert members_of(acme, *conditions) == {"both"}
    assert members_of(acme, *conditions, match="any") == {"both", "a"}


@pytest.mark.django_db
@pytest.mark.parametrize("match", ["all", "any"])
def test_no_conditions_select_everybody(acme: Product, match: str) -> None:
    tell(acme, identify("ann"), identify("bob"))
    assert members_of(acme, match=match) == {"ann", "bob"}


# --- Properties of rules --------------------------------------------------------------------


@each(
    ("condition", "uses_time"),
    [
        ({"kind": "metric", "metric": "tenure_days", "operator": "at_least", "value": 9}, True),
        ({"kind": "metric", "metric": "raw_score", "operator": "at_least", "value": 9}, False),
        ({"kind": "insight", "insight": "new_account"}, True),
        ({"kind": "activity", "state": "falling"}, True),
        ({"kind": "active", "active": True}, False),
        ({"kind": "trend", "trend": "rising"}, False),
        (when("last_active", "within_days", 7), True),
    ],
)
def test_whether_a_new_day_alone_can_change_the_members(
    condition: dict[str, Any], uses_time: bool
) -> None:
    assert rules.parse_rule({"conditions": [condition]}, "account").uses_time is uses_time


@each(
    ("condition", "uses_time", "uses_account_traits"),
    [
        (trait("is", "pro"), False, False),
        (trait("before", "2025-01-31"), False, False),
        (trait("is", "pro", kind="account_trait"), False, True),
        (event("done"), False, False),
        (event("done", within_days=7), True, False),
        (event("not_done", within_days=7), True, False),
        (when("created", "within_days", 7), True, False),
        (when("first_seen", "more_than_days_ago", 7), True, False),
    ],
)
def test_what_a_rule_depends_on(
    condition: dict[str, Any], uses_time: bool, uses_account_traits: bool
) -> None:
    for conditions in ([condition], [trait("is_set"), condition]):
        rule = rules.parse_rule({"conditions": conditions}, "user", for_audience=True)
        assert (rule.uses_time, rule.uses_account_traits) == (uses_time, uses_account_traits)


@each(
    "condition",
    [
        trait("is", "pro"),
        trait("at_least", 5),
        trait("is_set"),
        event("done", times=3, within_days=30),
        when("created", "more_than_days_ago", 180),
        {"kind": "created", "operator": "within_days", "days": "window"},
        {"kind": "active", "active": True},
        {"kind": "trend", "trend": "rising"},
        {"kind": "insight", "insight": "renewal_at_risk", "has": False},
        {"kind": "activity", "state": "settled_lower"},
        {"kind": "license_event", "event": "churned", "operator": "happened", "within_days": 90},
        {"kind": "metric", "metric": "adoption", "operator": "at_most", "value": 0.5},
        {"kind": "metric", "metric": "raw_score", "operator": "between", "value": 1, "upper": 5},
    ],
)
def test_a_rule_is_stored_as_it_is_shown(condition: dict[str, Any]) -> None:
    rule = rules.parse_rule({"match": "any", "conditions": [condition]}, "account")
    stored = rules.rule_to_json(rule)
    assert stored["match"] == "any" and condition.items() <= stored["conditions"][0].items()
    assert rules.parse_rule(stored, "account") == rule


# --- Rejected rules ------------------------------------------------------------------------

UNKNOWN: list[Any] = [
    None,
    [],
    "all",
    {},
    {"kind": "magic"},
    {"kind": "active"},
    {"kind": "trend", "trend": "up"},
    {"kind": "insight", "insight": "boredom", "has": True},
    trait("like", "x"),
    {**trait("is", "x"), "more": 1},
    event("done", times="many"),
    when("created", "within_days", 1.5),
    when("created", "within_days", "month"),
]
NO_TEXT = "without NUL or surrogate characters"


@each(
    ("condition", "field", "message"),
    [
        (trait("is", ""), "value", "Enter the text to compare with."),
        (trait("is", "  "), "value", "Enter the text to compare with."),
        (trait("is", 5), "value", "Enter the text to compare with."),
        (trait("is", "a\0b"), "value", NO_TEXT),
        (trait("contains", "a\ud800"), "value", NO_TEXT),
        (trait("is", "x" * 513), "value", "with at most 512 characters"),
        (trait("is", "pro", name=" "), "trait", "Enter the trait’s name."),
        (trait("is", "pro", name="a\0"), "trait", NO_TEXT),
        (trait("is", "pro", name="x" * 257), "trait", "with at most 256 characters"),
        (trait("is_set", "pro"), "value", "Leave the value empty"),
        (trait("at_least"), "value", "Enter a number."),
        (trait("at_least", "5"), "value", "Enter a number."),
        (trait("at_least", 10**400), "value", "at most 15 digits"),
        (trait("at_most", float("nan")), "value", "at most 15 digits"),
        (trait("at_most", float("-inf")), "value", "at most 15 digits"),
        *(
            (trait("before", value), "value", "Enter a date like")
            for value in (
                None, 5, "", "now", "infinity", "20250131", "2025-02-30", "0001-01-01",
                "9999-12-31", "2025-01-31T00:00", "٢٠٢٥-01-31",
            )
        ),
        (event("done", name=""), "event", "Enter the event’s name."),
        (event("done", times=0), "times", "from 1 to 1,000,000,000"),
        (event("done", times=10**10), "times", "from 1 to 1,000,000,000"),
        (event("not_done", times=2), "times", "takes no number of times"),
        (event("done", within_days=0), "within_days", "from 1 to 3,650"),
        (event("done", within_days=10**30), "within_days", "from 1 to 3,650"),
        (when("created", "within_days", 3651), "days", "from 1 to 3,650"),
        (when("created", "within_days", -1), "days", "from 1 to 3,650"),
        ({"kind": "created", "operator": "within_days", "days": "window"}, "days", "a number of"),
        (when("last_active", "within_days", 1), "kind", "cannot use scores"),
        ({"kind": "active", "active": True}, "kind", "cannot use scores"),
        ({"kind": "trend", "trend": "rising"}, "kind", "cannot use scores"),
        ({"kind": "insight", "insight": "trend_up", "has": True}, "kind", "cannot use scores"),
        ({"kind": "metric", "metric": "raw_score", "operator": "at_least", "value": 1}, "kind",
         "cannot use scores"),
        *((unknown, None, "This is not a valid condition") for unknown in UNKNOWN),
    ],
)  # fmt: skip
def test_an_invalid_condition_has_a_message(
    condition: Any, field: str | None, message: str
) -> None:
    stored = {"match": "all", "conditions": [trait("is_set"), condition]}
    with pytest.raises(InvalidRule) as error:
        rules.parse_rule(stored, "user", for_audience=True)
    problems = [(problem.condition, problem.field) for problem in error.value.problems]
    assert (1, field) in problems
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("condition", "scope", "message"),
    [
        (trait("is_set", kind="account_trait"), "account", "applies to users only"),
        ({"kind": "insight", "insight": "trend_up"}, "user", "applies to accounts only"),
        ({"kind": "activity", "state": "rising"}, "user", "applies to accounts only"),
        ({"kind": "metric", "metric": "active_users", "operator": "at_least", "value": 1}, "user",
         "Only accounts have the metric “Active users”."),
        ({"kind": "metric", "metric": "adoption", "operator": "between", "value": 1}, "user",
         "Enter a number."),
        ({"kind": "metric", "metric": "adoption", "operator": "between", "value": 1, "upper": 0.5},
         "user", "must not be below the first"),
        ({"kind": "metric", "metric": "adoption", "operator": "at_least", "value": 1, "upper": 2},
         "user", "Only “between” takes a second number"),
        ({"kind": "metric", "metric": "adoption", "operator": "at_least", "value": 2e15}, "user",
         "at most 15 digits"),
    ],
)  # fmt: skip
def test_a_condition_in_the_wrong_scope_has_a_message(
    condition: dict[str, Any], scope: Any, message: str
) -> None:
    with pytest.raises(InvalidRule, match=message):
        rules.parse_rule({"conditions": [condition]}, scope)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"match": "most", "conditions": []}, "whether all conditions must match, or any"),
        ({"match": [], "conditions": []}, "whether all conditions must match, or any"),
        ({"conditions": {}}, "at most 20 conditions"),
        ({"conditions": [trait("is_set")] * 21}, "at most 20 conditions"),
    ],
)
def test_an_invalid_rule_has_a_message(stored: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRule, match=message):
        rules.parse_rule(stored, "user")


def test_all_problems_are_listed() -> None:
    stored = {"conditions": [trait("is", ""), trait("is_set"), event("done", name="", times=0)]}
    with pytest.raises(InvalidRule) as error:
        rules.parse_rule(stored, "user")
    problems = [(problem.condition, problem.field) for problem in error.value.problems]
    assert problems == [(0, "value"), (2, "event"), (2, "times")]
