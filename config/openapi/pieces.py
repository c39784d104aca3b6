"""Building blocks of operations, as OpenAPI 3.1 spells them."""

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
WWW_AUTHENTICATE: Json = {
    "WWW-Authenticate": {
        "description": "The authentication scheme.",
        "required": True,
        "schema": {"const": "Bearer"},
    }
}


def query(name: str, schema: Json, description: str, **more: Any) -> Json:
    """A query parameter."""
    return {"in": "query", "name": name, "schema": schema, "description": description, **more}


def list_query(name: str, items: Json, description: str, **more: Any) -> Json:
    """A query parameter with several values, separated by commas or in repeated parameters."""
    schema = {"type": "array", "items": items, **more}
    description += " Separate several values with commas, or repeat the parameter."
    return query(name, schema, description, style="form", explode=False)


def json_response(
    schema: Json, description: str, examples: Json, headers: Json | None = None
) -> Json:
    """A response with a JSON body. *examples* are bodies by name."""
    content = {JSON: {"schema": schema, "examples": named_examples(examples)}}
    response: Json = {"description": description, "content": content}
    return response | ({"headers": headers} if headers else {})


def error_response(
    description: str,
    code: str,
    message: str,
    field: str | None = None,
    *,
    headers: Json | None = None,
    schema: str = "ErrorResponse",
) -> Json:
    """An error response, with one error as its example."""
    error = {"code": code, "message": message} | ({"field": field} if field else {})
    body: Json = {"error": error}
    if schema == "TrackingError":
        body |= {"code": code, "message": message}
    return json_response(reference(schema), description, {code: body}, headers)


def reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def named_examples(examples: Json) -> Json:
    """The examples as OpenAPI's media types contain them."""
    return {name: {"value": value} for name, value in examples.items()}
