"""What speaks Segment's protocol sends here unchanged: pipelines, server SDKs, browsers."""

import base64
import gzip
import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from pytest import approx

from engagement.messages import Alias, Group, Identify, Track
from ingestion import timestamps
from ingestion.doors.bodies import MAX_BATCH_BODY_BYTES
from ingestion.models import DropReason
from ingestion.payloads import Payload, UnusableMessage
from tests.cases import each
from tests.ingestion.conftest import Accepted, Post
from tests.ingestion.examples import Response

AT = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
ISO = "2026-03-01T10:30:00.000Z"
KEY = {"HTTP_AUTHORIZATION": "Basic " + base64.b64encode(b"edk_one:").decode()}
BATCH, FORWARD = "/segment/v1/batch", "/segment"
ALL_CALLS = {
    "identify": "i",
    "group": "g",
    "track": "t",
    "page": "p",
    "screen": "s",
    "alias": "a",
}
SDK_PATHS = [
    f"/segment/v1/{name}" for name in ("batch", "import", "b", *ALL_CALLS, *ALL_CALLS.values())
]

TRACK = {"type": "track", "userId": "ada", "event": "Report exported", "timestamp": ISO}

# What a message says, with all that a real one carries beside it, and what becomes of it.
SAID: list[tuple[dict[str, Any], Payload]] = [
    (
        {"type": "identify", "userId": "ada", "traits": {"plan": "pro"}, "messageId": "m1"},
        Identify("ada", AT, {"plan": "pro"}, None, "m1"),
    ),
    (
        {"type": "identify", "userId": "ada", "context": {"groupId": "initech"}},
        Identify("ada", AT, {}, "initech"),
    ),
    (
        {"type": "identify", "userId": "ada", "groupId": "initech"},
        Identify("ada", AT, {}, "initech"),
    ),
    # RudderStack's SDKs put an identify's traits into the context.
    (
        {"type": "identify", "userId": "ada", "context": {"traits": {"plan": "pro", "a": 1}}},
        Identify("ada", AT, {"plan": "pro", "a": 1}),
    ),
    (
        {
            "type": "identify",
            "userId": "ada",
            "context": {"traits": {"plan": "free", "a": 1}},
            "traits": {"plan": "pro"},
        },
        Identify("ada", AT, {"plan": "pro", "a": 1}),
    ),
    (
        {
            "type": "group",
            "userId": "ada",
            "groupId": "initech",
            "traits": {"name": "Initech"},
            "context": {"traits": {"name": "Ada"}},
        },
        Group("initech", AT, {"name": "Initech"}, "ada"),
    ),
    # Who belongs to it is unknown, what it is is not.
    (
        {"type": "group", "anonymousId": "a1", "groupId": "initech", "userId": None},
        Group("initech", AT),
    ),
    (
        {"type": "track", "userId": "ada", "event": "Report exported", "messageId": "m1"},
        Track("ada", "Report exported", AT, None, "m1"),
    ),
    (
        {"type": "track", "userId": "ada", "event": "x", "context": {"groupId": "initech"}},
        Track("ada", "x", AT, "initech"),
    ),
    (
        {"type": "page", "userId": "ada", "name": "Pricing", "category": "Docs"},
        Track("ada", "Viewed Pricing Page", AT),
    ),
    ({"type": "page", "userId": "ada", "name": ""}, Track("ada", "Viewed Page", AT)),
    ({"type": "page", "userId": "ada", "name": None}, Track("ada", "Viewed Page", AT)),
    ({"type": "screen", "userId": "ada"}, Track("ada", "Viewed Screen", AT)),
    ({"type": "screen", "userId": "ada", "event": "Home"}, Track("ada", "Viewed Home Screen", AT)),
    (
        {
            "type": "screen",
            "userId": "ada",
            "name": "Home",
            "context": {"groupId": "initech"},
            "messageId": "m1",
        },
        Track("ada", "Viewed Home Screen", AT, "initech", "m1"),
    ),
    # Empty strings stand for nothing, as some SDKs send it.
    (
        {"type": "identify", "userId": "ada", "groupId": "", "messageId": "", "traits": None},
        Identify("ada", AT),
    ),
    ({"type": "group", "userId": "", "groupId": "initech"}, Group("initech", AT)),
    # PHP writes empty objects as arrays.
    (
        {"type": "identify", "userId": "ada", "context": [], "traits": [], "integrations": []},
        Identify("ada", AT),
    ),
    (
        {"type": "identify", "userId": "ada", "context": {"traits": []}, "traits": {"a": 1}},
        Identify("ada", AT, {"a": 1}),
    ),
    ({"type": "group", "groupId": "initech", "traits": [], "context": []}, Group("initech", AT)),
    (
        {"type": "track", "userId": "ada", "event": "x", "context": [], "properties": []},
        Track("ada", "x", AT),
    ),
    # Ids of any length are kept apart.
    (
        {"type": "track", "userId": "ada", "event": "x", "messageId": "m" * 101},
        Track("ada", "x", AT, None, sha256(b"m" * 101).hexdigest()),
    ),
    (
        {"type": "track", "userId": "ada", "event": "x", "messageId": 10**100},
        Track("ada", "x", AT, None, sha256(b"1" + b"0" * 100).hexdigest()),
    ),
    (
        {"type": "alias", "userId": "ada", "previousId": "ada@example.com", "messageId": "m1"},
        Alias("ada", "ada@example.com", AT, "m1"),
    ),
    (
        {"type": "alias", "userId": 7, "previousId": 6, "anonymousId": "a1"},
        Alias("7", "6", AT),
    ),
]
# What is accepted and not recorded, for which reason.
NOT_RECORDED: list[tuple[dict[str, Any], UnusableMessage]] = [
    (
        {"type": "track", "anonymousId": "a1", "event": "Opened", "messageId": "m1"},
        UnusableMessage(DropReason.ANONYMOUS, "track", "", "Opened", "m1"),
    ),
    (
        {"type": "track", "userId": "", "anonymousId": "a1", "event": 5},
        UnusableMessage(DropReason.ANONYMOUS, "track"),
    ),
    (
        {"type": "identify", "anonymousId": "a1", "traits": {"email": "ada@example.com"}},
        UnusableMessage(DropReason.ANONYMOUS, "identify"),
    ),
    ({"type": "page", "anonymousId": "a1"}, UnusableMessage(DropReason.ANONYMOUS, "page")),
    ({"type": "page", "name": "Pricing"}, UnusableMessage(DropReason.ANONYMOUS, "page")),
    ({"type": "screen", "userId": None}, UnusableMessage(DropReason.ANONYMOUS, "screen")),
    # In a browser, the previous id is the anonymous one.
    (
        {"type": "alias", "userId": "ada", "previousId": "a1", "anonymousId": "a1"},
        UnusableMessage(DropReason.ANONYMOUS, "alias"),
    ),
    (
        {"type": "alias", "userId": "ada", "anonymousId": "a1", "messageId": "m1"},
        UnusableMessage(DropReason.ANONYMOUS, "alias", "", None, "m1"),
    ),
    (
        {"type": "alias", "previousId": "ada", "anonymousId": "a1"},
        UnusableMessage(DropReason.ANONYMOUS, "alias"),
    ),
]
NO_ID = "must be a string or an integer."
# What cannot mean anything: the field at fault and what is said of it.
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "track", "event": "Opened"}, "userId", "userId is required"),
    ({"type": "track", "userId": " ", "event": "Opened"}, "userId", "userId is required"),
    ({"type": "track", "userId": 5.5, "event": "Opened"}, "userId", NO_ID),
    ({"type": "track", "userId": False, "event": "Opened"}, "userId", NO_ID),
    ({"type": "track", "userId": True, "event": "Opened"}, "userId", NO_ID),
    # It stands for 10 ** 300 and for its neighbors.
    ({"type": "track", "userId": 1e300, "event": "Opened"}, "userId", NO_ID),
    ({"type": "track", "userId": 2.0**53 + 2, "event": "Opened"}, "userId", NO_ID),
    ({"type": "track", "userId": 10**512, "event": "x"}, "userId", "at most 512 characters"),
    ({"type": "track", "userId": "u" * 513, "event": "x"}, "userId", "at most 512 characters"),
    ({"type": "track", "userId": "ada"}, "event", "event is required"),
    ({"type": "track", "userId": "ada", "event": ["x"]}, "event", "event must be a string."),
    ({"type": "track", "userId": "ada", "event": "a\0"}, "event", "control characters"),
    ({"type": "group", "userId": "ada"}, "groupId", "groupId is required"),
    ({"type": "group", "groupId": "g", "traits": [1]}, "traits", "traits must be an object."),
    ({"type": "alias", "userId": "ada"}, "previousId", "previousId is required"),
    ({"type": "alias", "previousId": "ada"}, "userId", "userId is required"),
    ({"type": "group", "groupId": "g", "userId": {}}, "userId", NO_ID),
    (
        {"type": "identify", "userId": "ada", "traits": "pro"},
        "traits",
        "traits must be an object.",
    ),
    (
        {"type": "identify", "userId": "ada", "context": {"traits": 1}},
        "context.traits",
        "context.traits must be an object.",
    ),
    ({"type": "track", "userId": "ada", "event": "x", "context": 1}, "context", "an object"),
    ({"type": "track", "userId": "ada", "event": "x", "context": [{}]}, "context", "an object"),
    (
        {"type": "track", "userId": "ada", "event": "x", "context": {"groupId": 1.5}},
        "context.groupId",
        NO_ID,
    ),
    ({"type": "page", "userId": "ada", "name": {}}, "name", "name must be a string."),
    ({"type": "page", "userId": "ada", "name": "n" * 245}, "name", "at most 244 characters"),
    ({"type": "screen", "userId": "ada", "name": "n\n"}, "name", "control characters"),
    ({**TRACK, "timestamp": "yesterday"}, "timestamp", "ISO 8601"),
    ({**TRACK, "timestamp": -1}, "timestamp", "ISO 8601"),
    ({**TRACK, "timestamp": 253_402_300_800_000}, "timestamp", "ISO 8601"),
    ({**TRACK, "timestamp": True}, "timestamp", "ISO 8601"),
    ({**TRACK, "timestamp": [1772361000]}, "timestamp", "ISO 8601"),
    ({**TRACK, "messageId": 7.5}, "messageId", NO_ID),
    ({**TRACK, "messageId": "m\n"}, "messageId", "control characters"),
    ({**TRACK, "event": 5}, "event", "event must be a string."),
]
BAD_TYPES: list[Any] = [None, "", "Track", "delete", 5, [], {"a": 1}]


