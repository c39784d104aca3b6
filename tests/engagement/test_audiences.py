"""Only users in a workspace's audience are scored, and accounts count only these."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.messages import Message
from engagement.models import AccountEngagement, Product, UserEngagement, Workspace
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON, group, identify, tell, track

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_nights")]

PAYING = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}
OF_PAYING_ACCOUNTS = {"kind": "account_trait", "trait": "plan", "operator": "is", "value": "pro"}
NEWCOMERS = {"kind": "first_seen", "operator": "within_days", "days": 3}
WHO_PAID_RECENTLY = {"kind": "event", "event": "paid", "operator": "done", "within_days": 2}


def is_about(product: Product, *conditions: dict[str, Any]) -> None:
    """Score only users who match all the conditions in the product's workspace."""
    workspace = Workspace.objects.get(product=product)
    workspace.audience = {"match": "all", "conditions": list(conditions)} if conditions else {}
    workspace.save(update_fields=["audience"])
    sets.request_score_set(workspace.pk)


def users(product: Product) -> dict[str, int]:
    scores = Workspace.objects.get(product=product).scores
    rows = UserEngagement.objects.filter(score_set=scores)
    return dict(rows.values_list("user__external_id", "raw"))


def accounts(product: Product) -> dict[str, tuple[int, int, int]]:
    """Raw score, active users and users of each account."""
    scores = Workspace.objects.get(product=product).scores
    rows = AccountEngagement.objects.filter(score_set=scores)
    values = rows.values_list("account__external_id", "raw", "active_users", "total_users")
    return {name: (raw, active, total) for name, raw, active, total in values}


@pytest.fixture
def initech(acme: Product) -> Product:
    """Acme with an account where ann pays and bob does not; each did something."""
    tell(acme, identify("ann", -90, "initech", plan="pro"), identify("bob", -90, "initech"))
    tell(acme, track("ann"), track("bob"), track("bob"))
    return acme


def test_only_the_audience_is_scored_and_counted(initech: Product) -> None:
    is_about(initech, PAYING)
    rescore(NOON)
    assert users(initech) == {"ann": 1}
    assert accounts(initech) == {"initech": (1, 1, 1)}


def test_without_an_audience_everybody_is_scored_again(initech: Product) -> None:
    is_about(initech, PAYING)
    rescore(NOON)
    is_about(initech)
    rescore(NOON)
    assert users(initech) == {"ann": 1, "bob": 2}
    assert accounts(initech) == {"initech": (3, 2, 2)}


def test_a_new_trait_adds_one_user_and_removes_another(initech: Product) -> None:
    is_about(initech, PAYING)
    rescore(NOON)
    tell(initech, identify("bob", 1, plan="pro"))
    rescore(NOON)
    assert users(initech) == {"ann": 1, "bob": 2}
    assert accounts(initech) == {"initech": (3, 2, 2)}
    tell(initech, identify("ann", 1, plan="free"))
    rescore(NOON)
    assert users(initech) == {"bob": 2}
    assert accounts(initech) == {"initech": (2, 1, 1)}


def test_a_trait_of_the_account_decides_for_all_its_users(initech: Product) -> None:
    is_about(initech, OF_PAYING_ACCOUNTS)
    rescore(NOON)
    assert users(initech) == {}
    assert accounts(initech) == {"initech": (0, 0, 0)}
    tell(initech, group("initech", 1, plan="pro"))
    rescore(NOON)
    assert users(initech) == {"ann": 1, "bob": 2}
    assert accounts(initech) == {"initech": (3, 2, 2)}


def test_a_move_to_another_account_decides_too(initech: Product) -> None:
    is_about(initech, OF_PAYING_ACCOUNTS)
    tell(initech, group("hooli", -90, plan="pro"))
    rescore(NOON)
    tell(initech, identify("bob", 1, "hooli"))
    rescore(NOON)
    assert users(initech) == {"bob": 2}
    # What bob did before he moved counts for the account that he was in then.
    assert accounts(initech) == {"initech": (2, 1, 1), "hooli": (0, 0, 1)}


def test_a_user_leaves_an_audience_of_new_users_as_days_pass(acme: Product) -> None:
    tell(acme, identify("ann", -48, "initech"), track("ann"))
    tell(acme, identify("bob", 0, "initech"), track("bob"))
    is_about(acme, NEWCOMERS)
    rescore(NOON)
    assert users(acme) == {"ann": 1, "bob": 1}
    rescore(NOON + timedelta(days=1))
    assert users(acme) == {"bob": 1}
    assert accounts(acme) == {"initech": (1, 1, 1)}


def test_a_recent_event_keeps_a_user_in_the_audience(acme: Product) -> None:
    tell(acme, identify("ann", -48, "initech"), track("ann"))
    is_about(acme, WHO_PAID_RECENTLY)
    rescore(NOON)
    assert users(acme) == {}
    tell(acme, track("ann", "paid", 1))
    rescore(NOON)
    assert (users(acme), accounts(acme)) == ({"ann": 2}, {"initech": (2, 1, 1)})
    rescore(NOON + timedelta(days=1))
    assert users(acme) == {"ann": 2}
    rescore(NOON + timedelta(days=2))
    assert (users(acme), accounts(acme)) == ({}, {"initech": (0, 0, 0)})


def test_benchmarks_are_those_of_the_audience(initech: Product) -> None:
    is_about(initech, PAYING)
    rescore(NOON)
    scores = Workspace.objects.get(product=initech).scores
    assert scores is not None
    assert (scores.user_benchmark, scores.account_benchmark) == (1.0, 1.0)


plans = st.sampled_from(["pro", "free"])
changes = st.lists(
    st.one_of(
        st.tuples(st.just("user"), st.sampled_from("abc"), plans),
        st.tuples(st.just("account"), st.sampled_from("xy"), plans),
        st.tuples(st.just("move"), st.sampled_from("abc"), st.sampled_from("xy")),
    ),
    max_size=12,
)


@examples(4)
@given(changes=changes, of_account=st.booleans(), split=st.integers(0, 12))
@leaves_no_rows
def test_the_audience_has_exactly_the_users_who_match(
    changes: list[tuple[str, str, str]], of_account: bool, split: int
) -> None:
    product = Product.create_with_workspace("Acme")
    is_about(product, OF_PAYING_ACCOUNTS if of_account else PAYING)
    tell(product, *(identify(user, -90, "x") for user in "abc"), group("y", -90))
    tell(product, *(track(user, hours=-80) for user in "abc"))
    state: dict[tuple[str, str], str] = {("move", user): "x" for user in "abc"}
    messages: list[Message] = []
    for number, (what, who, value) in enumerate(changes):
        state[what, who] = value
        if what == "user":
            messages.append(identify(who, number, plan=value))
        elif what == "account":
            messages.append(group(who, number, plan=value))
        else:
            messages.append(identify(who, number, value))
    for part in (messages[:split], messages[split:]):
        if part:
            tell(product, *part)
        rescore(NOON)
    expected = {
        user
        for user in "abc"
        if state.get(("account", state["move", user]) if of_account else ("user", user)) == "pro"
    }
    assert set(users(product)) == expected
    count = len(expected)
    assert accounts(product)["x"] == (count, count, count)
