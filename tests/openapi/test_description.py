"""The OpenAPI description is complete and valid, and has an example of everything."""

import re
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import URLPattern, get_resolver
from drf_spectacular.validation import validate_schema

from notifications.triggers import TRIGGERS
from readapi.mcp.views import McpView
from readapi.views import UnknownPathView
from tests.openapi.conftest import Shapes
from tests.openapi.walking import is_settings, media, operations


def test_it_is_valid_openapi(described: dict[str, Any]) -> None:
    validate_schema(described)  # type: ignore[no-untyped-call]  # the library is not typed here
    assert described["openapi"] == "3.1.0"


def test_it_is_public(client: Client, described: dict[str, Any]) -> None:
    response = client.get("/openapi.json")
    assert response.headers["Content-Type"] == "application/json"
    assert response.json() == described
    assert client.post("/openapi.json").status_code == 405


def test_every_endpoint_is_described(described: dict[str, Any]) -> None:
    """Each described path leads to a view, and each view is described."""
    views = set()
    for path in described["paths"]:
        match = get_resolver().resolve(re.sub(r"\{\w+\}", "1", path))
        views.add(match.func)
    api_views = {
        pattern.callback
        for pattern in get_resolver().url_patterns
        if isinstance(pattern, URLPattern)
        and getattr(pattern.callback, "cls", UnknownPathView) not in (UnknownPathView, McpView)
    }
    assert views == api_views


def test_each_alias_of_the_segment_endpoints_is_described(described: dict[str, Any]) -> None:
    for path in ("batch", "import", "b", "identify", "i", "track", "t", "page", "p"):
        assert f"/segment/v1/{path}" in described["paths"]


def test_operation_ids_are_unique(described: dict[str, Any]) -> None:
    specs = [spec for _, _, spec in operations(described)]
    webhooks = [webhook["post"] for webhook in described["webhooks"].values()]
    names = [spec["operationId"] for spec in [*specs, *webhooks]]
    assert len(names) == len(set(names))
    tags = {tag["name"] for tag in described["tags"]}
    assert {tag for spec in specs for tag in spec["tags"]} == tags


def test_no_parameter_has_a_default(described: dict[str, Any]) -> None:
    """Generated clients would send it with every request."""
    for _, path, spec in operations(described):
        for parameter in spec.get("parameters", ()):
            assert "default" not in parameter["schema"], (path, parameter)


def test_version_1_is_legacy_and_nothing_else(described: dict[str, Any]) -> None:
    for _, path, spec in operations(described):
        assert spec.get("deprecated", False) == path.startswith("/v1/"), path


def test_reading_needs_a_token_and_sending_a_key(described: dict[str, Any]) -> None:
    for operation in operations(described):
        method, path, spec = operation
        if is_settings(operation):
            assert spec["security"] == [], path
        elif path.startswith("/v2/hooks"):
            assert spec["security"] == [{"hookToken": []}], path
        elif method == "get":
            assert spec["security"] == [{"readToken": []}], path
        elif path.startswith("/v1/"):
            assert spec["security"] == [], path
        elif path == "/v2/forget":
            assert spec["security"] == [{"forgetKey": []}]
        else:
            assert {"ingestionKey": []} in spec["security"], path
    schemes = described["components"]["securitySchemes"].keys()
    assert schemes == {"readToken", "ingestionKey", "forgetKey", "hookToken"}


def test_no_component_is_missing_or_unused(described: dict[str, Any]) -> None:
    references = set(re.findall(r"#/components/schemas/(\w+)", str(described)))
    assert references == described["components"]["schemas"].keys()


def test_each_example_is_valid(described: dict[str, Any], shapes: Shapes) -> None:
    for method, path, spec in operations(described):
        bodies = [*spec["responses"].values(), *([spec["requestBody"]] if method == "post" else [])]
        for body in filter(None, map(media, bodies)):
            assert body["examples"], path
            for name, example in body["examples"].items():
                assert shapes.faults(body["schema"], example["value"]) == [], (path, name)


def test_each_message_of_each_trigger_is_a_webhook_with_examples(
    described: dict[str, Any], shapes: Shapes
) -> None:
    """tests/notifications compares each message that it provokes with these schemas."""
    types = {info.type for info in TRIGGERS.values()}
    types |= {f"{info.type}.summary" for info in TRIGGERS.values() if not info.is_about_product}
    assert described["webhooks"].keys() == types | {"destination.test"}
    ending = {info.type for info in TRIGGERS.values() if info.ends}
    for type, webhook in described["webhooks"].items():
        body = media(webhook["post"]["requestBody"])
        for example in body["examples"].values():
            assert shapes.faults(body["schema"], example["value"]) == []
            assert example["value"]["type"] == type
        assert ("ended" in body["examples"]) == (type in ending)


@pytest.mark.slow
@pytest.mark.whole
def test_a_command_writes_the_same_file(tmp_path: Any) -> None:
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", tmp_path / "api.yaml")
    assert "/v2/accounts" in (tmp_path / "api.yaml").read_text()