def stamped(fields: dict[str, Any]) -> dict[str, Any]:
    """The message with a time of its own and with what real ones carry beside it."""
    context = {"library": {"name": "analytics", "version": "1"}, "ip": "203.0.113.7"}
    return {
        "timestamp": ISO,
        "anonymousId": None,
        "integrations": {"All": True},
        "properties": {"price": 10},
        **fields,
        **({"context": {**context, **fields.get("context", {})}} if _has_context(fields) else {}),
    }


def _has_context(fields: dict[str, Any]) -> bool:
    return isinstance(fields.get("context", {}), dict)


def body_of(response: Response) -> Any:
    return json.loads(response.content)


# --- What messages become -------------------------------------------------------------------


@each(("fields", "message"), [*SAID, *NOT_RECORDED])
def test_each_way_of_sending_gives_the_same_message(
    fields: dict[str, Any], message: Payload, post: Post, accepted: list[Accepted]
) -> None:
    full_body = stamped(fields)
    call = {key: value for key, value in full_body.items() if key != "type"}
    assert post(FORWARD, full_body, **KEY).status_code == 202
    for path in (f"/segment/v1/{fields['type']}", f"/segment/v1/{ALL_CALLS[fields['type']]}"):
        assert post(path, call, **KEY).status_code == 200
    for path in (BATCH, "/segment/v1/import", "/segment/v1/b"):
        assert post(path, {"batch": [full_body]}, **KEY).status_code == 200
    assert [call.message for call in accepted] == [message] * 6
    assert {call.key for call in accepted} == {"edk_one"}


