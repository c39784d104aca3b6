"""match_type and match_value: a list with one record or none."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from engagement.models import Account, Product, User, Workspace
from engagement.rescoring.rescore import rescore
from engagement.rules.trait_filters import trait_equals
from readapi import queries
from readapi.parameters import Lookup
from tests.cases import each, leaves_no_rows
from tests.engagement.history import NOON, group, identify, tell, track
from tests.readapi.conftest import Reads
from tests.readapi.rows import SUMMER, make_account, make_user


def look_up(reads: Reads, resource: str, workspace: Workspace, kind: str, value: str) -> list[str]:
    response = reads(
        f"/v2/{resource}", workspace_id=workspace.id, match_type=kind, match_value=value
    )
    assert response.status_code == 200, response.content
    return [row["tracking_id"] for row in response.json()["data"]]


@each(
    ("kind", "value"),
    [
        ("email", "milton@initech.example"),
        ("email", "MILTON@Initech.EXAMPLE"),
        ("tracking_id", "u-1"),
        ("name", "Milton"),
        ("seats", "5"),
        ("ratio", "0.25"),
        ("ratio", "2.5e-1"),
        ("trial", "true"),
        ("am.tier", "10 users"),
        ("AM.Tier", "10 users"),
        ("zip", "007"),
        ("a.b'c\"d\\", "odd"),
        ("big", "100000000000000000000000000000"),
    ],
)
@leaves_no_rows
def test_a_user_is_found(kind: str, value: str, acme_reads: Reads, workspace: Workspace) -> None:
    traits: dict[str, Any] = {
        "email": "Milton@initech.example", "name": "Milton", "seats": 5, "ratio": 0.25,
        "trial": True, "am.tier": "10 users", "zip": "007", "a.b'c\"d\\": "odd", "big": 10**29,
    }  # fmt: skip
    make_user(workspace, "u-1", 1, traits=traits)
    make_user(workspace, "u-2", 9, traits={"email": "peter@initech.example", "name": "Peter"})
    assert look_up(acme_reads, "users", workspace, kind, value) == ["u-1"]


@each(
    ("kind", "value"),
    [
        ("email", "milton@initech.exampl"),
        ("email", "%"),
        ("email", " milton@initech.example"),
        ("tracking_id", "U-1"),
        ("name", "milton"),
        ("Name", "Milton"),
        ("seats", "5 "),
        ("seats", "05"),
        ("seats", "+5"),
        ("seats", "\u0665"),
        ("trial", "True"),
        ("gone", "null"),
        ("tags", "a"),
        ("nested", '{"a": 1}'),
        ("unknown", "Milton"),
        ("name", "1e999999999"),
        ("name", "9" * 6000),
        ("name", "[" * 6000),
        ("external_id", "u-1"),
    ],
)
@leaves_no_rows
def test_a_different_value_is_not_found(
    kind: str, value: str, acme_reads: Reads, workspace: Workspace
) -> None:
    traits = {
        "email": "milton@initech.example", "name": "Milton", "seats": 5, "trial": True,
        "tags": ["a"], "nested": {"a": 1},
    }  # fmt: skip
    make_user(workspace, "u-1", traits=traits)
    assert look_up(acme_reads, "users", workspace, kind, value) == []


@each(
    ("kind", "value"),
    [
        ("domain", "INITECH.example"),
        ("tracking_id", "initech"),
        ("name", "Initech"),
        ("email", "office@initech.example"),
        ("plan", "pro"),
    ],
)
@leaves_no_rows
def test_an_account_is_found(
    kind: str, value: str, acme_reads: Reads, workspace: Workspace
) -> None:
    traits = {
        "domain": "initech.example", "name": "Initech", "plan": "pro",
        "email": "office@initech.example",
    }  # fmt: skip
    make_account(workspace, "initech", traits=traits)
    make_account(workspace, "initrode", 5, traits={"domain": "initrode.example"})
    assert look_up(acme_reads, "accounts", workspace, kind, value) == ["initech"]


def test_the_email_of_an_account_is_case_sensitive(acme_reads: Reads, workspace: Workspace) -> None:
    make_account(workspace, "initech", traits={"email": "office@initech.example"})
    assert look_up(acme_reads, "accounts", workspace, "email", "OFFICE@initech.example") == []


def test_the_match_seen_last_wins(acme_reads: Reads, workspace: Workspace) -> None:
    for name, days in (("old", 2), ("new", 0), ("older", 3)):
        seen_at = SUMMER - timedelta(days=days)
        traits = {"email": "all@initech.example", "plan": "pro", "domain": "initech.example"}
        make_user(workspace, name, days, traits=traits, last_seen_at=seen_at)
        make_account(workspace, name, days, traits=traits, last_seen_at=seen_at)
    assert look_up(acme_reads, "users", workspace, "email", "all@initech.example") == ["new"]
    assert look_up(acme_reads, "users", workspace, "plan", "pro") == ["new"]
    assert look_up(acme_reads, "accounts", workspace, "domain", "initech.example") == ["new"]


def test_an_event_counts_as_seeing_its_account(acme_reads: Reads, acme: Product) -> None:
    """A user joined busy long ago and is active today. A later message names dormant."""
    domain = {"domain": "acme.example"}
    tell(acme, group("busy", -80 * 24, user="ada", **domain), identify("ada", -80 * 24))
    tell(acme, group("dormant", -70 * 24, **domain), group("third", -90 * 24, **domain))
    tell(acme, *(track("ada") for _ in range(5)))
    rescore(NOON)
    workspace = Workspace.objects.get(product=acme)
    assert Account.objects.order_by("last_seen_at").last() == Account.objects.get(
        external_id="dormant"
    )

    assert look_up(acme_reads, "accounts", workspace, "domain", "acme.example") == ["busy"]
    match = {"match_type": "domain", "match_value": "acme.example"}
    legacy = acme_reads("/v1/accounts", workspace_id=workspace.pk, **match).json()
    assert (legacy["tracking_id"], legacy["metrics"]["engagement_score"]) == ("busy", 0.9)
    assert legacy["metrics"]["last_seen"] == "2026-09-24T12:00:00.000000Z"

    # A message that names an account counts too, even without any events.
    tell(acme, group("third", 1))
    assert look_up(acme_reads, "accounts", workspace, "domain", "acme.example") == ["third"]
    legacy = acme_reads("/v1/accounts", workspace_id=workspace.pk, **match).json()
    assert legacy["metrics"]["last_seen"] == "2026-09-24T13:00:00.000000Z"


def test_of_two_users_of_a_day_the_one_with_the_later_event_was_seen_last(
    acme_reads: Reads, acme: Product
) -> None:
    email = {"email": "all@initech.example"}
    tell(acme, identify("ann", -24, **email), identify("bob", -24, **email))
    for name, hours in (("ann", -3), ("bob", -2), ("ann", -1)):
        tell(acme, track(name, hours=hours))
        rescore(NOON)
    workspace = Workspace.objects.get(product=acme)
    assert look_up(acme_reads, "users", workspace, "email", "all@initech.example") == ["ann"]
    ann = User.objects.get(product=acme, external_id="ann")
    record = acme_reads(f"/v2/users/{ann.pk}", workspace_id=workspace.pk).json()["data"]
    assert record["updated_at"] == "2026-09-24T11:00:00.000000Z"


def test_texts_longer_than_the_index_are_compared_in_full(
    acme_reads: Reads, workspace: Workspace
) -> None:
    same_start = "x" * 320
    make_user(workspace, "a", traits={"email": same_start + "a"})
    make_user(workspace, "b", traits={"email": same_start + "b"})
    assert look_up(acme_reads, "users", workspace, "email", same_start + "A") == ["a"]
    assert look_up(acme_reads, "users", workspace, "email", same_start) == []


def test_a_look_up_stays_in_its_workspace(
    acme_reads: Reads, acme: Product, workspace: Workspace
) -> None:
    elsewhere = Workspace.objects.create(product=acme, name="Elsewhere")
    make_user(elsewhere, "u-1", traits={"email": "m@initech.example"})
    assert look_up(acme_reads, "users", workspace, "email", "m@initech.example") == []
    assert look_up(acme_reads, "users", elsewhere, "email", "m@initech.example") == ["u-1"]


def test_a_look_up_returns_a_page(acme_reads: Reads, workspace: Workspace) -> None:
    make_user(workspace, "u-1")
    query = {"workspace_id": workspace.id, "match_type": "tracking_id", "match_value": "u-1"}
    body = acme_reads("/v2/users", **query, limit=1).json()
    assert body["pagination"] == {"limit": 1, "offset": 0, "has_more": False}
    assert set(body["_links"]) == {"self"}
    assert acme_reads("/v2/users", **query, offset=1).json()["data"] == []


@pytest.fixture
def crowd(workspace: Workspace) -> None:
    """Three thousand users and accounts, with statistics for the planner."""
    common = {"is_identified": True, "first_seen_at": SUMMER, "last_seen_at": SUMMER}
    numbers = range(3000)
    emails = [{"email": f"{number}@initech.example", "seats": number} for number in numbers]
    domains = [{"domain": f"{number}.initech.example", "seats": number} for number in numbers]
    User.objects.bulk_create(
        User(product=workspace.product, external_id=str(number), traits=traits, **common)
        for number, traits in enumerate(emails)
    )
    Account.objects.bulk_create(
        Account(product=workspace.product, external_id=str(number), traits=traits, **common)
        for number, traits in enumerate(domains)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE engagement_user, engagement_account")


@pytest.mark.usefixtures("crowd")
def test_look_ups_by_email_and_domain_use_their_indexes(workspace: Workspace) -> None:
    users, accounts = queries.ranked_users(workspace), queries.ranked_accounts(workspace)
    email, domain = Lookup("email", "5@initech.example"), Lookup("domain", "5.initech.example")
    for find in (queries.seen_last, queries.matches):
        assert "user_email" in find(users, workspace, "user", email).explain()
        assert "account_domain" in find(accounts, workspace, "account", domain).explain()


@pytest.mark.usefixtures("crowd")
def test_look_ups_by_trait_use_their_indexes(acme: Product) -> None:
    has_five = trait_equals("traits", "seats", "5")
    assert "user_traits" in User.objects.filter(has_five, product=acme).explain()
    assert "account_traits" in Account.objects.filter(has_five, product=acme).explain()
