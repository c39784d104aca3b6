"""Ways through a description."""

from collections.abc import Iterator
from typing import Any, NamedTuple


class Operation(NamedTuple):
    method: str
    path: str
    said: dict[str, Any]


def operations(described: dict[str, Any]) -> Iterator[Operation]:
    for path, item in described["paths"].items():
        for method, said in item.items():
            yield Operation(method, path, said)


def closed(schema: Any) -> Any:
    """The schema with no room for keys that it does not name."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(value) for name, value in schema.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def media(said: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a request's body or of an answer; empty where there is none."""
    found: dict[str, Any] = said.get("content", {}).get("application/json", {})
    return found