@each(
    ("number", "text"),
    [
        (b"42", "42"),
        (b"0", "0"),
        (b"-7", "-7"),
        (b"42.0", "42"),
        (b"-0.0", "0"),
        (b"4.2e3", "4200"),
        (b"9007199254740992.0", "9007199254740992"),
        (b"9007199254740993", "9007199254740993"),
        (b"18446744073709551617", "18446744073709551617"),
        (b"9" * 100, "9" * 100),
    ],
)
def test_a_whole_number_is_an_identifier(
    number: bytes, text: str, post: Post, accepted: list[Accepted]
) -> None:
    track = b"""{"type": "track", "event": "Opened", "timestamp": "%s", "userId": @,
        "anonymousId": @, "messageId": @, "context": {"groupId": @}}""" % ISO.encode()
    group = b'{"type": "group", "timestamp": "%s", "userId": @, "groupId": @}' % ISO.encode()
    track, group = track.replace(b"@", number), group.replace(b"@", number)
    for path in (FORWARD, "/segment/v1/track"):
        assert post(path, track, **KEY).status_code in {200, 202}
    assert post(BATCH, b'{"batch": [%s, %s]}' % (track, group), **KEY).status_code == 200
    message = Track(text, "Opened", AT, text, text)
    assert [call.message for call in accepted] == [message] * 3 + [Group(text, AT, {}, text)]


