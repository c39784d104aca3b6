"""Every error has the same shape, whatever the request was."""

from typing import Any
from unittest import mock
from urllib.parse import quote, urlencode

import psycopg
import pytest
from django.db import NotSupportedError, OperationalError
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from core.database import distribution
from engagement.models import Workspace
from readapi import queries
from tests.cases import each, examples, leaves_no_rows
from tests.pipeline.waiting import somebody_else
from tests.readapi.conftest import Reads, reader
from tests.readapi.rows import make_account, make_user

BAD_INTEGERS = ["", " ", "x", "-1", "+1", "1.0", "1e2", "0x10", " 1", "1 ", "1_0", "\u0661", "²",
                "1" * 20, "1" * 6000, "null", "1,2", "\u200b1"]  # fmt: skip

LISTS = ["/v2/workspaces", "/v2/accounts", "/v2/users", "/v2/segments"]
WITHIN_A_WORKSPACE = [
    *LISTS[1:],
    "/v2/accounts/1",
    "/v2/accounts/1/users",
    "/v2/users/1",
    "/v2/segments/1",
    "/v2/segments/1/members",
]


def error_of(reads: Reads, address: str, **parameters: Any) -> tuple[str, str | None]:
    response = reads(address, **parameters)
    assert response.status_code == 400, response.content
    assert response.headers["Content-Type"] == "application/json"
    error = response.json()["error"]
    assert error["message"].endswith(".")
    return error["code"], error.get("field")


@each("token", [True, False])
@each(
    ("address", "is_unknown"),
    [
        *((address, False) for address in (*WITHIN_A_WORKSPACE, "/v1/accounts")),
        ("/v2/nothing", True),
    ],
)
@leaves_no_rows
def test_no_shared_cache_keeps_an_answer(
    address: str, is_unknown: bool, token: bool, acme_reads: Reads, workspace: Workspace
) -> None:
    reads = acme_reads if token else reader("")
    for parameters in ({"workspace_id": workspace.pk}, {}):
        response = reads(address, **parameters)
        assert (response.status_code == 200) <= (token and not is_unknown)
        # An answer has an ETag, with which its client asks again. Nobody keeps an error.
        policy = "private, no-cache" if response.status_code == 200 else "no-store"
        assert response.headers["Cache-Control"] == policy
        assert "Authorization" in response.headers["Vary"]


def scope_of(address: str, workspace: Workspace) -> dict[str, int]:
    return {"workspace_id": workspace.id} if address in WITHIN_A_WORKSPACE else {}


@pytest.mark.parametrize("address", WITHIN_A_WORKSPACE)
class TestWorkspaceId:
    def test_is_required(self, address: str, acme_reads: Reads) -> None:
        expected = ("missing_workspace_id", "workspace_id")
        assert error_of(acme_reads, address) == expected
        assert error_of(acme_reads, address + "?workspace_id=") == expected

    def test_is_a_positive_integer(self, address: str, acme_reads: Reads) -> None:
        for value in [*BAD_INTEGERS[1:], "0", str(2**63)]:
            code = error_of(acme_reads, address, workspace_id=value)
            assert code == ("invalid_workspace_id", "workspace_id"), value

    def test_names_a_workspace(self, address: str, acme_reads: Reads) -> None:
        response = acme_reads(address, workspace_id=2**63 - 1)
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "not_found"


@each("address", LISTS)
@leaves_no_rows
def test_a_limit_is_from_1_to_100_or_500(
    address: str, acme_reads: Reads, workspace: Workspace
) -> None:
    largest = 500 if address in ("/v2/accounts", "/v2/users") else 100
    scope = scope_of(address, workspace)
    assert acme_reads(address, **scope, limit=largest).status_code == 200
    for value in [*BAD_INTEGERS, "0", str(largest + 1), str(2**63)]:
        code = error_of(acme_reads, address, **scope_of(address, workspace), limit=value)
        assert code == ("invalid_limit", "limit"), value


@each("address", LISTS)
@leaves_no_rows
def test_an_offset_is_from_0(address: str, acme_reads: Reads, workspace: Workspace) -> None:
    for value in [*BAD_INTEGERS, str(2**63)]:
        code = error_of(acme_reads, address, **scope_of(address, workspace), offset=value)
        assert code == ("invalid_offset", "offset"), value


