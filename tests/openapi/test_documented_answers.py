"""Each documented response occurs and matches its schema."""

from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import msgspec
import psycopg
import pytest
from django.db import OperationalError
from django.test import Client

from config.openapi import assembly
from core import credentials
from core.rate_limits import RateLimit
from engagement.models import Product, Workspace
from engagement.removal import forgetting
from engagement.rules import license_events
from ingestion import forget_requests, validation, views
from ingestion.doors import bodies
from ingestion.inbox import group_commit
from ingestion.models import ForgetKey
from readapi import queries, throttling
from readapi.models import ApiToken
from tests.openapi.conftest import Shapes
from tests.openapi.walking import Operation, is_about_hooks, is_settings, media, operations
from tests.readapi.scored import account_id, fill, user_id

DESCRIPTION = msgspec.json.decode(assembly.render_schema())
SETTINGS = [operation for operation in operations(DESCRIPTION) if is_settings(operation)]
HOOKS = [operation for operation in operations(DESCRIPTION) if is_about_hooks(operation)]
READING = [
    operation
    for operation in operations(DESCRIPTION)
    if operation.method == "get" and operation not in SETTINGS + HOOKS
]
POSTING = [
    operation
    for operation in operations(DESCRIPTION)
    if operation.method == "post" and operation not in HOOKS
]
VALIDATING = [operation for operation in POSTING if operation.path.startswith("/v2/validate")]
FORGETTING = [operation for operation in POSTING if operation.path == "/v2/forget"]
SENDING = [each for each in POSTING if each not in VALIDATING and each not in FORGETTING]


def label(operation: Operation) -> str:
    return operation.path


class Exchange(NamedTuple):
    """A response and the status that it should have."""

    status: str
    response: Any


def check(operation: Operation, exchanges: list[Exchange], shapes: Shapes) -> None:
    # The server rejects long URLs before Django sees them: tests/start/test_long_addresses.py.
    responses = operation.spec["responses"].copy()
    responses.pop("414", None)
    assert {exchange.status for exchange in exchanges} == responses.keys()
    for status, response in exchanges:
        assert str(response.status_code) == status, response.content
        assert responses[status].get("headers", {}).keys() <= response.headers.keys()
        if body := media(responses[status]):
            assert response.headers["Content-Type"] == "application/json"
            assert shapes.faults(body["schema"], response.json()) == []
        else:
            assert response.content == b"" and "Content-Type" not in response.headers


# --- Reading --------------------------------------------------------------------------------


@pytest.fixture
def filled(acme: Any) -> Workspace:
    return fill(acme)


def url_of(operation: Operation, filled: Workspace, *, unknown: bool = False) -> str:
    """The operation's URL with all expansions, in the workspace or in an unknown one."""
    missing = 999_999_999 if unknown else 0
    path = operation.path.format(
        workspace_id=missing or filled.pk,
        account_id=missing or account_id(filled.product, "initech"),
        user_id=missing or user_id(filled.product, "ann"),
        segment_id=missing or filled.segments.all()[0].pk,
    )
    parameters = {
        parameter["name"]: parameter
        for parameter in operation.spec["parameters"]
        if parameter["in"] == "query"
    }
    query: dict[str, Any] = {}
    if "workspace_id" in parameters:
        query["workspace_id"] = missing or filled.pk
    if "expand" in parameters:
        query["expand"] = ",".join(parameters["expand"]["schema"]["items"]["enum"])
    if "id" in parameters:
        query["id"] = missing or account_id(filled.product, "initech")
    return path + "?" + "&".join(f"{name}={value}" for name, value in query.items())


@pytest.mark.parametrize("operation", READING, ids=label)
def test_reading(
    operation: Operation,
    filled: Workspace,
    acme_token: str,
    shapes: Shapes,
    settings: Any,
) -> None:
    client = Client(headers={"authorization": f"Bearer {acme_token}"})
    reads_nothing = ApiToken.create(filled.product, "none", reads=ApiToken.Reads.NOTHING)
    powerless = Client(headers={"authorization": f"Bearer {reads_nothing.secret}"})
    url = url_of(operation, filled)
    success = client.get(url)
    expanded = parse_qs(urlsplit(url).query).get("expand", [""])
    assert [",".join(success.json()["_expansions"])] == expanded
    exchanges = [
        Exchange("200", success),
        Exchange("400", client.get(f"{url}&x=%00")),
        Exchange("401", Client().get(url)),
        Exchange("403", powerless.get(url)),
        Exchange("503", while_unreachable(lambda: client.get(url))),
    ]
    if "404" in operation.spec["responses"]:
        exchanges.append(Exchange("404", client.get(url_of(operation, filled, unknown=True))))
    settings.READ_REQUESTS_PER_MINUTE = 1
    exchanges.append(Exchange("429", client.get(url)))
    check(operation, exchanges, shapes)


def while_unreachable(send: Callable[[], Any]) -> Any:
    """The response while the database is unreachable."""
    error = OperationalError("the connection is closed")
    error.__cause__ = psycopg.OperationalError("the connection is closed")
    with (
        mock.patch.object(queries, "workspaces", side_effect=error),
        mock.patch.object(license_events, "events_of", side_effect=error),
        mock.patch.object(throttling, "count_request", side_effect=error),
    ):
        return send()


