"""Every kind of hostile body at every door: never a server error, and what is taken in settles.

The doors alone are tested with whatever Hypothesis thinks of; here are the kinds by name, all the
way into the tables.
"""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.ingestion.examples import MINIMAL, SEGMENT_MINIMAL
from tests.pipeline.conftest import Post
from tests.pipeline.waiting import drain, quarantined, waiting

pytestmark = pytest.mark.django_db(transaction=True)

BATCHES = [path for path, body in SEGMENT_MINIMAL.items() if "batch" in body]
# At each address a message that is good as it is; in a batch it is the only one.
GOOD: dict[str, dict[str, Any]] = {
    **MINIMAL,
    **SEGMENT_MINIMAL,
    **{path: {"type": "track", "userId": "ada", "event": "Report exported"} for path in BATCHES},
}
LATER = datetime(2030, 1, 1, tzinfo=UTC)
ANSWERS = {200, 202, 400, 413, 415}
DEEP = b"[" * 10_000 + b"]" * 10_000


def body(path: str, *members: bytes) -> bytes:
    """The good message of this address with raw members after its own; the last of a name wins."""
    message = b"{" + b", ".join([json.dumps(GOOD[path]).encode()[1:-1], *members]) + b"}"
    return b'{"batch": [' + message + b"]}" if path in BATCHES else message


def in_place_of_ids(value: bytes) -> Callable[[str], bytes]:
    """The value as each identifier that a door knows."""
    names = ("userId", "user_id", "groupId", "group_id", "event", "messageId", "message_id", "name")
    members = [b'"%s": %s' % (name.encode(), value) for name in names]
    return lambda path: body(path, *members)


def in_traits(members: bytes) -> Callable[[str], bytes]:
    return lambda path: body(path, b'"traits": {%s}' % members)


def at(value: bytes) -> Callable[[str], bytes]:
    """The value as each time that a door knows."""
    names = ("timestamp", "originalTimestamp", "sentAt", "receivedAt")
    return lambda path: body(path, *(b'"%s": %s' % (name.encode(), value) for name in names))


def raw(sent: bytes) -> Callable[[str], bytes]:
    return lambda path: sent