def test_offset_and_cursor_are_mutually_exclusive(acme_reads: Reads, workspace: Workspace) -> None:
    code = error_of(acme_reads, "/v2/users", workspace_id=workspace.id, offset=1, cursor="A")
    assert code == ("invalid_offset", "offset")


@each(
    ("address", "allowed"),
    [
        ("/v2/workspaces", "stats"),
        ("/v2/workspaces/1", "stats"),
        ("/v2/accounts", "traits, metrics"),
        ("/v2/accounts/1", "traits"),
        ("/v2/users", "traits, metrics"),
        ("/v2/users/1", "traits"),
        ("/v2/segments/1", "does not support"),
        ("/v2/segments/1/members", "traits, metrics"),
        ("/v2/accounts/1/users", "traits, metrics"),
    ],
)
@leaves_no_rows
def test_an_unknown_expansion_returns_400(address: str, allowed: str, acme_reads: Reads) -> None:
    scope = {"workspace_id": 1} if address in WITHIN_A_WORKSPACE else {}
    for value in ("everything", "Traits", "stats,everything", "traits;stats"):
        response = acme_reads(address, **scope, expand=value)
        error = response.json()["error"]
        assert (response.status_code, error["code"], error["field"]) == (
            400, "invalid_expand", "expand",
        )  # fmt: skip
        assert allowed in error["message"], value


@each("value", ["", ",", "traits,", " traits , traits "])
@leaves_no_rows
def test_expand_is_a_forgiving_list(value: str, acme_reads: Reads, workspace: Workspace) -> None:
    user = make_user(workspace, "u-1")
    body = acme_reads(f"/v2/users/{user.id}", workspace_id=workspace.id, expand=value).json()
    assert body["_expansions"] == (["traits"] if "traits" in value else [])
    assert ("traits" in body["data"]) == ("traits" in value)


def test_traits_accepts_at_most_eight_names(acme_reads: Reads, workspace: Workspace) -> None:
    user = make_user(workspace, "u-1")
    scope = {"workspace_id": workspace.id, "expand": "traits"}
    eight = ",".join("abcdefgh")
    assert acme_reads(f"/v2/users/{user.id}", **scope, traits=eight).status_code == 200
    code = error_of(acme_reads, f"/v2/users/{user.id}", **scope, traits=eight + ",i")
    assert code == ("too_many_traits", "traits")
    code = error_of(acme_reads, f"/v2/users/{user.id}", **scope, traits="")
    assert code == ("invalid_parameter", "traits")


@each("address", ["/v2/accounts", "/v2/users"])
@each(
    ("parameters", "missing"),
    [
        ({"match_type": "name"}, "match_value"),
        ({"match_value": "Initech"}, "match_type"),
        ({"match_type": "name", "match_value": ""}, "match_value"),
        ({"match_type": "", "match_value": "Initech"}, "match_type"),
        ({"match_type": ""}, "match_type"),
    ],
)
@leaves_no_rows
def test_a_look_up_needs_both_parameters(
    parameters: dict[str, str], missing: str, address: str, acme_reads: Reads
) -> None:
    code = error_of(acme_reads, address, workspace_id=1, **parameters)
    assert code == ("missing_match_parameter", missing)


INVALID_QUERIES = [
    "workspace_id=1%00",
    "match_type=name&match_value=%00",
    "%00=1",
    "unknown=%00",
    "match_type=name&match_value=%ED%A0%80",
    "match_type=%ED%BF%BF&match_value=x",
    "match_type=name&match_value=%FF",
    "match_type=name&match_value=\xff",
    "workspace_id=1&workspace_id=1",
    "workspace_id=1&limit=1&limit=2",
    "&".join(f"p{number}=1" for number in range(101)),
]


