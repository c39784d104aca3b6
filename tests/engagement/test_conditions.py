"""What each condition that needs no scores asks, by what it lets in; and which rules are refused.

Members are listed by name. Today is the 24th of September 2026.
"""

from typing import Any

import pytest

from engagement.messages import Identify
from engagement.models import Product, User
from engagement.rules import filters, rules
from engagement.rules.rules import InvalidRule
from tests.engagement.history import NOON, group, identify, tell, track
from tests.engagement.rows import named

TODAY = NOON.date()


def trait(operator: str, value: Any = None, name: str = "x", kind: str = "trait") -> dict[str, Any]:
    return {"kind": kind, "trait": name, "operator": operator, "value": value}


def event(operator: str, name: str = "opened", **more: Any) -> dict[str, Any]:
    return {"kind": "event", "event": name, "operator": operator, **more}


def when(kind: str, operator: str, days: Any) -> dict[str, Any]:
    return {"kind": kind, "operator": operator, "days": days}


def let_in(product: Product, *asked: dict[str, Any], match: str = "all") -> set[str]:
    """The users that an audience with these conditions has."""
    stored = {"match": match, "conditions": list(asked)}
    rule = rules.parse_rule(stored, "user", for_audience=True)
    met = filters.audience_filter(rule, product.pk, TODAY)
    users = User.objects.filter(product=product)
    members = set(users.filter(met).values_list("external_id", flat=True))
    others = set(users.exclude(met).values_list("external_id", flat=True))
    assert members.isdisjoint(others)
    assert members | others == set(users.values_list("external_id", flat=True))
    return members


# --- Traits ---------------------------------------------------------------------------------

# Each user is named for the trait x that they have; "none" has none.
VALUES: dict[str, Any] = {
    "pro": "pro",
    "Pro plan": "Pro plan",
    "5": 5,
    "5.0": 5.0,
    "text 5": "5",
    "text 05.50": "05.50",
    "-7": -7,
    "1e300": 1e300,
    "true": True,
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


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (trait("is", "pro"), {"pro"}),
        (trait("is", "5"), {"5", "5.0", "text 5"}),
        (trait("is", "5.00"), {"5", "5.0"}),
        (trait("is", "true"), {"true", "text true"}),
        (trait("is", "%"), set()),
        (trait("is", "'; --"), set()),
        (trait("is", "1e999"), set()),
        (trait("is_not", "5"), NOT_NONE - {"5", "5.0", "text 5"} | {"none"}),
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
        (trait("is_not_set"), {"none"}),
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
    ],
    ids=named,
)
def test_traits(acme: Product, asked: dict[str, Any], expected: set[str]) -> None:
    tell(acme, identify("none"), *(identify(name, x=value) for name, value in VALUES.items()))
    assert let_in(acme, asked) == expected


@pytest.mark.django_db
def test_a_trait_named_like_a_number_is_no_place_in_a_list(acme: Product) -> None:
    tell(acme, Identify("ann", NOON, {"0": "here"}), identify("bob"))
    assert let_in(acme, trait("contains", "here", name="0")) == {"ann"}
    assert let_in(acme, trait("is_set", name="0")) == {"ann"}


@pytest.mark.django_db
def test_marketplace_traits_ignore_case_in_their_name(acme: Product) -> None:
    tell(acme, Identify("ann", NOON, {"am.tier": "100 users"}))
    for name in ("am.tier", "AM.Tier"):
        assert let_in(acme, trait("is", "100 users", name=name)) == {"ann"}
        assert let_in(acme, trait("contains", "100", name=name)) == {"ann"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (trait("is", "pro"), {"ann"}),
        (trait("is_not", "pro"), {"bob", "cara"}),
        (trait("contains", "r"), {"ann"}),
        (trait("is_set"), {"ann"}),
        (trait("is_not_set"), {"bob", "cara"}),
        (trait("at_least", 1), set()),
    ],
    ids=named,
)
def test_who_is_in_no_account_has_none_of_its_traits(
    acme: Product, asked: dict[str, Any], expected: set[str]
) -> None:
    tell(acme, identify("ann", group="initech", x="own"), identify("bob", group="hooli"))
    tell(acme, identify("cara", x="pro"), group("initech", x="pro"))
    assert let_in(acme, {**asked, "kind": "account_trait"}) == expected


