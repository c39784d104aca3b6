"""Pages by limit, offset, and links."""

from base64 import urlsafe_b64encode
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from django.db import connection

from engagement.models import AccountEngagement, Product, Workspace
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from readapi import queries
from tests.database import one_server
from tests.engagement.history import NOON, identify, tell, track
from tests.readapi.conftest import Reads
from tests.readapi.rows import make_account, make_user

Body = dict[str, Any]


@pytest.fixture
def seven(workspace: Workspace) -> list[str]:
    """Seven accounts, best first. Three have the same score."""
    for name, raw in (("g", 0), ("f", 0), ("e", 4), ("d", 4), ("c", 4), ("b", 7), ("a", 9)):
        make_account(workspace, name, raw)
    return list("abcdefg")


def page(reads: Reads, address: str, **parameters: Any) -> Body:
    response = reads(address, **parameters)
    assert response.status_code == 200, response.content
    body: Body = response.json()
    return body


def names(body: Body) -> list[str]:
    return [row["tracking_id"] for row in body["data"]]


def walk(reads: Reads, body: Body, direction: str) -> list[Body]:
    bodies = [body]
    while address := bodies[-1]["_links"].get(direction):
        bodies.append(page(reads, address))
    return bodies


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8])
def test_next_links_visit_the_whole_list_and_prev_links_lead_back(
    limit: int, acme_reads: Reads, workspace: Workspace, seven: list[str]
) -> None:
    first = page(acme_reads, "/v2/accounts", workspace_id=workspace.id, limit=limit)
    forward = walk(acme_reads, first, "next")
    back = walk(acme_reads, forward[-1], "prev")

    assert [name for body in forward for name in names(body)] == seven
    assert [names(body) for body in reversed(back)] == [names(body) for body in forward]
    offsets = list(range(0, 7, limit))
    assert [body["pagination"]["offset"] for body in forward] == offsets
    assert [body["pagination"]["offset"] for body in reversed(back)] == offsets
    more = [True] * (len(forward) - 1) + [False]
    assert [body["pagination"]["has_more"] for body in forward] == more
    assert "prev" not in first["_links"] and "prev" not in back[-1]["_links"]


def test_users_are_paged_too(acme_reads: Reads, workspace: Workspace) -> None:
    for number in range(5):
        make_user(workspace, str(number), raw=number)
    first = page(acme_reads, "/v2/users", workspace_id=workspace.id, limit=2)
    assert [names(body) for body in walk(acme_reads, first, "next")] == [
        ["4", "3"],
        ["2", "1"],
        ["0"],
    ]


def test_links_are_absolute_and_keep_the_parameters(
    acme_reads: Reads, workspace: Workspace, seven: list[str]
) -> None:
    address = f"/v2/accounts?workspace_id={workspace.id}&limit=2&expand=&offset=2"
    links = page(acme_reads, address)["_links"]
    assert links["self"] == "http://testserver" + address
    for direction in ("next", "prev"):
        link = urlsplit(links[direction])
        assert (link.scheme, link.netloc, link.path) == ("http", "testserver", "/v2/accounts")
        query = parse_qs(link.query, keep_blank_values=True)
        assert query.pop("cursor")
        assert query == {"workspace_id": [str(workspace.id)], "limit": ["2"], "expand": [""]}


def test_links_continue_from_any_offset(
    acme_reads: Reads, workspace: Workspace, seven: list[str]
) -> None:
    body = page(acme_reads, "/v2/accounts", workspace_id=workspace.id, limit=3, offset=2)
    assert names(body) == ["c", "d", "e"]
    assert names(page(acme_reads, body["_links"]["next"])) == ["f", "g"]
    start = page(acme_reads, body["_links"]["prev"])
    assert names(start) == ["a", "b"]
    assert start["pagination"] == {"limit": 3, "offset": 0, "has_more": True}
    assert "prev" not in start["_links"]
    assert names(page(acme_reads, start["_links"]["next"])) == ["c", "d", "e"]


