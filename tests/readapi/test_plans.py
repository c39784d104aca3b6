"""Every statement finds its rows in the large tables by an index."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.database import sql
from engagement.models import Product, Segment, Workspace
from tests.cases import each
from tests.database import one_server
from tests.license_events import add_event
from tests.readapi.conftest import Reads
from tests.readapi.scored import account_id, fill, user_id

pytestmark = one_server
# The tables that grow with the number of users.
LARGE = {
    "engagement_user",
    "engagement_account",
    "engagement_userengagement",
    "engagement_accountengagement",
    "engagement_dailycount",
    "engagement_event",
    "engagement_membership",
    "engagement_alarm",
    "marketplace_licenseevent",
}
_LARGE_NAMES = {"large": ["engagement\\_%", "license\\_event%", "marketplace\\_licenseevent%"]}


@pytest.fixture
def filled(acme: Product) -> Workspace:
    workspace = fill(acme)
    forget_statistics()
    return workspace


def forget_statistics() -> None:
    """Clear the planner's statistics, as before the first ANALYZE.

    Otherwise the plans would depend on earlier tests. The test's rollback restores them.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH stats AS MATERIALIZED (SELECT * FROM pg_stats "
            "                            WHERE tablename LIKE ANY(%(large)s)) "
            "SELECT pg_clear_attribute_stats(schemaname, tablename, attname, inherited) FROM stats",
            _LARGE_NAMES,
        )
        cursor.execute(
            "SELECT pg_clear_relation_stats('public', relname) FROM pg_class "
            "WHERE relname LIKE ANY(%(large)s) AND relkind IN ('r', 'i')",
            _LARGE_NAMES,
        )


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Requests a URL and returns the plans of its statements, as for large tables."""
    direct: list[dict[str, Any]] = []
    fetch = sql.fetch

    def fetch_and_explain(statement: Any, parameters: Any = None) -> list[sql.Row]:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            direct.append(fetch("EXPLAIN (FORMAT JSON) " + statement, parameters)[0][0][0])
        return fetch(statement, parameters)

    def plans_of(reads: Reads, address: str) -> list[dict[str, Any]]:
        direct.clear()
        with connection.cursor() as cursor:
            # With the few rows of a test, a sequential scan would win.
            cursor.execute("SET LOCAL enable_seqscan = off")
        with monkeypatch.context() as patch, CaptureQueriesContext(connection) as captured:
            patch.setattr(sql, "fetch", fetch_and_explain)
            response = reads(address)
            assert response.status_code == 200, response.content
        selects = [query["sql"] for query in captured if query["sql"].startswith("SELECT")]
        return [*direct, *(explained(select) for select in selects)]

    return plans_of


def explained(select: str) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN (FORMAT JSON) " + select)
        plan: dict[str, Any] = cursor.fetchone()[0][0]
        return plan


def nodes(plan: Any) -> Iterator[dict[str, Any]]:
    if isinstance(plan, list):
        for item in plan:
            yield from nodes(item)
    elif isinstance(plan, dict):
        if "Node Type" in plan:
            yield plan
        for value in plan.values():
            yield from nodes(value)


def full_scans(plan: dict[str, Any]) -> list[str]:
    """The large tables that the plan scans from end to end."""
    scans = []
    for node in nodes(plan):
        table = node.get("Relation Name", "")
        # The index scan below a bitmap heap scan finds its rows.
        is_scan = "Index Cond" not in node and node["Node Type"] != "Bitmap Heap Scan"
        if table in LARGE and is_scan:
            scans.append(f"{node['Node Type']} on {table}")
    return scans


ADDRESSES = [
    "/v2/accounts?workspace_id={workspace}",
    "/v2/accounts?workspace_id={workspace}&offset=1",
    "/v2/accounts?workspace_id={workspace}&match_type=tracking_id&match_value=initech",
    "/v2/accounts?workspace_id={workspace}&match_type=domain&match_value=initech.example",
    "/v2/accounts?workspace_id={workspace}&expand=traits,metrics&traits=a,b,c,d,e",
    "/v2/accounts?workspace_id={workspace}&expand=traits,metrics&sort=score",
    "/v2/accounts?workspace_id={workspace}&domain=initech.example",
    "/v2/accounts?workspace_id={workspace}&name=Initech",
    "/v2/accounts?workspace_id={workspace}&tracking_id=initech&expand=traits",
    "/v2/accounts?workspace_id={workspace}&min_score=50",
    "/v2/accounts?workspace_id={workspace}&trait=plan:pro",
    "/v2/accounts?workspace_id={workspace}&activity=falling",
    "/v2/accounts?workspace_id={workspace}&activity=steady&insight=breadth_narrowing",
    "/v2/accounts?workspace_id={workspace}&license_event=churned&license_event_days=30",
    "/v2/license-events?type=churned",
    "/v2/accounts/{account}/users?workspace_id={workspace}&expand=traits,metrics&total=true",
    "/v2/users?workspace_id={workspace}&email=ann@initech.example&expand=metrics",
    "/v2/users?workspace_id={workspace}&tracking_id=ann",
    "/v2/users?workspace_id={workspace}",
    "/v2/users?workspace_id={workspace}&match_type=tracking_id&match_value=ann",
    "/v2/users?workspace_id={workspace}&match_type=email&match_value=ann@initech.example",
    "/v2/users?workspace_id={workspace}&match_type=plan&match_value=pro",
    "/v2/accounts/{account}?workspace_id={workspace}"
    "&expand=insights,traits,segments,events,history",
    "/v2/users/{user}?workspace_id={workspace}&expand=traits,segments,events,history",
    "/v2/accounts?workspace_id={workspace}&match_type=name&match_value=Initech",
    "/v1/accounts?workspace_id={workspace}&match_type=name&match_value=Initech",
    "/v1/accounts?workspace_id={workspace}&match_type=domain&match_value=initech.example",
    "/v2/segments?workspace_id={workspace}&expand=counts&limit=100",
    "/v2/workspaces?expand=stats",
]


@pytest.mark.slow
@each("address", ADDRESSES)
def test_no_endpoint_scans_a_large_table(
    address: str, plans: Any, acme_reads: Reads, acme: Product, filled: Workspace
) -> None:
    request_plans = plans(
        acme_reads,
        address.format(
            workspace=filled.pk,
            account=account_id(acme, "initech"),
            user=user_id(acme, "ann"),
        ),
    )
    assert request_plans
    assert [scan for plan in request_plans for scan in full_scans(plan)] == []


def test_no_segment_scans_a_large_table(plans: Any, acme_reads: Reads, filled: Workspace) -> None:
    for segment in Segment.objects.filter(workspace=filled):
        address = f"/v2/segments/{segment.pk}/members?workspace_id={filled.pk}"
        scans = [scan for plan in plans(acme_reads, address) for scan in full_scans(plan)]
        assert scans == [], segment.name


@each("scope", ["user", "account"])
@each("name", ["All", "All Active", "Most Engaged", "Slightly Engaged"])
def test_members_by_score_are_one_range_of_the_ranking_index(
    scope: str, name: str, plans: Any, acme_reads: Reads, filled: Workspace
) -> None:
    """A threshold of the score is one of the raw score, so that nothing else is looked at."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_sort = off")
    segment = Segment.objects.get(workspace=filled, scope=scope, name=name)
    address = f"/v2/segments/{segment.pk}/members?workspace_id={filled.pk}"
    index = f"{scope}_ranking"
    (page,) = (plan for plan in plans(acme_reads, address) if index in str(plan))
    (ranked,) = (node for node in nodes(page) if node.get("Index Name") == index)
    assert ("raw" in ranked["Index Cond"]) == (name != "All")
    # Which says nothing on top of the set: a set is of one product.
    assert ranked["Filter"] == f"(product_id = {filled.product_id})"
    assert not [node for node in nodes(page) if node["Node Type"] == "Sort"]


