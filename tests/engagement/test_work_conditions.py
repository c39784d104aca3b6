"""Conditions on owners and tags, and the order by owners."""

from typing import Any

import pytest

from engagement.models import AccountWork, Product, ScoreSet, Segment
from engagement.orders.columns import sorted_rows
from engagement.rules import rules, texts
from engagement.scopes import ACCOUNTS
from engagement.segments import members
from tests.cases import each
from tests.engagement import rows
from tests.engagement.rows import account

pytestmark = pytest.mark.django_db

DANA = {"kind": "owner", "operator": "is", "owner": "dana"}
VIP = {"kind": "tag", "tag": "vip", "has": True}


@pytest.fixture
def accounts(scores: ScoreSet, globex: Product) -> ScoreSet:
    """Of Dana, of Eve, tagged only, and one of which nobody decided anything. The owner of another
    product's account with the same id is not theirs."""
    for name, owner, tags in (
        ("of dana", "dana", ["vip"]),
        ("of eve", "eve", ["new", "vip"]),
        ("tagged", "", ["VIP"]),
    ):
        row = account(scores, name)
        AccountWork.objects.create(
            product_id=scores.product_id, account_id=row.account_id, owner=owner, tags=tags
        )
    bare = account(scores, "bare")
    AccountWork.objects.create(
        product=globex, account_id=bare.account_id, owner="dana", tags=["vip"]
    )
    return scores


@each(
    ("condition", "names"),
    [
        (DANA, {"of dana"}),
        ({**DANA, "operator": "is_not"}, {"of eve", "tagged", "bare"}),
        ({**DANA, "operator": "is_set", "owner": None}, {"of dana", "of eve"}),
        ({**DANA, "operator": "is_not_set", "owner": None}, {"tagged", "bare"}),
        ({**DANA, "owner": "Dana"}, set()),
        (VIP, {"of dana", "of eve"}),
        ({**VIP, "has": False}, {"tagged", "bare"}),
    ],
)
def test_members_have_the_owner_or_the_tag(
    accounts: ScoreSet, condition: dict[str, Any], names: set[str]
) -> None:
    assert rows.members(accounts, "account", condition) == names
    segment = Segment(pk=1, scope="account", conditions=[condition])
    for row in members.engagement_rows(accounts, "account").select_related("account"):
        is_member = row.account.external_id in names
        assert members.segments_containing(accounts, [segment], row) == [segment] * is_member


def test_accounts_are_sorted_by_their_owner_those_of_nobody_last(accounts: ScoreSet) -> None:
    for descending, names in ((False, ["of dana", "of eve"]), (True, ["of eve", "of dana"])):
        own = sorted_rows(accounts, ACCOUNTS, "owner", descending=descending)
        assert list(own.values_list("account__external_id", flat=True))[:2] == names


@each(
    ("condition", "scope", "message"),
    [
        (DANA, "user", "applies to accounts only"),
        (VIP, "user", "applies to accounts only"),
        ({**DANA, "owner": None}, "account", "Enter the owner’s login"),
        ({**DANA, "operator": "is_set"}, "account", "Leave the owner empty"),
        ({**VIP, "tag": ""}, "account", "Enter the tag"),
        ({**VIP, "tag": "x" * 51}, "account", "the tag with at most 50"),
    ],
)
def test_what_is_refused(condition: dict[str, Any], scope: Any, message: str) -> None:
    with pytest.raises(rules.InvalidRule, match=message):
        rules.parse_rule({"conditions": [condition]}, scope)


@each(
    ("condition", "text"),
    [
        (DANA, "Owner is “dana”"),
        ({**DANA, "operator": "is_not_set", "owner": None}, "Owner is nobody"),
        (VIP, "Has the tag “vip”"),
        ({**VIP, "has": False}, "Does not have the tag “vip”"),
    ],
)
def test_conditions_in_words(condition: dict[str, Any], text: str) -> None:
    rule = rules.parse_rule({"conditions": [condition]}, "account")
    assert texts.describe_rule(rule) == text
    assert not rule.uses_time
    assert rules.rule_to_json(rule)["conditions"] == [condition]