@pytest.mark.parametrize("offset", [7, 8, 1_000_000, 2**63 - 1])
def test_past_the_end_there_is_an_empty_page_with_a_prev_link(
    offset: int, acme_reads: Reads, workspace: Workspace, seven: list[str]
) -> None:
    body = page(acme_reads, "/v2/accounts", workspace_id=workspace.id, limit=5, offset=offset)
    assert body["data"] == []
    assert body["pagination"] == {"limit": 5, "offset": offset, "has_more": False}
    assert "next" not in body["_links"]
    before = page(acme_reads, body["_links"]["prev"])
    assert before["pagination"]["offset"] == offset - 5


def test_defaults_may_be_sent_beside_a_cursor(
    acme_reads: Reads, workspace: Workspace, seven: list[str]
) -> None:
    """Generated clients send every default that they know."""
    defaults = "&sort=-score&total=false&offset=0"
    body = page(acme_reads, f"/v2/accounts?workspace_id={workspace.id}&limit=4{defaults}")
    following = body["_links"]["next"]
    assert "sort" not in following and "total" not in following
    assert names(page(acme_reads, following + defaults)) == ["e", "f", "g"]
    segments = "/v2/segments?limit=1&exclude_defaults=false&offset=0"
    body = page(acme_reads, f"{segments}&workspace_id={workspace.id}")
    assert page(acme_reads, body["_links"]["next"] + "&exclude_defaults=false")["data"]


def test_the_limit_may_change_between_pages(
    acme_reads: Reads, workspace: Workspace, seven: list[str]
) -> None:
    first = page(acme_reads, "/v2/accounts", workspace_id=workspace.id, limit=4)
    second = first["_links"]["next"].replace("limit=4", "limit=2")
    body = page(acme_reads, second)
    assert names(body) == ["e", "f"]
    assert body["pagination"] == {"limit": 2, "offset": 4, "has_more": True}
    body = page(acme_reads, body["_links"]["prev"].replace("limit=2", "limit=3"))
    assert names(body) == ["b", "c", "d"]
    assert body["pagination"] == {"limit": 3, "offset": 1, "has_more": True}


def move(name: str, raw: int) -> None:
    AccountEngagement.objects.filter(account__external_id=name).update(raw=raw)


def test_a_row_that_moves_between_pages_does_not_affect_others(
    acme_reads: Reads, workspace: Workspace, seven: list[str]
) -> None:
    """With an offset, g's rise would repeat d, and b's fall would skip it."""
    first = page(acme_reads, "/v2/accounts", workspace_id=workspace.id, limit=3)
    assert names(first) == ["a", "b", "c"]
    move("g", 10)
    assert names(page(acme_reads, first["_links"]["next"])) == ["d", "e", "f"]
    move("b", 0)
    assert names(page(acme_reads, first["_links"]["next"])) == ["d", "e", "b"]


def test_a_cursor_works_after_its_row_was_deleted(
    acme_reads: Reads, workspace: Workspace, seven: list[str]
) -> None:
    first = page(acme_reads, "/v2/accounts", workspace_id=workspace.id, limit=3)
    AccountEngagement.objects.filter(account__external_id="c").delete()
    assert names(page(acme_reads, first["_links"]["next"])) == ["d", "e", "f"]


def test_prev_leads_to_the_start_if_all_earlier_rows_moved(
    acme_reads: Reads, workspace: Workspace, seven: list[str]
) -> None:
    second = page(acme_reads, "/v2/accounts", workspace_id=workspace.id, limit=2, offset=2)
    move("a", 0)
    move("b", 0)
    empty = page(acme_reads, second["_links"]["prev"])
    assert empty["data"] == []
    assert empty["pagination"] == {"limit": 2, "offset": 0, "has_more": True}
    assert names(page(acme_reads, empty["_links"]["next"])) == ["c", "d"]


def cursor_of(body: Body) -> str:
    [cursor] = parse_qs(urlsplit(str(body["_links"]["next"])).query)["cursor"]
    return cursor


def error_code(reads: Reads, address: str, **parameters: Any) -> str:
    response = reads(address, **parameters)
    assert response.status_code == 400
    code: str = response.json()["error"]["code"]
    return code


