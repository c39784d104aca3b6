"""The number of SQL statements per request, including those that Django does not count."""

from typing import Any

import pytest

from engagement.models import CachedCounts, Product, Segment, Workspace
from tests.cases import each
from tests.readapi.conftest import Reads
from tests.readapi.scored import account_id, fill, user_id
from tests.readapi.statements import statements_by_database


@pytest.fixture
def filled(acme: Product) -> Workspace:
    workspace = fill(acme)
    # A slow machine must not switch to the cached counts.
    CachedCounts.objects.update(seconds=0)
    return workspace


def count_statements(reads: Reads, address: str, workspace: Workspace, **parameters: Any) -> int:
    """The statements of a second request. The first records the token's use."""

    scope = {} if address == "/v2/workspaces" else {"workspace_id": workspace.pk}

    def send() -> None:
        response = reads(address, **scope, **parameters)
        assert response.status_code == 200, response.content

    send()
    return statements_by_database(send)["default"]


# Every request first reads the token, counts the request, and reads the workspace. Two more have
# the alarms of all accounts of the response, and their owners and tags.


@each(
    ("address", "parameters", "statements"),
    [
        ("/v2/accounts", {}, 6),
        ("/v2/users", {}, 4),
        ("/v2/accounts", {"match_type": "domain", "match_value": "initech.example"}, 6),
        ("/v2/users", {"match_type": "email", "match_value": "ann@initech.example"}, 4),
        ("/v2/accounts", {"expand": "traits", "traits": "a,b,c,d,e"}, 6),
        # The all-time totals of the whole page.
        ("/v2/accounts", {"expand": "traits,metrics"}, 7),
        ("/v2/users", {"expand": "traits,metrics", "email": "ann@initech.example"}, 5),
        ("/v2/accounts", {"domain": "initech.example", "min_score": 10, "trait": "a:b"}, 4),
        # Users and accounts are counted together.
        ("/v2/accounts", {"total": "true"}, 8),
        ("/v2/segments", {}, 4),
        # One pass over users and one over accounts count all segments.
        ("/v2/segments", {"expand": "counts", "limit": 100}, 6),
        ("/v2/workspaces", {}, 3),
        ("/v2/workspaces", {"expand": "stats"}, 5),
    ],
)
def test_a_page(
    address: str,
    parameters: dict[str, Any],
    statements: int,
    acme_reads: Reads,
    filled: Workspace,
) -> None:
    assert count_statements(acme_reads, address, filled, **parameters) == statements


@each("scope", ["user", "account"])
@each("name", ["All", "Most Engaged", "New", "Red Hot", "Active Today"])
def test_a_page_of_members(scope: str, name: str, acme_reads: Reads, filled: Workspace) -> None:
    segment = Segment.objects.get(workspace=filled, scope=scope, name=name)
    address = f"/v2/segments/{segment.pk}/members"
    has_accounts = scope == "account" and bool(
        acme_reads(address, workspace_id=filled.pk).json()["data"]
    )
    assert count_statements(acme_reads, address, filled) == 5 + 2 * has_accounts
    assert count_statements(acme_reads, f"/v2/segments/{segment.pk}", filled) == 5


@each(
    ("expand", "statements"),
    [
        # The row, the daily counts, and the owner and the tags.
        ("", 7),
        ("traits", 7),
        ("events", 7),
        # The segments, and those with the account as a member.
        ("segments", 9),
        # The benchmarks of the days, and when the scoring was changed.
        ("history", 9),
        # The top user, and their name.
        ("insights", 9),
        ("insights,traits,segments,events,history", 13),
    ],
)
def test_an_account(
    expand: str, statements: int, acme_reads: Reads, acme: Product, filled: Workspace
) -> None:
    address = f"/v2/accounts/{account_id(acme, 'initech')}"
    assert count_statements(acme_reads, address, filled, expand=expand) == statements


def test_a_user_with_all_expansions(acme_reads: Reads, acme: Product, filled: Workspace) -> None:
    address = f"/v2/users/{user_id(acme, 'ann')}"
    assert count_statements(acme_reads, address, filled) == 5
    assert (
        count_statements(acme_reads, address, filled, expand="traits,segments,events,history") == 9
    )


def test_the_legacy_look_up(acme_reads: Reads, filled: Workspace) -> None:
    match = {"match_type": "name", "match_value": "Initech"}
    assert count_statements(acme_reads, "/v1/accounts", filled, **match) == 5