# --- Events and times -----------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
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
    ],
    ids=named,
)
def test_events(acme: Product, globex: Product, asked: dict[str, Any], expected: set[str]) -> None:
    tell(globex, identify("never"), track("never"), track("never", "closed"))
    tell(acme, identify("never"), identify("other"), track("other", "other"))
    # Midnight is twelve hours ago; events in two accounts are the user's all the same.
    tell(acme, identify("twice today"), track("twice today", hours=-12), track("twice today"))
    tell(acme, identify("three days ago"), track("three days ago", hours=-60.1))
    tell(acme, identify("now and then"), track("now and then"))
    tell(acme, track("now and then", hours=-240, group="initech"))
    tell(acme, track("now and then", hours=-480, group="hooli"))
    assert let_in(acme, asked) == expected


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (when("first_seen", "within_days", 1), {"today"}),
        (when("first_seen", "more_than_days_ago", 1), {"yesterday", "said long ago"}),
        (when("first_seen", "within_days", 2), {"today", "yesterday", "said long ago"}),
        (when("first_seen", "more_than_days_ago", 2), set()),
        (when("created", "within_days", 1), {"today"}),
        (when("created", "within_days", 2), {"today", "yesterday"}),
        (when("created", "more_than_days_ago", 2), {"said long ago"}),
        # The first of January is 266 days before the 24th of September.
        (when("created", "more_than_days_ago", 266), {"said long ago"}),
        (when("created", "more_than_days_ago", 267), set()),
        (when("created", "within_days", 267), {"today", "yesterday", "said long ago"}),
    ],
    ids=named,
)
def test_times(acme: Product, asked: dict[str, Any], expected: set[str]) -> None:
    tell(acme, identify("today", hours=-12), identify("yesterday", hours=-12.1))
    tell(acme, identify("said long ago", hours=-24, createdAt="2026-01-01T23:00:00Z"))
    assert let_in(acme, asked) == expected


# --- Together -------------------------------------------------------------------------------


@pytest.mark.django_db
def test_all_or_any_of_the_conditions(acme: Product) -> None:
    tell(acme, identify("both", a="1", b="1"), identify("a", a="1"), identify("neither"))
    asked = trait("is", "1", name="a"), trait("is_set", name="b")
    assert let_in(acme, *asked) == {"both"}
    assert let_in(acme, *asked, match="any") == {"both", "a"}


@pytest.mark.django_db
@pytest.mark.parametrize("match", ["all", "any"])
def test_no_conditions_let_everybody_in(acme: Product, match: str) -> None:
    tell(acme, identify("ann"), identify("bob"))
    assert let_in(acme, match=match) == {"ann", "bob"}


# --- What a rule tells of itself ------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "uses_time", "uses_account_traits"),
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
    ids=named,
)
def test_what_a_rule_depends_on(
    asked: dict[str, Any], uses_time: bool, uses_account_traits: bool
) -> None:
    for together in ([asked], [trait("is_set"), asked]):
        rule = rules.parse_rule({"conditions": together}, "user", for_audience=True)
        assert (rule.uses_time, rule.uses_account_traits) == (uses_time, uses_account_traits)


@pytest.mark.parametrize(
    "asked",
    [
        trait("is", "pro"),
        trait("at_least", 5),
        trait("is_set"),
        event("done", times=3, within_days=30),
        when("created", "more_than_days_ago", 180),
        {"kind": "created", "operator": "within_days", "days": "window"},
        {"kind": "active", "active": True},
        {"kind": "trend", "trend": "rising"},
        {"kind": "metric", "metric": "adoption", "operator": "at_most", "value": 0.5},
        {"kind": "metric", "metric": "raw_score", "operator": "between", "value": 1, "upper": 5},
    ],
    ids=named,
)
def test_a_rule_is_stored_as_it_is_shown(asked: dict[str, Any]) -> None:
    rule = rules.parse_rule({"match": "any", "conditions": [asked]}, "account")
    stored = rules.rule_to_json(rule)
    assert stored["match"] == "any" and asked.items() <= stored["conditions"][0].items()
    assert rules.parse_rule(stored, "account") == rule


# --- What is refused ------------------------------------------------------------------------

UNKNOWN: list[Any] = [
    None,
    [],
    "all",
    {},
    {"kind": "magic"},
    {"kind": "active"},
    {"kind": "trend", "trend": "up"},
    trait("like", "x"),
    {**trait("is", "x"), "more": 1},
    event("done", times="many"),
    when("created", "within_days", 1.5),
    when("created", "within_days", "month"),
]
NO_TEXT = "without characters that no text can hold"


