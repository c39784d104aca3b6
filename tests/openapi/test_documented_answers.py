"""Each answer that the description names can be had, and has the shape that it says."""

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
from engagement.models import Workspace
from ingestion.inbox import group_commit
from readapi import queries
from tests.openapi.conftest import Shapes
from tests.openapi.walking import Operation, media, operations
from tests.readapi.scored import account_id, fill, user_id

DESCRIBED = msgspec.json.decode(assembly.render_schema())
READING = [operation for operation in operations(DESCRIBED) if operation.method == "get"]
SENDING = [operation for operation in operations(DESCRIBED) if operation.method == "post"]


def label(operation: Operation) -> str:
    return operation.path


class Asked(NamedTuple):
    """A request that should be answered with the status."""

    status: str
    response: Any


def check(operation: Operation, answers: list[Asked], shapes: Shapes) -> None:
    # The server before Django refuses what is too long: tests/start/test_long_addresses.py.
    said = operation.said["responses"].copy()
    said.pop("414", None)
    assert {asked.status for asked in answers} == said.keys()
    for status, response in answers:
        assert str(response.status_code) == status, response.content
        assert said[status].get("headers", {}).keys() <= response.headers.keys()
        if body := media(said[status]):
            assert response.headers["Content-Type"] == "application/json"
            assert shapes.faults(body["schema"], response.json()) == []
        else:
            assert response.content == b"" and "Content-Type" not in response.headers


# --- Reading --------------------------------------------------------------------------------


@pytest.fixture
def filled(acme: Any) -> Workspace:
    return fill(acme)


def address(operation: Operation, filled: Workspace, *, unknown: bool = False) -> str:
    """The operation's address with all that can be expanded, in the workspace or in none."""
    missing = 999_999_999 if unknown else 0
    path = operation.path.format(
        workspace_id=missing or filled.pk,
        account_id=missing or account_id(filled.product, "initech"),
        user_id=missing or user_id(filled.product, "ann"),
        segment_id=missing or filled.segments.all()[0].pk,
    )
    asks = {ask["name"]: ask for ask in operation.said["parameters"] if ask["in"] == "query"}
    given: dict[str, Any] = {}
    if "workspace_id" in asks:
        given["workspace_id"] = missing or filled.pk
    if "expand" in asks:
        given["expand"] = ",".join(asks["expand"]["schema"]["items"]["enum"])
    if "id" in asks:
        given["id"] = missing or account_id(filled.product, "initech")
    return path + "?" + "&".join(f"{name}={value}" for name, value in given.items())


@pytest.mark.parametrize("operation", READING, ids=label)
def test_of_reading(
    operation: Operation,
    filled: Workspace,
    acme_token: str,
    shapes: Shapes,
    settings: Any,
) -> None:
    client = Client(headers={"authorization": f"Bearer {acme_token}"})
    there = address(operation, filled)
    found = client.get(there)
    expanded = parse_qs(urlsplit(there).query).get("expand", [""])
    assert [",".join(found.json()["_expansions"])] == expanded
    answers = [
        Asked("200", found),
        Asked("400", client.get(f"{there}&x=%00")),
        Asked("401", Client().get(there)),
        Asked("503", away(lambda: client.get(there))),
    ]
    if "404" in operation.said["responses"]:
        answers.append(Asked("404", client.get(address(operation, filled, unknown=True))))
    settings.READ_REQUESTS_PER_MINUTE = 1
    answers.append(Asked("429", client.get(there)))
    check(operation, answers, shapes)


def away(ask: Callable[[], Any]) -> Any:
    """What is answered while the database is away."""
    error = OperationalError("the connection is closed")
    error.__cause__ = psycopg.OperationalError("the connection is closed")
    with mock.patch.object(queries, "workspaces", side_effect=error):
        return ask()


# --- Sending --------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", SENDING, ids=label)
def test_of_sending(
    operation: Operation, client: Client, shapes: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    key: Any = {"HTTP_AUTHORIZATION": "Basic edk_some_key"}

    def post(body: bytes, **headers: Any) -> Any:
        return client.generic("POST", operation.path, body, "application/json", **key, **headers)

    monkeypatch.setattr(group_commit, "accept", lambda *_: None)
    examples = media(operation.said["requestBody"])["examples"]
    bodies = [msgspec.json.encode(example["value"]) for example in examples.values()]
    success = min(operation.said["responses"])
    answers = [Asked(success, post(body)) for body in bodies]
    answers += [
        Asked("400", post(b"[")),
        Asked("413", post(b" " * (2**20 + 1))),
        Asked("415", post(bodies[0], HTTP_CONTENT_ENCODING="br")),
    ]
    monkeypatch.setattr(
        group_commit, "accept", mock.Mock(side_effect=group_commit.InboxUnavailable(5))
    )
    answers.append(Asked("503", post(bodies[0])))
    check(operation, answers, shapes)