BY_ALARMS = {
    "activity": ["falling", "stopped", "rising", "settled_lower", "settled_higher"],
    "insight": ["users_leaving", "key_user_quiet", "breadth_narrowing", "renewal_at_risk"],
}


@each("parameter", [f"{name}={value}" for name, values in BY_ALARMS.items() for value in values])
def test_lists_by_alarms_rank_the_accounts_of_the_alarms(
    parameter: str, plans: Any, acme_reads: Reads, filled: Workspace
) -> None:
    """And do not walk the ranking from the top: at its end are the accounts that stopped."""
    address = f"/v2/accounts?workspace_id={filled.pk}&{parameter}"
    read = {"engagement_accountengagement"}
    rows = [
        node
        for plan in plans(acme_reads, address)
        for node in nodes(plan)
        if node.get("Relation Name") in read and node["Node Type"] != "Bitmap Heap Scan"
    ]
    assert rows
    assert all("account_id = ANY" in node["Index Cond"] for node in rows)


def test_the_list_of_undecided_accounts_is_one_range_of_their_index(
    plans: Any, acme_reads: Reads, filled: Workspace
) -> None:
    """In the ranking, nearly all others come before them."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_sort = off")
    address = f"/v2/accounts?workspace_id={filled.pk}&activity=unknown"
    index = "account_undecided"
    (page,) = (plan for plan in plans(acme_reads, address) if index in str(plan))
    assert [node for node in nodes(page) if node.get("Index Name") == index]
    assert not [node for node in nodes(page) if "Sort" in node["Node Type"]]


@pytest.mark.parametrize(
    ("parameters", "index"),
    [("", "license_event_date"), ("&changed_since=start", "license_event_changed")],
)
def test_pages_of_license_events_are_one_range_of_an_index(
    parameters: str, index: str, plans: Any, acme_reads: Reads, acme: Product
) -> None:
    for number in range(5):
        add_event(acme, "seats_up", "2026-04-01", license=f"E-{number}")
    forget_statistics()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_sort = off")
        cursor.execute("SET LOCAL enable_incremental_sort = off")
    address = f"/v2/license-events?limit=2{parameters}"
    for is_first in (True, False):
        (page,) = (plan for plan in plans(acme_reads, address) if index in str(plan))
        (scan,) = (node for node in nodes(page) if node.get("Index Name") == index)
        assert ("ROW" in scan["Index Cond"]) != is_first
        assert not [node for node in nodes(page) if "Sort" in node["Node Type"]]
        address = acme_reads(address).json()["_links"]["next"]
