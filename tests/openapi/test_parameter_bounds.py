"""What the description says about the values of a parameter is what the read API accepts."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.test import Client

from engagement.models import Workspace
from tests.openapi.test_documented_answers import READING, label, url_of
from tests.openapi.walking import Operation
from tests.readapi.scored import fill

Json = dict[str, Any]

# Only the segment says whether its members are users or accounts, and each has columns of its own.
# The oldest endpoint says that there is no account 0. The first segment may be one of users.
EXCEPTIONS = {
    ("/v2/segments/{segment_id}/members", "sort"),
    ("/v1/accounts", "id"),
    ("/v2/accounts", "segment_id"),
}
# What must be asked for beside a parameter.
BESIDE = {"license_event_days": {"license_event": "churned"}}


@pytest.fixture
def filled(acme: Any, settings: Any) -> Workspace:
    settings.READ_REQUESTS_PER_MINUTE = 0
    return fill(acme)


def accepted_values(schema: Json) -> Iterator[object]:
    """The values at the edges of what the schema allows."""
    yield from schema.get("enum", [])
    if schema["type"] == "boolean":
        yield from ("true", "false")
    yield from (schema[edge] for edge in ("minimum", "maximum") if edge in schema)


def refused_values(schema: Json) -> Iterator[object]:
    """Values just beyond those edges, and none of the type."""
    if "enum" in schema or schema["type"] in ("boolean", "integer", "number"):
        yield "x"
    if "minimum" in schema:
        yield schema["minimum"] - 1
    if "maximum" in schema:
        yield schema["maximum"] + 1


def with_value(url: str, name: str, value: object) -> str:
    """The URL with this value in place of its own."""
    query = {key: values[0] for key, values in parse_qs(urlsplit(url).query).items()}
    query |= BESIDE.get(name, {})
    return f"{urlsplit(url).path}?{urlencode(query | {name: value})}"


@pytest.mark.parametrize("operation", READING, ids=label)
def test_the_edges_of_each_parameter_are_those_of_its_schema(
    operation: Operation, filled: Workspace, acme_token: str
) -> None:
    client = Client(headers={"authorization": f"Bearer {acme_token}"})
    url = url_of(operation, filled)
    for parameter in operation.spec["parameters"]:
        name, schema = parameter["name"], parameter["schema"]
        if parameter["in"] != "query" or (operation.path, name) in EXCEPTIONS:
            continue
        for value in accepted_values(schema):
            assert client.get(with_value(url, name, value)).status_code != 400, (name, value)
        for value in refused_values(schema):
            response = client.get(with_value(url, name, value))
            assert response.status_code == 400, (name, value)
            assert response.json()["error"]["field"] == name, (name, value)
