"""Helpers that traverse an OpenAPI description."""

from collections.abc import Iterator
from typing import Any, NamedTuple


class Operation(NamedTuple):
    method: str
    path: str
    spec: dict[str, Any]


def operations(described: dict[str, Any]) -> Iterator[Operation]:
    for path, item in described["paths"].items():
        for method, spec in item.items():
            yield Operation(method, path, spec)


def is_settings(operation: Operation) -> bool:
    """Whether SDKs load their settings with it. Other GET operations read data."""
    return operation.method == "get" and operation.spec["tags"] == ["Segment-compatible"]


def is_about_hooks(operation: Operation) -> bool:
    """Whether it takes tokens that manage hooks, and no other ones."""
    return bool(operation.spec["tags"] == ["Hooks"])


def forbid_extra_keys(schema: Any) -> Any:
    """The schema without extra keys in its objects."""
    if isinstance(schema, list):
        return [forbid_extra_keys(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {name: forbid_extra_keys(value) for name, value in schema.items()}
    if isinstance(strict.get("properties"), dict) and strict.get("type") == "object":
        strict.setdefault("additionalProperties", False)
    return strict


def media(spec: dict[str, Any]) -> dict[str, Any]:
    """The JSON media type of a request body or a response, or an empty dict."""
    media_type: dict[str, Any] = spec.get("content", {}).get("application/json", {})
    return media_type