KINDS: dict[str, Callable[[str], bytes]] = {
    "deep nesting": lambda path: body(path, b'"properties": ' + DEEP),
    "deep nesting in traits": in_traits(b'"a": ' + DEEP),
    "nothing but brackets": raw(b"[" * 60_000),
    "a huge integer": in_traits(b'"a": ' + b"9" * 5000),
    "a huge exponent": in_traits(b'"a": 1e999'),
    "a huge negative exponent": in_traits(b'"a": [-1e999, 1e-999, -0]'),
    "NaN": in_traits(b'"a": NaN'),
    "infinity": in_traits(b'"a": -Infinity'),
    "numbers for ids": in_place_of_ids(b"1e999"),
    "the same key twice": in_traits(b'"a": 1, "a": 2, "A": 3'),
    "the same field twice": lambda path: body(path, b'"userId": "one"', b'"userId": "two"'),
    "NUL in a value": in_traits(b'"a": "\\u0000"'),
    "NUL in a key": in_traits(b'"\\u0000": "a", "a\\u0000b": 1'),
    "NUL in ids": in_place_of_ids(b'"\\u0000"'),
    "a raw NUL": in_place_of_ids(b'"\0"'),
    "a lone surrogate in a value": in_traits(b'"a": ["\\ud800", "\\udc00\\ud83d"]'),
    "a lone surrogate in a key": in_traits(b'"\\udfff": 1, "\\ud800": 2'),
    "a lone surrogate in ids": in_place_of_ids(b'"\\ud800"'),
    "keys that become one": in_traits(b'"\\u0000": 1, "\\ud800": 2, "\\ufffd": 3'),
    "invalid UTF-8": in_traits(b'"a": "\xff\xfe"'),
    "encoded surrogates": in_traits(b'"a": "\xed\xa0\x80"'),
    "UTF-16": lambda path: body(path).decode().encode("utf-16"),
    "a byte order mark": lambda path: b"\xef\xbb\xbf" + body(path),
    "null": raw(b"null"),
    "null everywhere": in_place_of_ids(b"null"),
    "an array": raw(b"[]"),
    "a string": raw(b'"x"'),
    "a number": raw(b"5"),
    "an empty body": raw(b""),
    "spaces": raw(b"   "),
    "a form": raw(urlencode({"userId": "ada", "event": "x", "batch": "[]"}).encode()),
    "an empty object": raw(b"{}"),
    "objects for ids": in_place_of_ids(b'{"a": []}'),
    "blank ids": in_place_of_ids(b'"  "'),
    "thousands of keys": in_traits(b", ".join(b'"k%d": %d' % (n, n) for n in range(3000))),
    "thousands of fields": lambda path: body(path, *(b'"f%d": 1' % n for n in range(3000))),
    "identifiers of 1 MB": in_place_of_ids(b'"' + b"u" * 1_000_000 + b'"'),
    "identifiers of 60 KB": in_place_of_ids(b'"' + b"u" * 7_000 + b'"'),
    "a leap second": at(b'"2016-12-31T23:59:60Z"'),
    "24:00": at(b'"2026-01-01T24:00:00Z"'),
    "year 0": at(b'"0000-01-01T00:00:00Z"'),
    "year 10000": at(b'"10000-01-01T00:00:00Z"'),
    "before year 1": at(b'"0001-01-01T00:00:00+14:00"'),
    "after year 9999": at(b'"9999-12-31T23:59:59-14:00"'),
    "the last moment": at(b'"9999-12-31T23:59:59.999999Z"'),
    "the first moment": at(b'"1970-01-01T00:00:00Z"'),
    "before 1970": at(b'"1969-12-31T23:59:59Z"'),
    "10^30 milliseconds": at(b"1" + b"0" * 30),
    "negative milliseconds": at(b"-1"),
    "half a millisecond": at(b"0.5"),
    "a huge time": at(b"9" * 5000),
    "no time at all": at(b'""'),
}
HEADERS: dict[str, dict[str, str]] = {
    "no content type": {"CONTENT_TYPE": ""},
    "a wrong content type": {"CONTENT_TYPE": "image/png"},
    "a content type of bytes": {"CONTENT_TYPE": "\xff/\xfe; charset=\xff"},
    "a form's content type": {"CONTENT_TYPE": "application/x-www-form-urlencoded"},
    "a multipart content type": {"CONTENT_TYPE": "multipart/form-data"},
    "an unknown encoding": {"HTTP_CONTENT_ENCODING": "br"},
    "two encodings": {"HTTP_CONTENT_ENCODING": "gzip, gzip"},
    "gzip that is none": {"HTTP_CONTENT_ENCODING": "gzip"},
    "a wrong length": {"CONTENT_LENGTH": "x"},
    "a negative length": {"CONTENT_LENGTH": "-1"},
    "NUL in the key": {"HTTP_AUTHORIZATION": "Basic \0"},
    "bytes in the key": {"HTTP_AUTHORIZATION": "Basic \xff\xfe"},
    "a key of 60 KB": {"HTTP_AUTHORIZATION": "Basic " + "k" * 60_000},
    "base64 of nothing": {"HTTP_AUTHORIZATION": "Basic Og=="},
    "another scheme": {"HTTP_AUTHORIZATION": "Bearer x"},
    "an odd idempotency key": {"HTTP_IDEMPOTENCY_KEY": "\xff\0"},
    "a huge idempotency key": {"HTTP_IDEMPOTENCY_KEY": "i" * 60_000},
    "an odd request id": {"HTTP_X_REQUEST_ID": "\xff\0\r\n"},
    "%00 in the query": {"QUERY_STRING": "%00=%00&a=%ED%A0%80"},
    "bytes in the query": {"QUERY_STRING": "\xff=\xfe&&&=="},
    "another host": {"HTTP_HOST": "evil.example"},
    "a host that is none": {"HTTP_HOST": "\0"},
}
GZIPPED: dict[str, bytes] = {
    "a bomb": gzip.compress(b" " * 50_000_000, 9, mtime=0),
    "a bomb of spaces around an object": gzip.compress(b"{" + b" " * 9_000_000 + b"}", mtime=0),
    "truncated": gzip.compress(b'{"userId": "ada"}', mtime=0)[:-9],
    "only a head": gzip.compress(b"", mtime=0)[:10],
    "nothing": b"",
    "many empty members": gzip.compress(b"", mtime=0) * 3000,
    "something behind it": gzip.compress(b'{"userId": "ada"}', mtime=0) + b"PK\3\4",
    "gzip in gzip": gzip.compress(gzip.compress(b"{}", mtime=0), mtime=0),
}


def settle() -> None:
    """Whatever was taken in is recorded or listed as dropped; nothing waits or is put aside."""
    drain(LATER)
    assert waiting() == []
    assert quarantined() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_is_refused_or_settles(kind: str, post: Post) -> None:
    for path in GOOD:
        sent = KINDS[kind](path)
        plain = post(path, sent).status_code
        assert plain in ANSWERS, path
        zipped = post(path, gzip.compress(sent, 1, mtime=0), HTTP_CONTENT_ENCODING="gzip")
        assert zipped.status_code == plain, path
    settle()


@pytest.mark.parametrize("kind", HEADERS)
def test_a_header_or_a_query_is_refused_or_settles(kind: str, post: Post) -> None:
    for path in GOOD:
        assert post(path, body(path), **HEADERS[kind]).status_code in ANSWERS, path
    settle()


@pytest.mark.parametrize("kind", GZIPPED)
def test_gzip_is_refused_or_settles(kind: str, post: Post) -> None:
    for path in GOOD:
        response = post(path, GZIPPED[kind], HTTP_CONTENT_ENCODING="gzip")
        assert response.status_code in ANSWERS, path
    settle()


def test_the_good_bodies_that_these_are_made_from_are_good(post: Post) -> None:
    for path in GOOD:
        assert post(path, body(path)).status_code in {200, 202}, path
    settle()