def test_a_dropped_message_is_found_by_its_numeric_id(post: Post, accepted: list[Accepted]) -> None:
    post("/segment/v1/alias", {"userId": 42, "anonymousId": 41, "messageId": 7}, **KEY)
    post("/segment/v1/track", {"anonymousId": 42, "event": "Opened", "messageId": 8}, **KEY)
    assert [call.message for call in accepted] == [
        UnusableMessage(DropReason.ANONYMOUS, "alias", "", None, "7"),
        UnusableMessage(DropReason.ANONYMOUS, "track", "", "Opened", "8"),
    ]


@each("number", [b"1e400", b"-1e400", b"9" * 4000, b"9" * 5000])
def test_a_number_that_is_no_identifier_costs_no_other_message(
    number: bytes, post: Post, accepted: list[Accepted]
) -> None:
    bad = b'{"type": "track", "event": "Opened", "userId": %s}' % number
    assert post(FORWARD, bad, **KEY).status_code == 400
    body = b'{"batch": [%s, %s]}' % (bad, json.dumps(TRACK).encode())
    assert post(BATCH, body, **KEY).status_code == 200
    note, good = (call.message for call in accepted)
    assert (note.reason, note.detail[:7]) == (DropReason.INVALID, "userId ")
    assert isinstance(good, Track)


@each(("fields", "field", "sentence"), BAD)
def test_a_single_invalid_message_gets_an_error_in_both_shapes(
    fields: dict[str, Any], field: str, sentence: str, post: Post, accepted: list[Accepted]
) -> None:
    for path in (FORWARD, f"/segment/v1/{fields['type']}"):
        answer = post(path, fields, **KEY)
        assert answer.status_code == 400
        error = body_of(answer)
        assert error["error"]["field"] == field
        assert sentence in error["message"]
        assert (error["code"], error["message"]) == (
            error["error"]["code"],
            error["error"]["message"],
        )
    assert not accepted


@each(("fields", "field", "sentence"), BAD)
def test_in_a_batch_a_bad_message_is_noted_and_costs_no_other(
    fields: dict[str, Any], field: str, sentence: str, post: Post, accepted: list[Accepted]
) -> None:
    answer = post(BATCH, {"batch": [TRACK, fields, TRACK]}, **KEY)
    assert (answer.status_code, body_of(answer)) == (200, {"success": True})
    first, bad, last = (call.message for call in accepted)
    assert first == last == Track("ada", "Report exported", AT)
    assert isinstance(bad, UnusableMessage)
    assert bad.reason == DropReason.INVALID
    assert sentence in bad.detail


@each("kind", BAD_TYPES)
def test_an_unknown_type_is_bad(kind: Any, post: Post, accepted: list[Accepted]) -> None:
    body = {**TRACK, "type": kind}
    answer = post(FORWARD, body, **KEY)
    assert (answer.status_code, body_of(answer)["error"]["field"]) == (400, "type")
    assert post(BATCH, {"batch": [body]}, **KEY).status_code == 200
    (note,) = (call.message for call in accepted)
    assert note == UnusableMessage(
        DropReason.INVALID,
        "unknown",
        "type must be one of identify, group, track, page, screen, alias.",
        "Report exported",
    )


@each("item", [None, 1, "x", [], [TRACK], True])
def test_what_is_no_message_at_all_is_noted(
    item: Any, post: Post, accepted: list[Accepted]
) -> None:
    assert post(BATCH, {"batch": [item, TRACK]}, **KEY).status_code == 200
    note, good = (call.message for call in accepted)
    assert note == UnusableMessage(
        DropReason.INVALID, "unknown", "A message must be a JSON object."
    )
    assert isinstance(good, Track)


