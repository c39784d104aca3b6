"""Hostile input by name: the proof sends it over sockets, and tests send it to every door."""

import gzip
import json
from collections.abc import Callable
from urllib.parse import urlencode

# A good message at every door: each reads the fields that it knows.
GOOD = {
    "type": "track",
    "userId": "ada",
    "user_id": "ada",
    "groupId": "initech",
    "group_id": "initech",
    "previousId": "ada@example.com",
    "event": "Report exported",
}
FIELDS: tuple[str, ...] = (
    *GOOD,
    *("traits", "properties", "context", "integrations", "name", "batch"),
    *("timestamp", "originalTimestamp", "sentAt", "receivedAt"),
    *("messageId", "message_id", "anonymousId", "api_key", "writeKey"),
)
ID_FIELDS = ("userId", "user_id", "groupId", "group_id", "event", "messageId", "message_id", "name")
TIME_FIELDS = ("timestamp", "originalTimestamp", "sentAt", "receivedAt")

# --- Values ------------------------------------------------------------------------------------

TIMES = {
    "a leap second": "2016-12-31T23:59:60Z",
    "24:00": "2026-01-01T24:00:00Z",
    "year 0": "0000-01-01T00:00:00Z",
    "year 10000": "10000-01-01T00:00:00Z",
    "before year 1": "0001-01-01T00:00:00+14:00",
    "after year 9999": "9999-12-31T23:59:59-14:00",
    "the last moment": "9999-12-31T23:59:59.999999Z",
    "the first moment": "1970-01-01T00:00:00Z",
    "before 1970": "1969-12-31T23:59:59Z",
    "February 30": "2026-02-30T00:00:00Z",
    "an offset of 99 hours": "2026-01-01T00:00:00+99:99",
    "a week": "2026-W01-1",
    "no separators": "20260101",
    "no time at all": "",
}
NUMBERS: tuple[str, ...] = (
    *("NaN", "-Infinity", "1e999", "-1e999", "-0", "1e-999", "0.1e400", "9" * 5000),
    *("1" + "0" * 30, str(2**63), str(-(2**63) - 1), "01", "1.", "0x10", "null", "true"),
)
TEXTS: tuple[str, ...] = (
    *("", " ", "\0", "a\0b", "\ud800", "\udfff\ud800", "\ufeff", "\u202e", "😀", "' OR 1=1 --"),
    *("a" * 513, "a" * 100_000, "%s%n{0}", "../../etc/passwd", "am.tier", "__proto__"),
    *TIMES.values(),
)
QUERIES = {
    "%00": "%00=%00&a=%ED%A0%80",
    "bytes": "\xff=\xfe&&&==",
    "bytes in percent": "%ff=%ff",
    "a percent sign": "%",
    "no hexadecimal": "%zz",
    "a long name": "a" * 7000,
}

# --- Bodies ------------------------------------------------------------------------------------

# Returns a body, given whether it is for a door of batches.
Body = Callable[[bool], bytes]
DEEP = b"[" * 10_000 + b"]" * 10_000


def good(*members: bytes) -> Body:
    """The good message with raw members after its own; the last of a name wins."""
    message = b"{" + b", ".join([json.dumps(GOOD).encode()[1:-1], *members]) + b"}"
    return lambda is_batch: b'{"batch": [' + message + b"]}" if is_batch else message


def in_ids(value: bytes) -> Body:
    """The value as each identifier that a door knows."""
    return good(*(b'"%s": %s' % (name.encode(), value) for name in ID_FIELDS))


def in_times(value: bytes) -> Body:
    """The value as each time that a door knows."""
    return good(*(b'"%s": %s' % (name.encode(), value) for name in TIME_FIELDS))


def in_traits(members: bytes) -> Body:
    return good(b'"traits": {%s}' % members)


def raw(body: bytes) -> Body:
    return lambda is_batch: body


def encoded(encoding: str) -> Body:
    return lambda is_batch: good()(is_batch).decode().encode(encoding)


