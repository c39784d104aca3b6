"""Requests that the tests start from, and how to read a refusal."""

import json
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse

Response: TypeAlias = "_MonkeyPatchedWSGIResponse"

# A valid body of each door with nothing but what is required.
MINIMAL: dict[str, dict[str, Any]] = {
    "/v2/identify": {"userId": "ada"},
    "/v2/group": {"groupId": "initech"},
    "/v2/track": {"userId": "ada", "event": "Report exported"},
    "/v1/users": {"user_id": "ada"},
    "/v1/groups": {"group_id": "initech"},
    "/v1/events": {"user_id": "ada", "event": "Report exported"},
}
PATHS = list(MINIMAL)

SEGMENT_MINIMAL: dict[str, dict[str, Any]] = {
    "/segment": {"type": "identify", "userId": "ada"},
    "/segment/v1/batch": {"batch": []},
    "/segment/v1/import": {"batch": []},
    "/segment/v1/b": {"batch": []},
    "/segment/v1/identify": {"userId": "ada"},
    "/segment/v1/i": {"userId": "ada"},
    "/segment/v1/group": {"groupId": "initech"},
    "/segment/v1/g": {"groupId": "initech"},
    "/segment/v1/track": {"userId": "ada", "event": "Report exported"},
    "/segment/v1/t": {"userId": "ada", "event": "Report exported"},
    "/segment/v1/page": {"userId": "ada"},
    "/segment/v1/p": {"userId": "ada"},
    "/segment/v1/screen": {"userId": "ada"},
    "/segment/v1/s": {"userId": "ada"},
    "/segment/v1/alias": {"userId": "ada", "previousId": "a1"},
    "/segment/v1/a": {"userId": "ada", "previousId": "a1"},
}
SEGMENT_PATHS = list(SEGMENT_MINIMAL)

# Every string field that names something, as (path, field).
IDENTIFIERS = [
    ("/v2/identify", "userId"),
    ("/v2/identify", "groupId"),
    ("/v2/group", "groupId"),
    ("/v2/group", "userId"),
    ("/v2/track", "userId"),
    ("/v2/track", "event"),
    ("/v1/users", "user_id"),
    ("/v1/users", "group_id"),
    ("/v1/groups", "group_id"),
    ("/v1/groups", "user_id"),
    ("/v1/events", "user_id"),
    ("/v1/events", "event"),
]
REQUIRED = [(path, field) for path, field in IDENTIFIERS if field in MINIMAL[path]]
OPTIONAL = [(path, field) for path, field in IDENTIFIERS if field not in MINIMAL[path]]


def refusal(response: Response) -> tuple[int, str, str | None]:
    """Status, code and field of an error; its shape is checked on the way."""
    assert response["Content-Type"] == "application/json"
    body = json.loads(response.content)
    assert set(body) == {"error"}
    assert {"code", "message"} <= set(body["error"]) <= {"code", "message", "field"}
    assert body["error"]["message"].endswith(".")
    return response.status_code, body["error"]["code"], body["error"].get("field")