# --- Hooks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", HOOKS, ids=lambda each: f"{each.method} {each.path}")
def test_hooks(
    operation: Operation, acme: Product, acme_token: str, shapes: Shapes, settings: Any
) -> None:
    # What there is here, and an address that no name server has to say.
    workspace = Workspace.objects.get(product=acme)
    here = {"workspace_id": workspace.pk, "target_url": "https://93.184.216.34/"}
    token = ApiToken.create(acme, "Zapier", manages_hooks=True)
    url = operation.path.format(hook_id=1)
    bodies = [b""]
    if body := media(operation.spec.get("requestBody", {})):
        samples = [example["value"] for example in body["examples"].values()]
        bodies = [msgspec.json.encode(each | here) for each in samples]

    def send(secret: str = token.secret, body: bytes = bodies[0], query: str = "") -> Any:
        client = Client(headers={"authorization": f"Bearer {secret}"})
        address = f"{url}?{query or 'event=score.crossed' * url.endswith('samples')}"
        return client.generic(operation.method, address, body, "application/json")

    success_status = min(operation.spec["responses"])
    exchanges = [Exchange(success_status, send(body=body)) for body in bodies]
    exchanges += [
        Exchange("400", send(query="x=%00")),
        Exchange("401", send("eds_x")),
        Exchange("403", send(acme_token)),
        Exchange("503", while_unreachable(send)),
    ]
    if "413" in operation.spec["responses"]:
        too_large = b" " * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)
        exchanges.append(Exchange("413", send(body=too_large)))
    settings.READ_REQUESTS_PER_MINUTE = 1
    exchanges.append(Exchange("429", send()))
    check(operation, exchanges, shapes)


# --- Sending --------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", SENDING, ids=label)
def test_sending(
    operation: Operation, client: Client, shapes: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    key: Any = {"HTTP_AUTHORIZATION": "Basic edk_some_key"}

    def post(body: bytes, **headers: Any) -> Any:
        return client.generic("POST", operation.path, body, "application/json", **key, **headers)

    monkeypatch.setattr(group_commit, "accept", lambda *_: None)
    examples = media(operation.spec["requestBody"])["examples"]
    samples = [msgspec.json.encode(example["value"]) for example in examples.values()]
    success_status = min(operation.spec["responses"])
    exchanges = [Exchange(success_status, post(body)) for body in samples]
    exchanges += [
        Exchange("400", post(b"[")),
        Exchange("413", post(b" " * (bodies.MAX_BATCH_BODY_BYTES + 1))),
        Exchange("415", post(samples[0], HTTP_CONTENT_ENCODING="br")),
    ]
    monkeypatch.setattr(
        group_commit, "accept", mock.Mock(side_effect=group_commit.InboxUnavailable(5))
    )
    exchanges.append(Exchange("503", post(samples[0])))
    check(operation, exchanges, shapes)


@pytest.mark.parametrize("operation", VALIDATING, ids=label)
def test_validating(
    operation: Operation,
    client: Client,
    acme: Product,
    acme_key: str,
    shapes: Shapes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key: Any = {"HTTP_AUTHORIZATION": f"Basic {acme_key}"}
    powerless = ApiToken.create(acme, "none", reads=ApiToken.Reads.NOTHING)

    def post(body: bytes) -> Any:
        return client.generic("POST", operation.path, body, "application/json", **key)

    monkeypatch.setattr(views, "_per_key", RateLimit(1_000))
    monkeypatch.setattr(views, "_per_address", RateLimit(1_000))
    examples = media(operation.spec["requestBody"])["examples"]
    samples = [msgspec.json.encode(example["value"]) for example in examples.values()]
    exchanges = [Exchange("200", post(body)) for body in (*samples, b"[")]
    for token, status in (("eds_x", "401"), (powerless.secret, "403")):
        headers: Any = {"HTTP_AUTHORIZATION": f"Bearer {token}"}
        exchanges.append(Exchange(status, client.post(operation.path, **headers)))
    with mock.patch.object(validation, "key_problem", side_effect=OperationalError("closed")):
        exchanges.append(Exchange("503", post(samples[0])))
    limit = RateLimit(1)
    limit.wait(credentials.digest(acme_key))
    monkeypatch.setattr(views, "_per_key", limit)
    exchanges.append(Exchange("429", post(samples[0])))
    check(operation, exchanges, shapes)


@pytest.mark.parametrize("operation", SETTINGS, ids=label)
def test_settings(operation: Operation, client: Client, shapes: Shapes) -> None:
    url = operation.path.format(key="edk_some_key")
    exchanges = [Exchange("200", client.get(url))]
    if "400" in operation.spec["responses"]:
        exchanges.append(Exchange("400", client.get(url, HTTP_HOST="other.example.com")))
    if "405" in operation.spec["responses"]:
        exchanges.append(Exchange("405", client.put(url)))
    check(operation, exchanges, shapes)


@pytest.mark.parametrize("operation", FORGETTING, ids=label)
@pytest.mark.django_db(transaction=True)
def test_forgetting(
    operation: Operation,
    client: Client,
    acme: Product,
    shapes: Shapes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forget_requests, "_per_key", RateLimit(5, lambda: 0.0))
    key: Any = {"HTTP_AUTHORIZATION": f"Bearer {ForgetKey.create(acme, 'erasure').secret}"}

    def post(body: bytes, **headers: Any) -> Any:
        return client.generic("POST", operation.path, body, "application/json", **headers)

    examples = media(operation.spec["requestBody"])["examples"].values()
    [sample] = [msgspec.json.encode(example["value"]) for example in examples]
    exchanges = [
        Exchange("200", post(sample, **key)),
        Exchange("400", post(b"{}", **key)),
        Exchange("401", post(sample)),
        Exchange("413", post(b" " * (bodies.MAX_SINGLE_BODY_BYTES + 1), **key)),
        Exchange("415", post(sample, HTTP_CONTENT_ENCODING="br", **key)),
    ]
    with mock.patch.object(forgetting, "forget", side_effect=OperationalError):
        exchanges.append(Exchange("503", post(sample, **key)))
    exchanges.append(Exchange("429", post(sample, **key)))
    check(operation, exchanges, shapes)