def test_a_note_keeps_nothing_but_what_helps_to_find_the_message(
    post: Post, accepted: list[Accepted]
) -> None:
    body = {**TRACK, "messageId": "m1", "timestamp": "?", "properties": {"planted": "planted"}}
    body |= {"context": {"ip": "planted"}, "traits": {"email": "planted"}, "userId": "planted"}
    post(BATCH, {"batch": [body]}, **KEY)
    (note,) = (call.message for call in accepted)
    assert isinstance(note, UnusableMessage)
    assert (note.kind, note.event, note.message_id) == ("track", "Report exported", "m1")
    assert "planted" not in repr(note)


def test_an_address_decides_the_type_of_its_messages(post: Post, accepted: list[Accepted]) -> None:
    assert post("/segment/v1/page", {**TRACK, "name": "Home"}, **KEY).status_code == 200
    assert accepted[0].message == Track("ada", "Viewed Home Page", AT)


@each("path", [FORWARD, "/segment/v1/track"])
def test_the_idempotency_key_names_a_message_that_comes_alone(
    path: str, post: Post, accepted: list[Accepted]
) -> None:
    post(path, TRACK, HTTP_IDEMPOTENCY_KEY="from the header", **KEY)
    post(path, {**TRACK, "messageId": "m1"}, HTTP_IDEMPOTENCY_KEY="from the header", **KEY)
    assert [call.message.message_id for call in accepted] == ["from the header", "m1"]


def ids_of(
    post: Post, accepted: list[Accepted], key: str, *messages: dict[str, Any]
) -> list[str | None]:
    accepted.clear()
    answer = post(BATCH, {"batch": messages}, HTTP_IDEMPOTENCY_KEY=key, **KEY)
    assert answer.status_code == 200
    return [call.message.message_id for call in accepted]


def test_the_idempotency_key_of_a_batch_names_the_messages_without_an_id(
    post: Post, accepted: list[Accepted]
) -> None:
    bad = {"type": "track", "userId": "ada"}
    bodies = (TRACK, {**TRACK, "messageId": "m1"}, bad, {**TRACK, "messageId": ""}, TRACK)
    assert ids_of(post, accepted, "k", *bodies) == ["k#0", "m1", None, "k#3", "k#4"]
    # What cannot be used is no repeat: it may be sent again corrected.
    assert isinstance(accepted[2].message, UnusableMessage)
    assert ids_of(post, accepted, "", *bodies) == [None, "m1", None, None, None]


@each("key", ["k" * 95, "k" * 96, "k" * 100, "漢" * 100])
def test_the_names_of_a_batchs_messages_fit_and_differ(
    key: str, post: Post, accepted: list[Accepted]
) -> None:
    header = key.encode().decode("latin-1")
    ids = ids_of(post, accepted, header, *[TRACK] * 2500)
    assert len(set(ids)) == 2500
    assert max(len(id or "") for id in ids) <= 100
    assert ids == ids_of(post, accepted, header, *[TRACK] * 2500)


def test_a_message_keeps_its_own_id_also_where_it_looks_like_a_given_one(
    post: Post, accepted: list[Accepted]
) -> None:
    own = {**TRACK, "messageId": "k#0"}
    first, second = ids_of(post, accepted, "k", TRACK, own)
    assert second == "k#0" and first not in (None, "k#0")
    assert ids_of(post, accepted, "k", TRACK, own) == [first, second]


@each("key", [" ", "k" * 60_000, "k\0", "k\n", "\xff\xfe"])
def test_no_idempotency_key_costs_a_batch(key: str, post: Post, accepted: list[Accepted]) -> None:
    first = ids_of(post, accepted, key, TRACK, TRACK)
    assert len(set(first)) == 2 and first == ids_of(post, accepted, key, TRACK, TRACK)
    assert all(id and id.isprintable() and len(id) <= 100 for id in first)


# --- Answers --------------------------------------------------------------------------------


def test_pipelines_get_202_with_an_empty_body(post: Post, accepted: list[Accepted]) -> None:
    answer = post(FORWARD, TRACK, **KEY)
    assert (answer.status_code, answer.content) == (202, b"")