def test_a_cursor_belongs_to_its_list(
    acme_reads: Reads, acme: Product, workspace: Workspace, seven: list[str]
) -> None:
    other = Workspace.objects.create(product=acme, name="Other")
    cursor = cursor_of(page(acme_reads, "/v2/accounts", workspace_id=workspace.id, limit=2))
    for address, scope in (("/v2/accounts", other), ("/v2/users", workspace)):
        code = error_code(acme_reads, address, workspace_id=scope.id, cursor=cursor)
        assert code == "invalid_cursor"
    assert error_code(acme_reads, "/v2/workspaces", cursor=cursor) == "invalid_cursor"


def forged(*parts: Any, version: int = 2) -> str:
    packed = bytes([version]) + msgspec.msgpack.encode(parts)
    return urlsafe_b64encode(packed).rstrip(b"=").decode()


def test_only_an_unchanged_cursor_is_valid(
    acme_reads: Reads, workspace: Workspace, seven: list[str]
) -> None:
    scope, scores = f"accounts/{workspace.id}", workspace.scores_id
    assert scores is not None
    good = cursor_of(page(acme_reads, "/v2/accounts", workspace_id=workspace.id, limit=2))
    for cursor in (
        "", " ", "!", "AAAA", "a", good[:-1], good + "A", good + "=", good.lower(), "é", good * 99,
        forged(scope, [4, 3], False, 2, version=1),
        forged(scope, scores, [4, 3], False, 2, version=1),
        forged(scope, scores, [4], False, 2),
        forged(scope, scores, [4, 3, 2], False, 2),
        forged(scope, scores, [4, -3], False, 2),
        forged(scope, scores, [4, 2**63], False, 2),
        forged(scope, scores, [4, 3.0], False, 2),
        forged(scope, scores, [4, "3"], False, 2),
        forged(scope, scores, [True, 3], False, 2),
        forged(scope, scores, [4, 3], 0, 2),
        forged(scope, scores, [4, 3], False, -1),
        forged(scope, scores, [4, 3], False),
        forged(scope, scores, [4, 3], False, 2, "more"),
        forged(scope, scores, [4, 3], False, None),
        forged(scope, scores + 1, [4, 3], False, 2),
        forged(scope, 0, [4, 3], False, 2),
        forged(scope, -1, [4, 3], False, 2),
        forged(scope, None, [4, 3], False, 2),
        urlsafe_b64encode(b"\x02" + b"\x91" * 120).decode(),
    ):  # fmt: skip
        code = error_code(acme_reads, "/v2/accounts", workspace_id=workspace.id, cursor=cursor)
        assert code == "invalid_cursor", cursor


@pytest.mark.parametrize("backwards", [True, False])
def test_a_cursor_at_the_edge_of_its_range_is_harmless(
    backwards: bool, acme_reads: Reads, workspace: Workspace, seven: list[str]
) -> None:
    largest = 2**63 - 1
    for number in (0, largest):
        position = (workspace.scores_id, [number, number])
        cursor = forged(f"accounts/{workspace.id}", *position, backwards, largest)
        page(acme_reads, "/v2/accounts", workspace_id=workspace.id, cursor=cursor)


def test_a_forged_cursor_shows_nothing_of_another_product(
    globex_reads: Reads, workspace: Workspace, globex_workspace: Workspace, seven: list[str]
) -> None:
    ours = make_account(globex_workspace, "ours", raw=1)
    position = (globex_workspace.scores_id, [2**63 - 1, 1])
    cursor = forged(f"accounts/{globex_workspace.id}", *position, False, 0)
    body = page(globex_reads, "/v2/accounts", workspace_id=globex_workspace.id, cursor=cursor)
    assert [row["id"] for row in body["data"]] == [ours.id]


