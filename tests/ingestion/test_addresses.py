"""Each address takes data in every spelling that SDKs use."""

from django.test import Client

from config.ingestion_urls import API_PATHS
from engagement.messages import Track
from ingestion.payloads import UnusableMessage
from tests.cases import each
from tests.ingestion.conftest import Accepted, Post
from tests.ingestion.examples import MINIMAL, PATHS, SEGMENT_MINIMAL, SEGMENT_PATHS

KEY = {"HTTP_AUTHORIZATION": "Basic edk_one"}
TRACK = {"type": "track", "userId": "ada", "event": "Report exported"}
AT_ROOT = [path.removeprefix("/segment") for path in SEGMENT_PATHS if path != "/segment"]


def messages_of(accepted: list[Accepted]) -> list[object]:
    """What was accepted, without the time of receipt."""
    fields = [accepted_message.message.__struct_fields__ for accepted_message in accepted]
    return [
        {name: getattr(call.message, name) for name in names if name != "timestamp"}
        for call, names in zip(accepted, fields, strict=True)
    ]


@each("path", PATHS + SEGMENT_PATHS)
def test_a_slash_at_the_end_changes_nothing(
    path: str, post: Post, accepted: list[Accepted]
) -> None:
    body = (MINIMAL | SEGMENT_MINIMAL)[path]
    plain, slashed = post(path, body, **KEY), post(f"{path}/", body, **KEY)
    assert (slashed.status_code, slashed.content) == (plain.status_code, plain.content)
    assert plain.status_code in {200, 202}
    half = len(accepted) // 2
    assert messages_of(accepted[:half]) == messages_of(accepted[half:])


@each("path", AT_ROOT)
def test_sdks_may_drop_the_prefix(path: str, post: Post, accepted: list[Accepted]) -> None:
    body = SEGMENT_MINIMAL[f"/segment{path}"]
    for address in (path, f"{path}/"):
        response = post(address, body, **KEY)
        assert (response.status_code, response.content) == (200, b'{"success": true}')
    assert post(path, b"[", **KEY).json()["code"] == "not_an_object"


@each("path", ["/beacon/v1/batch", "/segment/beacon/v1/batch"])
def test_beacons_have_an_address(path: str, post: Post, accepted: list[Accepted]) -> None:
    assert post(path, {"batch": [TRACK]}, **KEY).status_code == 200
    assert [call.key for call in accepted] == ["edk_one"]


@each("path", ["/v1/users", "/v1/groups", "/v1/events"])
def test_version_1_keeps_its_addresses(path: str, post: Post, accepted: list[Accepted]) -> None:
    assert post(path, MINIMAL[path] | {"api_key": "edk_one"}, **KEY).status_code == 202
    assert post(path, {"batch": []}, **KEY).status_code == 400
    assert [call.key for call in accepted] == ["edk_one"]


@each("path", ["/v1/accounts", "/v2/users", "/v2/accounts"])
def test_reading_keeps_its_addresses(path: str, client: Client) -> None:
    assert client.get(path).status_code == 401
    assert client.post(path).status_code in {401, 405}


@each("path", ["/v2/batch", "/v2/batch/"])
def test_version_2_takes_batches(path: str, post: Post, accepted: list[Accepted]) -> None:
    bad = {"type": "track", "userId": "ada"}
    body = {"batch": [TRACK, bad], "writeKey": "edk_other"}
    response = post(path, body, **KEY)
    assert (response.status_code, response.json()) == (200, {"success": True})
    assert [type(call.message) for call in accepted] == [Track, UnusableMessage]
    # As everywhere in version 2, the header alone says whose data it is.
    assert {call.key for call in accepted} == {"edk_one"}
    assert post(path, body).status_code == 200
    assert {call.key for call in accepted[2:]} == {""}
    refusal = post(path, {}, **KEY)
    assert (refusal.status_code, list(refusal.json())) == (400, ["error"])


@each(
    ("path", "suggestion"),
    [
        ("/v2/tracks", "/v2/track"),
        ("/v2/Track", "/v2/track"),
        ("/v3/track", "/v2/track"),
        ("/track", "/v2/track"),
        ("/identify/", "/v2/identify"),
        ("/batch", "/v2/batch"),
        ("/v1/event", "/v1/events"),
        ("/v2/event", "/v2/track"),
        ("/v2/events/", "/v2/track"),
        ("/segment/v2/batch", "/segment/v1/batch"),
        ("/v2/account", "/v2/accounts"),
        ("/v2/something-else", None),
        ("/v2/" + "track" * 1000, None),
    ],
)
def test_an_unknown_path_names_the_nearest(
    path: str, suggestion: str | None, client: Client
) -> None:
    for response in (client.get(path), client.post(path)):
        assert response.status_code == 404
        error = response.json()["error"]
        question = f" Did you mean {suggestion}?" if suggestion else ""
        assert error["message"] == f"This endpoint does not exist.{question}"
        assert error["code"] == "not_found"


@each("path", API_PATHS)
def test_each_suggestion_exists(path: str, client: Client) -> None:
    assert client.post(path).status_code != 404
