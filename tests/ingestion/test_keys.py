"""Where a message's key is looked for; every key and none get 202, and none is told on."""

import base64
import logging
from typing import Any

import pytest

from tests.cases import each
from tests.ingestion.conftest import Accepted, Post
from tests.ingestion.examples import MINIMAL, PATHS

KEY = "edk_" + "k" * 33
TRACK = MINIMAL["/v2/track"]
EVENT = MINIMAL["/v1/events"]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@each(
    ("header", "key"),
    [
        (f"Basic {KEY}", KEY),
        (f"basic {KEY}", KEY),
        (f"BASIC   {KEY} ", KEY),
        (f"Basic {encoded(KEY + ':')}", KEY),
        (f"Basic {encoded(KEY + ':ignored')}", KEY),
        (f"Basic {encoded(KEY)}", KEY),
        (f"Basic {encoded('schlüssel:')}", "schlüssel"),
        (f"Basic {encoded('no colon')}", encoded("no colon")),
        ("Basic YQ", "YQ"),
        ("Basic ÿÿ", "ÿÿ"),
        ("Basic", ""),
        ("Basic ", ""),
        (f"Basic {encoded(':' + KEY)}", ""),
        (f"Bearer {KEY}", ""),
        (KEY, ""),
        ("", ""),
        (f"Basic {encoded(chr(0) + 'edk:')}", "\ufffdedk"),
        (f"Basic {base64.b64encode(bytes([255, 254, 58])).decode()}", "//46"),
    ],
)
def test_v2_reads_the_key_from_the_authorization_header(
    header: str, key: str, post: Post, accepted: list[Accepted]
) -> None:
    assert post("/v2/track", TRACK, HTTP_AUTHORIZATION=header).status_code == 202
    assert accepted[0].key == key


@each(
    ("value", "key"),
    [
        (KEY, KEY),
        ("", ""),
        (None, ""),
        (5, ""),
        (True, ""),
        ([KEY], ""),
        ({"key": KEY}, ""),
        ("edk_\0", "edk_\ufffd"),
    ],
)
def test_v1_reads_the_key_from_the_body(
    value: Any, key: str, post: Post, accepted: list[Accepted]
) -> None:
    assert post("/v1/events", EVENT | {"api_key": value}).status_code == 202
    assert accepted[0].key == key


def test_neither_version_looks_where_the_other_keeps_its_key(
    post: Post, accepted: list[Accepted]
) -> None:
    post("/v1/events", EVENT, HTTP_AUTHORIZATION=f"Basic {KEY}")
    post("/v2/track", TRACK | {"api_key": KEY, "writeKey": KEY})
    assert [call.key for call in accepted] == ["", ""]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "damage",
    [
        {"api_key": KEY},
        {"userId": KEY + "\n", "user_id": KEY + "\n", "groupId": 5, "group_id": 5},
        {"traits": {KEY: {"a": [[[[[[[[]]]]]]]]}}, "timestamp": KEY},
        [KEY],
        KEY,
    ],
)
def test_an_error_never_repeats_what_was_sent(
    path: str, damage: Any, post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        response = post(path, damage, HTTP_AUTHORIZATION=f"Basic {KEY}")
    assert response.status_code == 400
    assert KEY not in response.content.decode() + caplog.text


def test_beacons_send_the_key_in_the_url(post: Post, accepted: list[Accepted]) -> None:
    """Header, body, and URL, in this order; version 2 takes none from the URL."""
    batch: dict[str, Any] = {"batch": [{"type": "track", **TRACK}]}
    header = {"HTTP_AUTHORIZATION": f"Basic {KEY}"}
    address = "/beacon/v1/batch?writeKey=in+the%20url"
    for path, body, headers in (
        (address, batch, {"CONTENT_TYPE": "text/plain"}),
        (address, batch | {"writeKey": "in the body"}, {}),
        (address, batch | {"writeKey": 5}, header),
        ("/segment/v1/t?writeKey=in+the+url&writeKey=last", TRACK, {}),
        ("/v1/t?writeKey=", TRACK, {}),
        ("/v1/t?" + "a=1&" * 30 + "writeKey=too+many", TRACK, {}),
        ("/v1/t?writeKey=%00%ff", TRACK, {}),
        ("/v2/track?writeKey=in+the+url", TRACK, {}),
        ("/v2/batch?writeKey=in+the+url", batch, {}),
    ):
        assert post(path, body, **headers).status_code in {200, 202}
    assert [call.key for call in accepted] == [
        "in the url",
        "in the body",
        KEY,
        "last",
        "",
        "",
        "\ufffd\ufffd",
        "",
        "",
    ]