@pytest.mark.parametrize("kind", ["accounts", "users", "members"])
def test_an_edit_between_two_pages_is_told(kind: str, acme_reads: Reads, acme: Product) -> None:
    """The same position in the new scores would skip everybody above it."""
    for name in "abcdef":
        tell(acme, identify(name, group=name), track(name, "opened", group=name))
    rescore(NOON)
    workspace = Workspace.objects.get(product=acme)
    segment = workspace.segments.get(scope="user", name="All")
    members = f"/v2/segments/{segment.pk}/members"
    address = members if kind == "members" else f"/v2/{kind}"
    first = page(acme_reads, address, workspace_id=workspace.pk, limit=2)
    second = page(acme_reads, first["_links"]["next"])

    sets.request_score_set(workspace.pk)
    # Until the new scores are published, nothing changes.
    page(acme_reads, first["_links"]["next"])
    rescore(NOON)

    for link in (first["_links"]["next"], second["_links"]["next"], second["_links"]["prev"]):
        response = acme_reads(link)
        assert response.status_code == 400
        error = response.json()["error"]
        assert (error["code"], error["field"]) == ("invalid_cursor", "cursor")
        assert error["message"].endswith("Start again from the first page, without a cursor.")
    page(acme_reads, address, workspace_id=workspace.pk, limit=2)


def test_a_look_up_has_one_page(acme_reads: Reads, workspace: Workspace) -> None:
    for number in range(3):
        make_user(workspace, f"u-{number}", number, traits={"email": "a@b.example"})
    cursor = cursor_of(page(acme_reads, "/v2/users", workspace_id=workspace.id, limit=1))
    query = {"match_type": "email", "match_value": "a@b.example"}
    response = acme_reads("/v2/users", workspace_id=workspace.id, cursor=cursor, **query)
    assert response.status_code == 400
    assert response.json()["error"] == {
        "code": "invalid_cursor",
        "message": "A look-up has only one page. Leave out cursor.",
        "field": "cursor",
    }


@pytest.mark.parametrize(("address", "queries"), [("/v2/accounts", 5), ("/v2/users", 3)])
def test_every_page_costs_at_most_as_many_queries(
    address: str,
    queries: int,
    acme_reads: Reads,
    workspace: Workspace,
    django_assert_max_num_queries: Any,
) -> None:
    account = make_account(workspace, "initech", traits={"name": "Initech"})
    for number in range(1, 30):
        make_account(workspace, f"a-{number}", number, traits={"name": "A"})
        make_user(workspace, f"u-{number}", number, traits={"email": "u"}, account=account)
    # The first request records the token's use.
    first = page(acme_reads, address, workspace_id=workspace.id, limit=10)
    with django_assert_max_num_queries(queries):
        second = page(acme_reads, first["_links"]["next"])
    with django_assert_max_num_queries(queries):
        page(acme_reads, second["_links"]["prev"])
    query = {"match_type": "tracking_id", "match_value": "u-1"}
    with django_assert_max_num_queries(queries):
        page(acme_reads, address, workspace_id=workspace.id, **query)
    with django_assert_max_num_queries(queries):
        page(acme_reads, second["data"][0]["_links"]["self"], expand="traits")


def test_workspaces_with_stats_cost_four_queries(
    acme_reads: Reads, acme: Product, workspace: Workspace, django_assert_num_queries: Any
) -> None:
    for number in range(5):
        Workspace.objects.create(product=acme, name=str(number))
    page(acme_reads, "/v2/workspaces")
    with django_assert_num_queries(2):
        page(acme_reads, "/v2/workspaces")
    with django_assert_num_queries(4):
        page(acme_reads, "/v2/workspaces", expand="stats")


@one_server
@pytest.mark.parametrize(("backwards", "compared"), [(False, "<"), (True, ">")])
def test_a_page_is_one_range_of_the_ranking_index(
    backwards: bool, compared: str, workspace: Workspace
) -> None:
    with connection.cursor() as cursor:
        # As for large tables, where neither is worth it.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
    for order, rows, index in (
        (queries.ACCOUNT_RANKING, queries.ranked_accounts(workspace), "account_ranking"),
        (queries.USER_RANKING, queries.ranked_users(workspace), "user_ranking"),
    ):
        rows_after = order.rows_after(rows, (4, 3), backwards=backwards)
        plan = order.sort(rows_after, backwards=backwards)[:21].explain()
        assert index in plan
        assert f"ROW({', '.join(order.columns)}) {compared} ROW(4, 3)" in plan
        assert "Sort" not in plan


def test_equal_scores_are_ordered_newest_first(acme_reads: Reads, workspace: Workspace) -> None:
    for name in "abc":
        make_user(workspace, name, raw=1)
    assert names(page(acme_reads, "/v2/users", workspace_id=workspace.id)) == ["c", "b", "a"]