@each("path", ["/v2/workspaces", "/v2/workspaces/1", "/v2/users", "/v2/users/1"])
@leaves_no_rows
def test_a_query_string_is_utf_8_without_nul_and_repetitions(path: str, acme_token: str) -> None:
    client = Client(headers={"authorization": f"Bearer {acme_token}"})
    for query in INVALID_QUERIES:
        response = client.get(path, QUERY_STRING=query)
        assert response.status_code == 400, query
        assert response.json()["error"]["code"] == "invalid_parameter", query


UNKNOWN_IDS = [
    "0",
    "-1",
    "x",
    "1.0",
    str(2**63),
    "9" * 6000,
    "\u0661",
    "%00",
    "%0A",
    "1/",
    "1%0A",
    "%FF",
    "",
]


@each("resource", ["workspaces", "accounts", "users", "segments"])
@leaves_no_rows
def test_a_path_with_an_unknown_id_returns_404(
    resource: str, acme_reads: Reads, workspace: Workspace
) -> None:
    scope = "" if resource == "workspaces" else f"?workspace_id={workspace.id}"
    for unknown in UNKNOWN_IDS:
        response = acme_reads(f"/v2/{resource}/{unknown}{scope}")
        assert response.status_code == 404, unknown
        assert response.json()["error"]["code"] == "not_found", unknown


UNKNOWN_PATHS = [
    "/v2", "/v1", "/v2/", "/v1/", "/v2/nothing", "/v1/nothing", "/v2/users/", "/v2/a%0Ab",
    "/v2/" + "a/" * 500, "/v2/%00", "/v1/%F0%9F%8E%89",
]  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("method", ["get", "post", "put", "delete", "head", "options"])
def test_an_unknown_path_returns_404_in_json(method: str, client: Client) -> None:
    for path in UNKNOWN_PATHS:
        response = getattr(client, method)(path, headers={"accept": "text/html"})
        assert response.status_code == 404, path
        assert response.headers["Content-Type"] == "application/json", path
        if method != "head":
            assert response.json()["error"]["code"] == "not_found", path


READ_PATHS = ["/v2/workspaces", "/v2/workspaces/1", *WITHIN_A_WORKSPACE, "/v1/accounts"]


@each("method", ["post", "put", "patch", "delete", "trace"])
@leaves_no_rows
def test_the_read_api_only_reads(method: str, acme_token: str) -> None:
    client = Client(headers={"authorization": f"Bearer {acme_token}"})
    for path in READ_PATHS:
        response = getattr(client, method)(path)
        assert response.status_code == 405, path
        assert response.json()["error"]["code"] == "method_not_allowed", path
        assert "GET" in response.headers["Allow"], path


def test_head_and_options_work(acme_token: str) -> None:
    client = Client(headers={"authorization": f"Bearer {acme_token}"})
    head = client.head("/v2/workspaces")
    assert (head.status_code, head.content) == (200, b"")
    options = client.options("/v2/workspaces")
    assert options.status_code == 200 and options.headers["Allow"] == "GET, HEAD, OPTIONS"


@each("accept", ["text/html", "application/xml", "nonsense", "*/*;q=0", ""])
@leaves_no_rows
def test_the_response_is_json_whatever_the_accept_header_says(accept: str, acme_token: str) -> None:
    headers = {"authorization": f"Bearer {acme_token}", "accept": accept}
    for path in ("/v2/workspaces", "/v2/workspaces?format=xml", "/v2/users"):
        response = Client().get(path, headers=headers)
        assert response.headers["Content-Type"] == "application/json"


