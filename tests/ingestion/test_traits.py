"""Traits are any JSON within limits, and what is stored fits the database."""

import json
from typing import Any

import pytest
from django.db import connection

from engagement.messages import Identify
from ingestion.payloads import decode, encode
from tests.cases import each
from tests.ingestion.conftest import Accepted, Post
from tests.ingestion.examples import refusal

LEGACY_AND_CURRENT = [
    ("/v2/identify", "userId"),
    ("/v2/group", "groupId"),
    ("/v1/users", "user_id"),
    ("/v1/groups", "group_id"),
]


def identify(traits: str) -> bytes:
    return b'{"userId": "ada", "traits": %s}' % traits.encode()


def stored(accepted: list[Accepted]) -> dict[str, Any]:
    message = accepted[-1].message
    assert isinstance(message, Identify)
    return message.traits


def nested(levels: int, opening: str, closing: str) -> str:
    """Traits with *levels* objects or arrays, the traits object being the first."""
    return '{"a": ' + opening * (levels - 1) + "1" + closing * (levels - 1) + "}"


@each(
    ("body", "traits"),
    [
        ("{}", {}),
        ("null", {}),
        ('{"": ""}', {"": ""}),
        ('{"a": null}', {"a": None}),
        ('{"a": [1, -2, 3.5, true, false, null, "x", [], {}]}',) * 2,
        ('{"Plan": "x", "plan": "y"}', {"Plan": "x", "plan": "y"}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"a": 1e308, "b": 5e-324, "c": 1e-999, "d": -0.0}',) * 2,
        # NUL and lone surrogates, in keys and values, at any depth
        ('{"a\\u0000": "b\\u0000"}', {"a\ufffd": "b\ufffd"}),
        ('{"a\\ud800": "\\udfffb"}', {"a\ufffd": "\ufffdb"}),
        ('{"a": {"\\u0000": ["\\uDBFF"]}}', {"a": {"\ufffd": ["\ufffd"]}}),
        ('{"a": "\\ud83d\\ude00 \\ud83d"}', {"a": "😀 \ufffd"}),
        ('{"a": "\\\\ud800 \\ud800"}', {"a": "\\ud800 \ufffd"}),
        ('{"a": "line\\nbreak\\u0001\\ufffe"}', {"a": "line\nbreak\x01\ufffe"}),
        # integers beyond 64 bits, as JavaScript reads them
        ('{"a": 9223372036854775807}', {"a": 2**63 - 1}),
        ('{"a": -9223372036854775808}', {"a": -(2**63)}),
        ('{"a": 18446744073709551615}', {"a": 2**64 - 1}),
        ('{"a": 18446744073709551616}', {"a": 2.0**64}),
        ('{"a": -9223372036854775809}', {"a": -(2.0**63)}),
        ('{"a": [{"b": 1%s}]}' % ("0" * 300), {"a": [{"b": 1e300}]}),
    ],
)
def test_traits_are_kept(
    body: str, traits: dict[str, Any] | str, post: Post, accepted: list[Accepted]
) -> None:
    assert post("/v2/identify", identify(body)).status_code == 202
    assert stored(accepted) == (json.loads(traits) if isinstance(traits, str) else traits)


@each(("path", "required"), LEGACY_AND_CURRENT)
@each(
    "traits",
    [
        "[]",
        '"plan"',
        "5",
        "true",
        '{"a": 1e999}',
        '{"a": [{"b": -1e999}]}',
        '{"a": 1%s}' % ("0" * 310),
        '{"a": 1%s}' % ("0" * 4290),
        '{"a": %s}' % ("9" * 5000),
        '{"%s": 1}' % ("k" * 257),
        json.dumps({f"key {number}": number for number in range(257)}),
        nested(9, "[", "]"),
        nested(9, '{"a": ', "}"),
        nested(400, "[", "]"),
    ],
)
def test_traits_beyond_their_limits_are_rejected(
    path: str, required: str, traits: str, post: Post
) -> None:
    body = b'{"%s": "ada", "traits": %s}' % (required.encode(), traits.encode())
    assert refusal(post(path, body)) == (400, "invalid_field", "traits")


@each(
    "traits",
    [
        json.dumps({"😀" * 256: 1}),
        json.dumps({f"key {number}": number for number in range(256)}),
        json.dumps({"a": {f"key {number}" * 100: number for number in range(60)}}),
        nested(8, "[", "]"),
        nested(8, '{"a": ', "}"),
    ],
)
def test_traits_at_their_limits_are_accepted(
    traits: str, post: Post, accepted: list[Accepted]
) -> None:
    assert post("/v2/identify", identify(traits)).status_code == 202
    assert stored(accepted) == json.loads(traits)


@pytest.mark.parametrize(
    "traits",
    [
        '{"\\u0000": "\\u0000", "\\ud800": ["\\udfff"], "a": "\\u0001\\uffff\\u007f"}',
        '{"a": [1e308, 5e-324, -0.0, 1e-999, 18446744073709551615, -9223372036854775808]}',
        '{"a": [1%s]}' % ("0" * 308),
    ],
)
def test_whatever_is_accepted_fits_the_inbox_and_jsonb(
    traits: str, post: Post, accepted: list[Accepted], db: None
) -> None:
    post("/v2/identify", identify(traits))
    message = accepted[0].message
    assert decode(encode(message)) == message
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::jsonb::text", [json.dumps(stored(accepted))])
        (read,) = cursor.fetchone()
    # jsonb spells 1e308 as an integer of 309 digits.
    traits = json.dumps(stored(accepted))
    assert json.loads(read, parse_int=float) == json.loads(traits, parse_int=float)
