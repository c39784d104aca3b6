"""The pieces that operations are described with, as OpenAPI 3.1 spells them."""

from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

JSON = "application/json"
RETRY_AFTER: Json = {
    "Retry-After": {
        "description": "Whole seconds to wait.",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    }
}


def query(name: str, schema: Json, description: str, **more: Any) -> Json:
    """A query parameter."""
    return {"in": "query", "name": name, "schema": schema, "description": description, **more}


def list_query(name: str, items: Json, description: str, **more: Any) -> Json:
    """A query parameter with several values between commas, or given several times."""
    schema = {"type": "array", "items": items, **more}
    description += " Separate several with commas, or repeat the parameter."
    return query(name, schema, description, style="form", explode=False)


def json_response(
    schema: Json, description: str, examples: Json, headers: Json | None = None
) -> Json:
    """An answer with a JSON body; *examples* are bodies by their names."""
    content = {JSON: {"schema": schema, "examples": named_examples(examples)}}
    found: Json = {"description": description, "content": content}
    return found | ({"headers": headers} if headers else {})


def error_response(
    description: str,
    code: str,
    message: str,
    field: str | None = None,
    *,
    headers: Json | None = None,
    schema: str = "Refusal",
) -> Json:
    """An error, with one that happens as its example."""
    error = {"code": code, "message": message} | ({"field": field} if field else {})
    body: Json = {"error": error}
    if schema == "SegmentRefusal":
        body |= {"code": code, "message": message}
    return json_response(reference(schema), description, {code: body}, headers)


def reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def named_examples(examples: Json) -> Json:
    """The examples as a media type holds them."""
    return {name: {"value": value} for name, value in examples.items()}