BODIES: dict[str, Body] = {
    "deep nesting": good(b'"properties": ' + DEEP),
    "deep nesting in traits": in_traits(b'"a": ' + DEEP),
    "nothing but brackets": raw(b"[" * 60_000),
    "nothing but objects": raw(b'{"traits":' * 200_000),
    "a huge integer": in_traits(b'"a": ' + b"9" * 5000),
    "a huge exponent": in_traits(b'"a": 1e999'),
    "a huge negative exponent": in_traits(b'"a": [-1e999, 1e-999, -0]'),
    "NaN": in_traits(b'"a": NaN'),
    "infinity": in_traits(b'"a": -Infinity'),
    "numbers for ids": in_ids(b"1e999"),
    "the same key twice": in_traits(b'"a": 1, "a": 2, "A": 3'),
    "the same field twice": good(b'"userId": "one"', b'"userId": "two"', b'"type": "group"'),
    "NUL in a value": in_traits(b'"a": "\\u0000"'),
    "NUL in a key": in_traits(b'"\\u0000": "a", "a\\u0000b": 1'),
    "NUL in ids": in_ids(b'"\\u0000"'),
    "a raw NUL": in_ids(b'"\0"'),
    "a lone surrogate in a value": in_traits(b'"a": ["\\ud800", "\\udc00\\ud83d"]'),
    "a lone surrogate in a key": in_traits(b'"\\udfff": 1, "\\ud800": 2'),
    "a lone surrogate in ids": in_ids(b'"\\ud800"'),
    "keys that become one": in_traits(b'"\\u0000": 1, "\\ud800": 2, "\\ufffd": 3'),
    "invalid UTF-8": in_traits(b'"a": "\xff\xfe"'),
    "encoded surrogates": in_traits(b'"a": "\xed\xa0\x80"'),
    "UTF-16": encoded("utf-16"),
    "a byte order mark": encoded("utf-8-sig"),
    "null": raw(b"null"),
    "null everywhere": in_ids(b"null"),
    "an array": raw(b"[]"),
    "a string": raw(b'"x"'),
    "a number": raw(b"5"),
    "bytes": raw(b"\xff\xfe"),
    "an empty body": raw(b""),
    "spaces": raw(b"   "),
    "a form": raw(urlencode({"userId": "ada", "event": "x", "batch": "[]"}).encode()),
    "an empty object": raw(b"{}"),
    "objects for ids": in_ids(b'{"a": []}'),
    "blank ids": in_ids(b'"  "'),
    "thousands of keys": in_traits(b", ".join(b'"k%d": %d' % (n, n) for n in range(3000))),
    "thousands of fields": good(*(b'"f%d": 1' % n for n in range(3000))),
    "identifiers of 1 MB": in_ids(b'"' + b"u" * 1_000_000 + b'"'),
    "identifiers of 60 KB": in_ids(b'"' + b"u" * 7_000 + b'"'),
    "a batch of 300,000 numbers": raw(b'{"batch": [' + b"0," * 300_000 + b"0]}"),
    "a batch of 250 empty objects": raw(b'{"batch": [' + b"{}," * 249 + b"{}]}"),
    "a batch with deep nesting": raw(b'{"batch": [' + DEEP + b"]}"),
    "a batch that breaks off": raw(b'{"batch": [{"a": 1}, {"a": ]}'),
    "three batches": raw(b'{"batch": [], "batch": null, "batch": [1]}'),
    **{name: in_times(json.dumps(time).encode()) for name, time in TIMES.items()},
    "10^30 milliseconds": in_times(b"1" + b"0" * 30),
    "negative milliseconds": in_times(b"-1"),
    "half a millisecond": in_times(b"0.5"),
    "a huge time": in_times(b"9" * 5000),
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

# --- Headers -----------------------------------------------------------------------------------

HEADERS: dict[str, dict[str, str]] = {
    "no content type": {"Content-Type": ""},
    "a wrong content type": {"Content-Type": "image/png"},
    "plain text": {"Content-Type": "text/plain"},
    "a content type of bytes": {"Content-Type": "\xff/\xfe; charset=\xff"},
    "a form's content type": {"Content-Type": "application/x-www-form-urlencoded"},
    "a multipart content type": {"Content-Type": "multipart/form-data"},
    "an unknown encoding": {"Content-Encoding": "br"},
    "two encodings": {"Content-Encoding": "gzip, gzip"},
    "gzip that is none": {"Content-Encoding": "gzip"},
    "a wrong length": {"Content-Length": "x"},
    "a negative length": {"Content-Length": "-1"},
    "NUL in the key": {"Authorization": "Basic \0"},
    "bytes in the key": {"Authorization": "Basic \xff\xfe"},
    "a key of 60 KB": {"Authorization": "Basic " + "k" * 60_000},
    "base64 of nothing": {"Authorization": "Basic Og=="},
    "no key": {"Authorization": "Basic"},
    "another scheme": {"Authorization": "Bearer x"},
    "an odd idempotency key": {"Idempotency-Key": "\xff\0"},
    "a huge idempotency key": {"Idempotency-Key": "i" * 60_000},
    "an odd request id": {"X-Request-Id": "\xff\0\r\n"},
    "another host": {"Host": "evil.example"},
    "a host that is none": {"Host": "\0"},
}
# Django cannot read these. The server must refuse them before.
SERVER_HEADERS: dict[str, dict[str, str]] = {
    "an unknown character set": {"Content-Type": "text/plain; charset*=utf-7''+2AA-"},
    "NUL as a character set": {"Content-Type": "text/plain; charset*=utf-8''%00"},
}