@each("path", SDK_PATHS)
def test_sdks_get_200_with_success(path: str, post: Post, accepted: list[Accepted]) -> None:
    body = {"batch": [TRACK]} | TRACK | {"groupId": "initech", "previousId": "a1"}
    answer = post(path, body, **KEY)
    assert (answer.status_code, body_of(answer)) == (200, {"success": True})
    assert answer["Content-Type"] == "application/json"
    assert len(accepted) == 1


def test_the_connection_test_gets_202_and_leaves_nothing(
    post: Post, accepted: list[Accepted]
) -> None:
    for body in (b"{}", b" {\n } ", b"\xef\xbb\xbf{}"):
        assert post(FORWARD, body, **KEY).status_code == 202
    assert not accepted


@each(
    "header",
    [
        "",
        "Basic",
        "Basic ",
        "Basic Og==",
        "Basic a b",
        "Basic ö",
        "Basic \0",
        "Basic edk_one, Basic edk_two",
        "Bearer edk_one",
        "edk_one",
        'Digest username="edk_one"',
    ],
)
@each("body", [{}, TRACK])
def test_a_pipeline_with_a_malformed_authorization_header_gets_an_error(
    header: str, body: dict[str, Any], post: Post, accepted: list[Accepted]
) -> None:
    answer = post(FORWARD, body, HTTP_AUTHORIZATION=header)
    assert answer.status_code == 400
    assert "Authorization" in body_of(answer)["message"]
    assert not accepted


def test_a_pipeline_without_a_key_gets_an_error(post: Post, accepted: list[Accepted]) -> None:
    assert post(FORWARD, TRACK).status_code == 400
    assert post(FORWARD, b"{}").status_code == 400
    assert not accepted


@each("header", ["Bearer x", "nonsense", "Basic a b"])
def test_sdks_with_a_malformed_header_get_200_and_their_messages_are_dropped(
    header: str, post: Post, accepted: list[Accepted]
) -> None:
    assert post(BATCH, {"batch": [TRACK]}, HTTP_AUTHORIZATION=header).status_code == 200
    assert len(accepted) == 1


# --- Keys -----------------------------------------------------------------------------------


@each("path", [FORWARD, *SDK_PATHS])
@each(
    ("header", "write_key", "key"),
    [
        ("Basic edk_one", None, "edk_one"),
        (KEY["HTTP_AUTHORIZATION"], None, "edk_one"),
        ("Basic " + base64.b64encode(b"edk_one").decode(), None, "edk_one"),
        (KEY["HTTP_AUTHORIZATION"], "edk_two", "edk_one"),
        (None, "edk_two", "edk_two"),
    ],
)
def test_the_key_is_the_headers_or_the_bodys(
    path: str,
    header: str | None,
    write_key: str | None,
    key: str,
    post: Post,
    accepted: list[Accepted],
) -> None:
    body: dict[str, Any] = {"batch": [TRACK]} | TRACK | {"groupId": "initech"}
    body |= {"previousId": "a1", "writeKey": write_key}
    headers = {"HTTP_AUTHORIZATION": header} if header else {}
    assert post(path, body, **headers).status_code in {200, 202}
    assert [call.key for call in accepted] == [key]


@each("write_key", [None, 5, "", ["edk_one"], {}])
def test_what_is_no_string_is_no_key(write_key: Any, post: Post, accepted: list[Accepted]) -> None:
    body = {"batch": [TRACK], "writeKey": write_key}
    assert post(BATCH, body).status_code == 200
    assert [call.key for call in accepted] == [""]


# --- Clocks ---------------------------------------------------------------------------------


def at(moment: datetime) -> str:
    return moment.isoformat()


def seconds_off(accepted: list[Accepted]) -> float:
    """By how many seconds the only message lies before its receipt."""
    (call,) = accepted
    late: timedelta = call.received_at - call.message.timestamp
    return late.total_seconds()


@each("wrong_by", [timedelta(hours=-3), timedelta(0), timedelta(days=2)])
def test_the_senders_clock_is_corrected_by_when_it_sent(
    wrong_by: timedelta, post: Post, accepted: list[Accepted]
) -> None:
    its_now = datetime.now(UTC) + wrong_by
    message = {**TRACK, "timestamp": at(its_now - timedelta(seconds=90))}
    post(BATCH, {"batch": [message], "sentAt": at(its_now)}, **KEY)
    assert seconds_off(accepted) == approx(90)


