"""How a body may come: its size, encoding and transfer."""

import gzip
import io
import json
import time
from typing import Any

import pytest
from django.test import Client

from ingestion.doors import bodies
from ingestion.doors.bodies import MAX_BATCH_BODY_BYTES, MAX_SINGLE_BODY_BYTES
from tests.cases import each
from tests.ingestion.conftest import Accepted, Post
from tests.ingestion.examples import MINIMAL, PATHS, Response, refusal

TRACK = json.dumps(MINIMAL["/v2/track"]).encode()
TOO_LARGE = (413, "payload_too_large", None)
NOT_JSON = (400, "invalid_json", None)
GZIP = {"HTTP_CONTENT_ENCODING": "gzip"}


def padded(size: int) -> bytes:
    """A valid body of exactly *size* bytes."""
    return TRACK + b" " * (size - len(TRACK))


class Unreadable(io.RawIOBase):
    """A body that must not be read, or a client that has gone."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def read(self, size: int = -1) -> bytes:
        raise self.error


class Endless(io.RawIOBase):
    """A body without an end, a little at a time; notes how much was read."""

    bytes_read = 0

    def read(self, size: int = -1) -> bytes:
        part = b" " * min(size, 1000)
        self.bytes_read += len(part)
        return part


@each(
    "body",
    [
        TRACK,
        b"\xef\xbb\xbf" + TRACK,
        b" \r\n\t" + TRACK + b"\n",
        padded(MAX_SINGLE_BODY_BYTES),
        json.dumps(MINIMAL["/v2/track"] | {"é": "日本語😀"}, ensure_ascii=False).encode(),
    ],
)
def test_a_body_is_utf8_json(body: bytes, post: Post, accepted: list[Accepted]) -> None:
    assert post("/v2/track", body).status_code == 202
    assert post("/v2/track", gzip.compress(body, mtime=0), **GZIP).status_code == 202
    assert len(accepted) == 2


@each("content_type", ["", "text/plain", "nonsense; charset=x", "a/b", "é"])
def test_any_content_type_will_do(content_type: str, post: Post) -> None:
    assert post("/v2/track", TRACK, CONTENT_TYPE=content_type).status_code == 202


def test_a_form_content_type_is_not_parsed_as_a_form(post: Post) -> None:
    form = "application/x-www-form-urlencoded"
    assert post("/v2/track", TRACK, CONTENT_TYPE=form).status_code == 202
    assert refusal(post("/v2/track", b"userId=ada", CONTENT_TYPE=form)) == NOT_JSON
    multipart = "multipart/form-data; boundary=x"
    assert post("/v2/track", TRACK, CONTENT_TYPE=multipart).status_code == 202


@each("path", PATHS)
@each(
    "body",
    [
        b"",
        b" ",
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf\xef\xbb\xbf{}",
        b"{",
        b"}",
        b"{'userId': 'ada'}",
        b'{"userId": "ada",}',
        b'{"userId": "ada"} x',
        b'{"userId": "ada"}{"userId": "ada"}',
        b'{"userId": Nan}',
        b'{"userId": +Infinity}',
        b'{"x": 01}',
        b'{"x": "\\q"}',
        b'{"x": "\\ud8"}',
        b'{"x": "\\Ud800"}',
        b'{"x": "\n"}',
        b'{"x": "\xff"}',
        b'{"\xed\xa0\x80": 1}',
        '{"x": 1}'.encode("utf-16"),
        b"{" * 60_000,
        b'{"x":' * 10_000,
        b'{"x":' + b"[" * 60_000,
        b'{"traits":{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}}",
        b"\x00",
        b"\\ud800" * 10_000,
        gzip.compress(TRACK, mtime=0),
    ],
)
def test_a_body_that_is_not_json_is_rejected(path: str, body: bytes, post: Post) -> None:
    assert refusal(post(path, body)) == NOT_JSON


@each("path", PATHS)
@each("body", [b"[]", b"null", b'"{}"', b"5", b"1e999", b"true", b"9" * 5000])
def test_json_that_is_not_an_object_is_rejected(path: str, body: bytes, post: Post) -> None:
    assert refusal(post(path, body)) == (400, "not_an_object", None)


@each("path", PATHS)
def test_a_body_over_the_limit_is_rejected_with_the_limit(path: str, post: Post) -> None:
    response = post(path, padded(MAX_SINGLE_BODY_BYTES + 1))
    assert refusal(response) == TOO_LARGE
    assert "65,536 bytes" in response.content.decode()


def test_a_body_that_announces_too_much_is_not_read(post: Post) -> None:
    unread = {"wsgi.input": Unreadable(AssertionError("it was read"))}
    response = post("/v2/track", b"", CONTENT_LENGTH=str(MAX_SINGLE_BODY_BYTES + 1), **unread)
    assert refusal(response) == TOO_LARGE


def chunked(stream: Any) -> dict[str, Any]:
    """The environment of a request without a Content-Length, as WSGI servers hand it out."""
    return {"wsgi.input": stream, "wsgi.input_terminated": True}


def test_a_chunked_body_is_read_to_its_end(post: Post, accepted: list[Accepted]) -> None:
    assert post("/v2/track", b"", **chunked(io.BytesIO(TRACK))).status_code == 202
    compressed = io.BytesIO(gzip.compress(TRACK, mtime=0))
    assert post("/v2/track", b"", **chunked(compressed), **GZIP).status_code == 202
    assert len(accepted) == 2


def test_a_chunked_body_without_an_end_is_read_one_byte_over_the_limit(post: Post) -> None:
    endless = Endless()
    assert refusal(post("/v2/track", b"", **chunked(endless))) == TOO_LARGE
    assert endless.bytes_read == MAX_SINGLE_BODY_BYTES + 1


def test_a_server_that_does_not_end_its_input_is_not_waited_for(post: Post) -> None:
    unread = {"wsgi.input": Unreadable(AssertionError("it was read"))}
    assert refusal(post("/v2/track", b"", **unread)) == NOT_JSON


@each("length", ["x", "-5", "1e3", "²"])
def test_a_length_that_is_none_counts_as_no_body(length: str, post: Post) -> None:
    assert refusal(post("/v2/track", TRACK, CONTENT_LENGTH=length)) == NOT_JSON


@each("error", [OSError("gone"), ValueError("bad chunk"), EOFError()])
def test_a_client_that_breaks_off_is_its_own_fault(error: Exception, post: Post) -> None:
    environ = {"wsgi.input": Unreadable(error)}
    assert refusal(post("/v2/track", b"", CONTENT_LENGTH="10", **environ)) == NOT_JSON
    assert refusal(post("/v2/track", b"", **chunked(Unreadable(error)))) == NOT_JSON


def test_a_body_shorter_than_announced_is_rejected_even_if_it_parses(post: Post) -> None:
    cut = {"wsgi.input": io.BytesIO(TRACK)}
    assert refusal(post("/v2/track", b"", CONTENT_LENGTH=str(len(TRACK) + 1), **cut)) == NOT_JSON


@each("name", ["gzip", "GZIP", " gzip ", "x-gzip"])
def test_gzip_is_accepted(name: str, post: Post) -> None:
    body = gzip.compress(TRACK, mtime=0)
    assert post("/v2/track", body, HTTP_CONTENT_ENCODING=name).status_code == 202


@each("name", ["identity", "Identity", ""])
def test_identity_is_no_encoding(name: str, post: Post) -> None:
    assert post("/v2/track", TRACK, HTTP_CONTENT_ENCODING=name).status_code == 202


@each("name", ["deflate", "br", "zstd", "gzip, gzip", "gzip;q=1", "*", "é"])
def test_other_encodings_are_rejected(name: str, post: Post) -> None:
    response = post("/v2/track", TRACK, HTTP_CONTENT_ENCODING=name)
    assert refusal(response) == (415, "unsupported_encoding", None)


def test_several_gzip_members_and_padding_are_one_body(post: Post) -> None:
    body = gzip.compress(TRACK[:10]) + gzip.compress(TRACK[10:]) + b"\0" * 100
    assert post("/v2/track", body, **GZIP).status_code == 202


@each(
    "body",
    [
        b"",
        TRACK,
        gzip.compress(TRACK, mtime=0)[:-1],
        gzip.compress(TRACK, mtime=0)[:-8],
        gzip.compress(TRACK, mtime=0)[:15],
        gzip.compress(TRACK, mtime=0)[:5],
        gzip.compress(TRACK, mtime=0)[:-6] + b"\xff" * 6,
        gzip.compress(TRACK, mtime=0) + b"trailing",
        gzip.compress(gzip.compress(TRACK, mtime=0), mtime=0),
        gzip.compress(b"", mtime=0),
        gzip.compress(b"", mtime=0) * 3000,
    ],
)
def test_damaged_gzip_is_rejected(body: bytes, post: Post) -> None:
    assert refusal(post("/v2/track", body, **GZIP)) == NOT_JSON


@each(
    "bomb",
    [
        gzip.compress(b" " * 50_000_000, mtime=0),
        gzip.compress(padded(MAX_SINGLE_BODY_BYTES + 1), mtime=0),
        gzip.compress(b" " * 60_000, mtime=0) * 500,
    ],
)
def test_a_gzip_bomb_is_too_large_and_costs_little(bomb: bytes, post: Post) -> None:
    assert len(bomb) < MAX_SINGLE_BODY_BYTES
    before = time.process_time()
    assert refusal(post("/v2/track", bomb, **GZIP)) == TOO_LARGE
    assert time.process_time() - before < 0.5


def test_refusing_needs_no_database(client: Client) -> None:
    # This test has no access to it.
    assert client.post("/v2/track", "{", content_type="application/json").status_code == 400


def test_large_bodies_share_a_limit_while_they_are_read(
    post: Post, monkeypatch: pytest.MonkeyPatch, accepted: list[Accepted]
) -> None:
    batch = json.dumps({"batch": []}).encode().ljust(MAX_BATCH_BODY_BYTES)
    inner: list[Response] = []

    class Slow(io.BytesIO):
        """A body of a slow client, during which others arrive."""

        def read(self, size: int | None = -1) -> bytes:
            inner.append(post("/v1/batch", batch))
            inner.append(post("/v1/batch", b"", **chunked(io.BytesIO(batch))))
            inner.append(post("/v2/track", TRACK))
            return super().read(size)

    monkeypatch.setattr(bodies, "MAX_BYTES_IN_PROGRESS", MAX_BATCH_BODY_BYTES)
    slow = {"wsgi.input": Slow(batch), "CONTENT_LENGTH": str(len(batch))}
    assert post("/v1/batch", b"", **slow).status_code == 200
    assert [response.status_code for response in inner] == [503, 503, 202]
    assert inner[0]["Retry-After"] == "2"
    assert refusal(post("/v2/batch", b"", CONTENT_LENGTH="100000")) == NOT_JSON
    # What was read, or broke off, counts no longer.
    assert post("/v1/batch", batch).status_code == 200


def test_others_get_a_turn_while_a_large_batch_is_decoded(
    post: Post, monkeypatch: pytest.MonkeyPatch, accepted: list[Accepted]
) -> None:
    inner: list[Response] = []
    message = {"type": "track", "userId": "ada", "event": "x", "properties": "x" * 50_000}
    batch = json.dumps({"batch": [message] * 20}).encode()

    def others(seconds: float) -> None:
        assert seconds == 0
        inner.append(post("/v2/track", TRACK))
        inner.append(post("/v1/batch", {"batch": [message | {"properties": {}}]}))
        # Only so many large ones may wait.
        inner.append(post("/v1/batch", batch))

    monkeypatch.setattr(bodies, "MAX_BYTES_IN_PROGRESS", len(batch))
    monkeypatch.setattr(time, "sleep", others)
    assert post("/v1/batch", batch).status_code == 200
    assert [response.status_code for response in inner] == [202, 200, 503] * 3
    assert len(accepted) == 20 + 2 * 3
