"""The description is complete, valid, and shows an example of everything."""

import re
from typing import Any

from django.core.management import call_command
from django.test import Client
from django.urls import URLPattern, get_resolver
from drf_spectacular.validation import validate_schema

from readapi.views import UnknownPathView
from tests.openapi.conftest import Shapes
from tests.openapi.walking import media, operations


def test_it_is_valid_openapi(described: dict[str, Any]) -> None:
    validate_schema(described)  # type: ignore[no-untyped-call]  # the library says no types here
    assert described["openapi"] == "3.1.0"


def test_whoever_asks_gets_it(client: Client, described: dict[str, Any]) -> None:
    response = client.get("/openapi.json")
    assert response.headers["Content-Type"] == "application/json"
    assert response.json() == described
    assert client.post("/openapi.json").status_code == 405


def test_every_address_of_the_apis_is_described(described: dict[str, Any]) -> None:
    """Each described path leads to a view, and each view of the APIs is described."""
    views = set()
    for path in described["paths"]:
        match = get_resolver().resolve(re.sub(r"\{\w+\}", "1", path))
        views.add(match.func)
    known = {
        pattern.callback
        for pattern in get_resolver().url_patterns
        if isinstance(pattern, URLPattern)
        and getattr(pattern.callback, "cls", UnknownPathView) is not UnknownPathView
    }
    assert views == known


def test_each_alias_of_the_segment_doors_is_described(described: dict[str, Any]) -> None:
    for path in ("batch", "import", "b", "identify", "i", "track", "t", "page", "p"):
        assert f"/segment/v1/{path}" in described["paths"]


def test_operations_have_names_of_their_own(described: dict[str, Any]) -> None:
    names = [said["operationId"] for _, _, said in operations(described)]
    assert len(names) == len(set(names))
    tags = {tag["name"] for tag in described["tags"]}
    assert {tag for _, _, said in operations(described) for tag in said["tags"]} == tags


def test_version_1_is_legacy_and_nothing_else(described: dict[str, Any]) -> None:
    for _, path, said in operations(described):
        assert said.get("deprecated", False) == path.startswith("/v1/"), path


def test_reading_takes_a_token_and_sending_a_key(described: dict[str, Any]) -> None:
    for method, path, said in operations(described):
        if method == "get":
            assert said["security"] == [{"readToken": []}], path
        elif path.startswith("/v1/"):
            assert said["security"] == [], path
        else:
            assert {"ingestionKey": []} in said["security"], path
    assert described["components"]["securitySchemes"].keys() == {"readToken", "ingestionKey"}


def test_no_component_is_missing_or_left_over(described: dict[str, Any]) -> None:
    used = set(re.findall(r"#/components/schemas/(\w+)", str(described)))
    assert used == described["components"]["schemas"].keys()


def test_each_example_is_what_its_schema_says(described: dict[str, Any], shapes: Shapes) -> None:
    for method, path, said in operations(described):
        bodies = [*said["responses"].values(), *([said["requestBody"]] if method == "post" else [])]
        for body in filter(None, map(media, bodies)):
            assert body["examples"], path
            for name, example in body["examples"].items():
                # Senders may say more than is understood, and the example of an alias does.
                if "previousId" not in example["value"]:
                    assert shapes.faults(body["schema"], example["value"]) == [], (path, name)


def test_the_same_file_can_be_written_by_a_command(tmp_path: Any) -> None:
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", tmp_path / "api.yaml")
    assert "/v2/accounts" in (tmp_path / "api.yaml").read_text()