@each("path", [FORWARD, "/segment/v1/track"])
def test_a_message_that_comes_alone_says_itself_when_it_was_sent(
    path: str, post: Post, accepted: list[Accepted]
) -> None:
    body = {**TRACK, "timestamp": "2030-01-01T00:00:00Z", "sentAt": "2030-01-01T00:01:00Z"}
    post(path, body, **KEY)
    assert seconds_off(accepted) == approx(60)


def test_in_a_batch_the_batchs_sent_at_counts_and_else_the_messages(
    post: Post, accepted: list[Accepted]
) -> None:
    body = {**TRACK, "timestamp": "2030-01-01T00:00:00Z", "sentAt": "2030-01-01T00:01:00Z"}
    post(BATCH, {"batch": [body], "sentAt": "2030-01-01T00:00:10Z"}, **KEY)
    assert seconds_off(accepted) == approx(10)
    accepted.clear()
    post(BATCH, {"batch": [body]}, **KEY)
    assert seconds_off(accepted) == approx(60)


def test_the_original_timestamp_counts_where_no_other_is_given(
    post: Post, accepted: list[Accepted]
) -> None:
    body = {"userId": "ada", "event": "x", "originalTimestamp": ISO}
    post("/segment/v1/track", body, **KEY)
    post("/segment/v1/track", {**body, "timestamp": "2026-02-01"}, **KEY)
    times = [call.message.timestamp for call in accepted if isinstance(call.message, Track)]
    assert times == [AT, datetime(2026, 2, 1, tzinfo=UTC)]


def test_a_message_with_received_at_is_not_corrected_again(
    post: Post, accepted: list[Accepted]
) -> None:
    # As Segment forwards it, a day later: its timestamp is right, the device's clock was not.
    body = {**TRACK, "originalTimestamp": "2026-03-01T08:30:00Z"}
    body |= {"sentAt": "2026-03-01T08:30:01Z", "receivedAt": "2026-03-01T10:30:01Z"}
    post(FORWARD, body, **KEY)
    assert accepted[0].message.timestamp == AT