@pytest.mark.parametrize(
    ("asked", "field", "sentence"),
    [
        (trait("is", ""), "value", "Give the text to compare with."),
        (trait("is", "  "), "value", "Give the text to compare with."),
        (trait("is", 5), "value", "Give the text to compare with."),
        (trait("is", "a\0b"), "value", NO_TEXT),
        (trait("contains", "a\ud800"), "value", NO_TEXT),
        (trait("is", "x" * 513), "value", "in at most 512 characters"),
        (trait("is", "pro", name=" "), "trait", "Give the trait’s name."),
        (trait("is", "pro", name="a\0"), "trait", NO_TEXT),
        (trait("is", "pro", name="x" * 257), "trait", "in at most 256 characters"),
        (trait("is_set", "pro"), "value", "leave the value empty"),
        (trait("at_least"), "value", "Give a number."),
        (trait("at_least", "5"), "value", "Give a number."),
        (trait("at_least", 10**400), "value", "at most 15 digits"),
        (trait("at_most", float("nan")), "value", "at most 15 digits"),
        (trait("at_most", float("-inf")), "value", "at most 15 digits"),
        *(
            (trait("before", value), "value", "Give a date as year-month-day")
            for value in (
                None, 5, "", "now", "infinity", "20250131", "2025-02-30", "0001-01-01",
                "9999-12-31", "2025-01-31T00:00", "٢٠٢٥-01-31",
            )
        ),
        (event("done", name=""), "event", "Give the event’s name."),
        (event("done", times=0), "times", "from 1 to 1,000,000,000"),
        (event("done", times=10**10), "times", "from 1 to 1,000,000,000"),
        (event("not_done", times=2), "times", "goes without a number"),
        (event("done", within_days=0), "within_days", "from 1 to 3,650"),
        (event("done", within_days=10**30), "within_days", "from 1 to 3,650"),
        (when("created", "within_days", 3651), "days", "from 1 to 3,650"),
        (when("created", "within_days", -1), "days", "from 1 to 3,650"),
        ({"kind": "created", "operator": "within_days", "days": "window"}, "days", "a number of"),
        (when("last_active", "within_days", 1), "kind", "cannot depend on scores"),
        ({"kind": "active", "active": True}, "kind", "cannot depend on scores"),
        ({"kind": "trend", "trend": "rising"}, "kind", "cannot depend on scores"),
        ({"kind": "metric", "metric": "raw_score", "operator": "at_least", "value": 1}, "kind",
         "cannot depend on scores"),
        *((unknown, None, "This is no condition that is known here") for unknown in UNKNOWN),
    ],
    ids=repr,
)  # fmt: skip
def test_a_condition_that_cannot_be_used_is_told_why(
    asked: Any, field: str | None, sentence: str
) -> None:
    stored = {"match": "all", "conditions": [trait("is_set"), asked]}
    with pytest.raises(InvalidRule) as refused:
        rules.parse_rule(stored, "user", for_audience=True)
    faults = refused.value.faults
    assert (1, field) in [(fault.condition, fault.field) for fault in faults]
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("asked", "scope", "sentence"),
    [
        (trait("is_set", kind="account_trait"), "account", "about users only"),
        ({"kind": "metric", "metric": "active_users", "operator": "at_least", "value": 1}, "user",
         "“Active users” is a metric of accounts only."),
        ({"kind": "metric", "metric": "adoption", "operator": "between", "value": 1}, "user",
         "Give a number."),
        ({"kind": "metric", "metric": "adoption", "operator": "between", "value": 1, "upper": 0.5},
         "user", "must not be below the first"),
        ({"kind": "metric", "metric": "adoption", "operator": "at_least", "value": 1, "upper": 2},
         "user", "goes with “between” only"),
        ({"kind": "metric", "metric": "adoption", "operator": "at_least", "value": 2e15}, "user",
         "at most 15 digits"),
    ],
)  # fmt: skip
def test_a_condition_that_does_not_fit_is_told_why(
    asked: dict[str, Any], scope: Any, sentence: str
) -> None:
    with pytest.raises(InvalidRule, match=sentence):
        rules.parse_rule({"conditions": [asked]}, scope)


@pytest.mark.parametrize(
    ("stored", "sentence"),
    [
        ({"match": "most", "conditions": []}, "whether all conditions must be met, or any"),
        ({"match": [], "conditions": []}, "whether all conditions must be met, or any"),
        ({"conditions": {}}, "at most 20 conditions"),
        ({"conditions": [trait("is_set")] * 21}, "at most 20 conditions"),
    ],
)
def test_a_rule_that_is_none_is_told_why(stored: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidRule, match=sentence):
        rules.parse_rule(stored, "user")


def test_every_fault_is_told() -> None:
    stored = {"conditions": [trait("is", ""), trait("is_set"), event("done", name="", times=0)]}
    with pytest.raises(InvalidRule) as refused:
        rules.parse_rule(stored, "user")
    places = [(fault.condition, fault.field) for fault in refused.value.faults]
    assert places == [(0, "value"), (2, "event"), (2, "times")]