def test_an_unknown_host_returns_400_in_json(acme_token: str) -> None:
    headers = {"authorization": f"Bearer {acme_token}", "host": "evil.example"}
    response = Client().get("/v2/workspaces", headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_request"


def test_no_other_origin_is_allowed(acme_token: str) -> None:
    headers = {"authorization": f"Bearer {acme_token}", "origin": "https://evil.example"}
    response = Client().get("/v2/workspaces", headers=headers)
    assert not [name for name in response.headers if name.startswith("Access-Control")]


@pytest.mark.django_db(transaction=True)
def test_a_read_that_fails_while_the_tables_are_distributed_can_be_repeated(
    acme_reads: Reads, workspace: Workspace
) -> None:
    failure = NotSupportedError("direct joins between distributed and local tables")
    with mock.patch.object(queries, "workspace", side_effect=failure):
        before = acme_reads("/v2/users", workspace_id=workspace.pk)
        with somebody_else() as distributing:
            distributing.execute(f"SELECT pg_advisory_lock({distribution.DISTRIBUTING}, 0)")
            meanwhile = acme_reads("/v2/users", workspace_id=workspace.pk)
        with mock.patch.multiple(
            distribution, was_distributed=lambda: False, is_distributed=lambda: True
        ):
            just_after = acme_reads("/v2/users", workspace_id=workspace.pk)
    assert before.status_code == 500
    for response in (meanwhile, just_after):
        assert (response.status_code, response["Retry-After"]) == (503, "5")


def test_an_internal_error_returns_json_and_is_logged_without_the_query(
    acme_reads: Reads, workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    with mock.patch.object(queries, "workspace", side_effect=RuntimeError("broken")):
        response = acme_reads(
            "/v2/users", workspace_id=1, match_type="email", match_value="milton@initech.example"
        )
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "internal_error"
    [record] = [record for record in caplog.records if record.name == "readapi.errors"]
    assert record.exc_info is not None and "milton" not in record.getMessage()


def database_error(cause: Exception) -> OperationalError:
    error = OperationalError("could not")
    error.__cause__ = cause
    return error


@each(
    ("cause", "status"),
    [
        (psycopg.OperationalError("connection is_unknown"), 503),
        (psycopg.errors.AdminShutdown("terminating connection"), 503),
        (psycopg.errors.TooManyConnections("too many clients"), 503),
        (psycopg.errors.StatementTooComplex("stack depth"), 500),
    ],
)
@leaves_no_rows
def test_an_unreachable_database_returns_503(
    cause: Exception, status: int, acme_reads: Reads
) -> None:
    with mock.patch.object(queries, "workspace", side_effect=database_error(cause)):
        response = acme_reads("/v2/users", workspace_id=1)
    assert response.status_code == status
    assert ("Retry-After" in response.headers) == (status == 503)


NAMES = st.sampled_from(
    ["workspace_id", "limit", "offset", "cursor", "expand", "traits", "match_type", "match_value",
     "sort", "min_score", "insight", "trait", "segment_id", "total", "domain", "email", "name",
     "tracking_id"]
)  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=30),
    st.integers().map(str),
    st.sampled_from(
        ["email", "domain", "tracking_id", "name", "am.tier", "traits", "stats", "1e5", "true",
         "1e308", "1e400", "-0", "plan:pro", ":", "99.9", "score",
         '{"a":1}', "\\u0000", "%", "'", '"', "\\", "\ufffd", "\udfff"]
    ),
)  # fmt: skip
PAIRS = st.lists(st.tuples(NAMES, TEXTS), max_size=5)
QUERIES = st.one_of(
    PAIRS.map(lambda pairs: urlencode(pairs, errors="surrogatepass")),
    st.binary(max_size=60).map(quote),
    st.text(st.characters(max_codepoint=255), max_size=60),
)


@examples(20)
@given(query=QUERIES, with_workspace=st.booleans(), pick=st.integers(0, 5))
def test_no_query_string_breaks_the_service(
    query: str,
    with_workspace: bool,
    pick: int,
    acme_token: str,
    urls: list[str],
    workspace: Workspace,
) -> None:
    if with_workspace:
        query = f"workspace_id={workspace.id}&{query}"
    response = Client().get(
        urls[pick], headers={"authorization": f"Bearer {acme_token}"}, QUERY_STRING=query
    )
    assert response.status_code in {200, 400, 404}, (urls[pick], query)
    assert ("error" in response.json()) == (response.status_code != 200)


@pytest.fixture
def urls(workspace: Workspace) -> list[str]:
    account = make_account(workspace, "initech", 3, traits={"name": "Initech", "n": 1e5})
    user = make_user(workspace, "u-1", 3, traits={"email": "a@b.example", "t": True})
    return [
        "/v2/workspaces",
        f"/v2/workspaces/{workspace.id}",
        "/v2/accounts",
        f"/v2/accounts/{account.id}",
        "/v2/users",
        f"/v2/users/{user.id}",
    ]