@each(
    "sent_at",
    ["", "soon", 5, None, [], "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "1969-01-01"],
)
def test_a_sent_at_that_tells_nothing_corrects_nothing(
    sent_at: Any, post: Post, accepted: list[Accepted]
) -> None:
    post(BATCH, {"batch": [TRACK], "sentAt": sent_at}, **KEY)
    assert [call.message for call in accepted] == [Track("ada", "Report exported", AT)]


@each("sent_at", ["1970-01-01T00:00:00Z", "2026-03-01T10:29:00Z", "2026-02-01T00:00:00Z"])
def test_what_would_be_from_the_future_is_from_now(
    sent_at: str, post: Post, accepted: list[Accepted]
) -> None:
    post(
        BATCH, {"batch": [{**TRACK, "timestamp": "2026-03-01T10:40:00Z"}], "sentAt": sent_at}, **KEY
    )
    (call,) = accepted
    assert call.message.timestamp == call.received_at - timestamps.FUTURE_OFFSET


@each("sent_at", [at(AT - timedelta(hours=2))[:-6], "2026-03-01 08:30"])
def test_a_sent_at_without_a_zone_corrects_only_a_timestamp_without_one(
    sent_at: str, post: Post, accepted: list[Accepted]
) -> None:
    for path, body in (
        (BATCH, {"batch": [TRACK], "sentAt": sent_at}),
        ("/segment/v1/track", {**TRACK, "timestamp": 1772361000, "sentAt": sent_at}),
        (BATCH, {"batch": [{**TRACK, "timestamp": "2026-03-01T10:30"}], "sentAt": at(AT)}),
    ):
        assert post(path, body, **KEY).status_code == 200
    assert [call.message.timestamp for call in accepted] == [AT] * 3
    accepted.clear()
    both = {**TRACK, "timestamp": "2026-03-01T08:29"}
    post(BATCH, {"batch": [both], "sentAt": sent_at}, **KEY)
    assert seconds_off(accepted) == approx(60)


@each(
    ("value", "moment"),
    [
        (1772361000, AT),
        (1772361000000, AT),
        (1772361000.25, AT.replace(microsecond=250_000)),
        (1772361000250, AT.replace(microsecond=250_000)),
        (1772361000250.0, AT.replace(microsecond=250_000)),
        (0, timestamps.EPOCH),
        (0.0, timestamps.EPOCH),
        ("20260301T103000Z", AT),
        ("2026-03-01t10:30:00,000z", AT),
    ],
)
def test_numbers_and_other_forms_are_timestamps(
    value: Any, moment: datetime, post: Post, accepted: list[Accepted]
) -> None:
    assert post("/segment/v1/track", {**TRACK, "timestamp": value}, **KEY).status_code == 200
    assert post(BATCH, {"batch": [{**TRACK, "timestamp": value}]}, **KEY).status_code == 200
    assert [call.message.timestamp for call in accepted] == [moment] * 2


# --- Batches --------------------------------------------------------------------------------


@each("body", [{}, {"batch": None}])
def test_a_batch_needs_its_array(body: Any, post: Post) -> None:
    answer = post(BATCH, body, **KEY)
    assert answer.status_code == 400
    assert body_of(answer)["error"]["code"] == "missing_field"


@each("items", [{}, "x", 1, True])
def test_an_array_and_nothing_else(items: Any, post: Post) -> None:
    error = body_of(post(BATCH, {"batch": items}, **KEY))["error"]
    assert (error["code"], error["field"]) == ("invalid_field", "batch")
    assert error["message"] == "batch must be an array."


def test_an_empty_batch_is_a_success(post: Post, accepted: list[Accepted]) -> None:
    assert post(BATCH, {"batch": []}, **KEY).status_code == 200
    assert not accepted


def test_a_batch_keeps_its_order(post: Post, accepted: list[Accepted]) -> None:
    events = [f"event {number}" for number in range(50)]
    batch = [{**TRACK, "event": event} for event in events]
    post(BATCH, {"batch": batch}, **KEY)
    assert [call.message.event for call in accepted if isinstance(call.message, Track)] == events


def test_a_batch_may_have_2500_messages_and_no_more(post: Post, accepted: list[Accepted]) -> None:
    small = {"type": "page", "userId": "u"}
    assert post(BATCH, {"batch": [small] * 2500}, **KEY).status_code == 200
    assert len(accepted) == 2500
    answer = post(BATCH, {"batch": [small] * 2501}, **KEY)
    assert (answer.status_code, body_of(answer)["code"]) == (413, "payload_too_large")
    assert "2,500 messages" in body_of(answer)["message"]


def test_a_batch_may_have_4_mib_and_no_more(post: Post, accepted: list[Accepted]) -> None:
    body = json.dumps({"batch": [TRACK]}).encode()
    assert post(BATCH, body.ljust(MAX_BATCH_BODY_BYTES), **KEY).status_code == 200
    answer = post(BATCH, body.ljust(MAX_BATCH_BODY_BYTES + 1), **KEY)
    assert (answer.status_code, body_of(answer)["code"]) == (413, "payload_too_large")
    assert len(accepted) == 1


def test_a_message_that_would_be_too_large_alone_is_too_large_in_a_batch(
    post: Post, accepted: list[Accepted]
) -> None:
    large = {**TRACK, "properties": {"planted": "x" * 64 * 1024}}
    assert post(FORWARD, large, **KEY).status_code == 413
    assert post(BATCH, {"batch": [large, TRACK]}, **KEY).status_code == 200
    note, good = (call.message for call in accepted)
    assert note == UnusableMessage(
        DropReason.INVALID, "unknown", "A message must be at most 65,536 bytes."
    )
    assert isinstance(good, Track)


def test_a_batch_may_be_gzipped(post: Post, accepted: list[Accepted]) -> None:
    body = gzip.compress(json.dumps({"batch": [TRACK] * 3}).encode())
    assert post(BATCH, body, HTTP_CONTENT_ENCODING="gzip", **KEY).status_code == 200
    assert len(accepted) == 3
    bomb = gzip.compress(b" " * (MAX_BATCH_BODY_BYTES + 1))
    assert post(BATCH, bomb, HTTP_CONTENT_ENCODING="gzip", **KEY).status_code == 413


def test_any_content_type_will_do(post: Post, accepted: list[Accepted], client: Any) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "text/html; x", ""):
        data = json.dumps({"batch": [TRACK]})
        answer = client.generic("POST", BATCH, data, content_type, **KEY)
        assert answer.status_code == 200
    assert len(accepted) == 4
