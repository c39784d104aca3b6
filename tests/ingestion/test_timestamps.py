"""When something happened: which texts and numbers say so, and which clocks are believed."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from ingestion import timestamps
from ingestion.errors import IngestionError
from tests.cases import each
from tests.ingestion.conftest import Accepted, Post
from tests.ingestion.examples import MINIMAL, PATHS, refusal

NOW = datetime(2026, 9, 24, 12, tzinfo=UTC)
AT = datetime(2026, 9, 24, 10, 11, 12, tzinfo=UTC)

MILLISECOND = AT.replace(microsecond=123_000)


@each(
    ("text", "moment"),
    [
        ("2026-09-24T10:11:12Z", AT),
        ("2026-09-24 10:11:12Z", AT),
        ("2026-09-24T10:11:12", AT),
        ("2026-09-24T10:11:12.123Z", AT.replace(microsecond=123_000)),
        ("2026-09-24T10:11:12.1", AT.replace(microsecond=100_000)),
        ("2026-09-24T10:11:12.123456Z", AT.replace(microsecond=123_456)),
        ("2026-09-24T10:11:12.123456999Z", AT.replace(microsecond=123_456)),
        ("2026-09-24T10:11:12." + "9" * 5000 + "Z", AT.replace(microsecond=999_999)),
        ("2026-09-24T10:11:12.123456789+02:00", AT.replace(hour=8, microsecond=123_456)),
        ("2026-09-24T10:11Z", AT.replace(second=0)),
        ("2026-09-24T10:11", AT.replace(second=0)),
        ("2026-09-24 10:11-05:30", AT.replace(hour=15, minute=41, second=0)),
        ("2026-09-24T12:11:12+02:00", AT),
        ("2026-09-24T12:11:12+0200", AT),
        ("2026-09-24T12:11:12+02", AT),
        ("2026-09-24T10:11:12-00:00", AT),
        ("2026-09-25T10:00:12+23:49", AT),
        ("2026-09-24", datetime(2026, 9, 24, tzinfo=UTC)),
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        ("1970-01-01", datetime(1970, 1, 1, tzinfo=UTC)),
        ("1969-12-31T23:00:00-01:00", datetime(1970, 1, 1, tzinfo=UTC)),
        ("2026-09-24t10:11:12z", AT.replace(microsecond=0)),
        ("2026-09-24T10:11:12,123Z", MILLISECOND),
        ("20260924T101112.123Z", MILLISECOND),
        ("20260924t101112,123+0000", MILLISECOND),
        ("20260924T121112.123+02", MILLISECOND),
        ("20260924T1011Z", AT.replace(second=0, microsecond=0)),
        ("20260924", datetime(2026, 9, 24, tzinfo=UTC)),
        (
            "9999-12-31T23:59:59.999999999Z",
            datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        ),
    ],
)
def test_an_iso_text_is_a_time_in_utc(text: str, moment: datetime) -> None:
    parsed = timestamps.parse_iso(text)
    assert parsed == moment
    assert parsed.tzinfo is UTC


NOT_ISO = [
    "",
    " ",
    "now",
    "1790244672000",
    "2026-09-24T101112",
    "20260924T10:11:12Z",
    "20260924 101112",
    "20260924T101112.Z",
    "202609241",
    "20260229",
    "2026-9-24",
    "2026-09-24T",
    "2026-09-24x10:11:12Z",
    "2026-09-24  10:11:12Z",
    "2026-09-24T10:11:12 Z",
    "2026-09-24T10:11:12Z\n",
    " 2026-09-24T10:11:12Z",
    "2026-09-24T10:11:12.Z",
    "2026-09-24T10:11:12\0",
    "2026-09-24T10:11:12+2:00",
    "2026-09-24T10:11:12+02:60",
    "2026-09-24T10:11:12+24:00",
    "2026-09-24T10:11:12+",
    "2026-09-24T10:11:12UTC",
    "2026-09-24 10:11:12 UTC",
    "2026-09-24T10:11:12[Europe/Paris]",
    "2026-09-24T10:11:12+02:00[Europe/Paris",
    "2026-09-24T10:11:12+02:00[]",
    "2026-09-24T10:11:12+02:00[Europe/Paris][Europe/Rome]",
    "2026-09-24T24:00:01Z",
    "2026-09-24T24:00:00.1Z",
    "2026-09-24T25:00:00Z",
    "2026-09-24T10:11:60Z",
    "2026-09-24T23:59:60+02:00",
    "2026-09-24T23:59:61Z",
    "2026-09-24T10:60.5Z",
    "2026-09-24T10.Z",
    "2026-09-24T10:11:12+02:00:60",
    "2026-W54-1",
    "2027-W53-1",
    "2026-W00-1",
    "2026-W39-0",
    "2026-W39-8",
    "2026W39-4",
    "2026-W394",
    "2026-000",
    "2026-366",
    "9999-366",
    "2026-1",
    "202609",
    "2026-09Z",
    "2026-09T10:11Z",
    "2026-W39T10:11Z",
    "2026Z",
    "20",
    "--09-24",
    "10:11:12Z",
    "T10:11:12Z",
    "P1D",
    "2026-09-24/2026-09-25",
    "+20260924",
    "+010000-01-01T00:00:00Z",
    "+012026-09-24T10:11:12Z",
    "-002026-09-24T10:11:12Z",
    "9999-12-31T24:00:00Z",
    "1970-W01-1",
    "Thu, 24 Sep 2026 10:11:12 GMT",
    "2026-09-24T23:60:00Z",
    "2026-02-29",
    "2026-13-01",
    "2026-00-01",
    "2026-01-00",
    "0000-01-01",
    "10000-01-01",
    "-2026-09-24",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "1969-12-31T23:59:59.999999Z",
    "1970-01-01T00:00:00+00:01",
    "\uff12\uff10\uff12\uff16-09-24",
    "2026-09-24T10:11:1\u0968",
]


@each("text", NOT_ISO)
def test_no_other_text_is_a_time(text: str) -> None:
    with pytest.raises(IngestionError) as refused:
        timestamps.parse_iso(text)
    assert (refused.value.code, refused.value.field) == ("invalid_timestamp", "timestamp")
    assert "2026-09-24T10:11:12Z" in refused.value.message


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (1790244672, AT.replace(microsecond=0)),
        (1790244672123, MILLISECOND),
        (1790244672.123, MILLISECOND),
        (99_999_999_999, datetime(5138, 11, 16, 9, 46, 39, tzinfo=UTC)),
        (100_000_000_000, datetime(1973, 3, 3, 9, 46, 40, tzinfo=UTC)),
    ],
)
def test_numbers_are_seconds_or_milliseconds_by_their_size(number: float, moment: datetime) -> None:
    assert timestamps.from_number(number) == moment


@each("value", [True, None, "1790244672", [], -1, -0.5, 10**30, float("nan")])
def test_no_other_value_is_a_time(value: object) -> None:
    with pytest.raises(IngestionError):
        timestamps.from_number(value)


@each(
    ("text", "expected"),
    [
        ("2026-09-24T10:11:12Z", True),
        ("20260924t101112z", True),
        ("2026-09-24T10:11:12.123+00:00", True),
        ("2026-09-24 10:11-05", True),
        ("20260924T1011+0530", True),
        ("2026-09-24-05:00", True),
        ("2026-267-05:00", True),
        ("2026-W39-4Z", True),
        ("2026-09-24T12:11:12+02:00[Europe/Paris]", True),
        ("2026-09-24 12:11:12 +0200 CEST m=+0.000012345", True),
        ("2026-09-24T10:11:12", False),
        ("20260924T1011", False),
        ("2026-09-24", False),
        ("20260924", False),
        ("+002026-09-24", False),
        ("2026-W39-4T10", False),
        ("2026-09", False),
        ("2026-09-24T10:11:12[u-ca=gregory]", False),
    ],
)
def test_whether_a_time_has_a_zone(text: str, expected: bool) -> None:
    assert timestamps.read_iso(text)[1] is expected


@pytest.mark.parametrize(
    ("milliseconds", "moment"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1790244672123, AT.replace(microsecond=123_000)),
        (
            253_402_300_799_999,
            datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        ),
    ],
)
def test_milliseconds_are_exact(milliseconds: int, moment: datetime) -> None:
    far_ahead = datetime(9999, 12, 31, 23, 55, tzinfo=UTC)
    assert timestamps.from_milliseconds(milliseconds, far_ahead) == moment


@each("path", [path for path in PATHS if path.startswith("/v2")])
@each(
    "value",
    [
        b'"yesterday"',
        b'""',
        b'"\\ud800"',
        b"1790244672000",
        b"1.5",
        b"1e999",
        b"9" * 5000,
        b"true",
        b"[]",
        b"{}",
    ],
)
def test_v2_takes_iso_texts_only(path: str, value: bytes, post: Post) -> None:
    response = post(path, with_timestamp(path, value))
    assert refusal(response) == (400, "invalid_timestamp", "timestamp")


@each("path", [path for path in PATHS if path.startswith("/v1")])
@each(
    "value",
    [
        b"-1",
        b"253402300800000",
        b"1" + b"0" * 30,
        b"-1" + b"0" * 30,
        b"1" + b"0" * 5000,
        b"1790244672000.0",
        b"1.5",
        b"1e12",
        b"1e999",
        b"true",
        b'"1790244672000"',
        b'"2026-09-24T10:11:12Z"',
        b"[]",
        b"{}",
    ],
)
def test_v1_takes_integers_only(path: str, value: bytes, post: Post) -> None:
    response = post(path, with_timestamp(path, value))
    assert refusal(response) == (400, "invalid_timestamp", "timestamp")


@pytest.mark.parametrize(
    ("ahead", "believed"),
    [
        (timedelta(days=-10_000), True),
        (timedelta(0), True),
        (timedelta(minutes=5), True),
        (timedelta(minutes=5, milliseconds=1), False),
        (timedelta(days=365_000), False),
    ],
)
def test_a_clock_is_believed_up_to_five_minutes_ahead(ahead: timedelta, believed: bool) -> None:
    moment_sent = NOW + ahead
    expected_time = moment_sent if believed else NOW - timestamps.FUTURE_OFFSET
    assert timestamps.from_iso(moment_sent.isoformat(), NOW) == expected_time
    milliseconds = (moment_sent - timestamps.EPOCH) // timedelta(milliseconds=1)
    assert timestamps.from_milliseconds(milliseconds, NOW) == expected_time


@each("path", PATHS)
def test_without_a_timestamp_it_is_the_time_of_receipt(
    path: str, post: Post, accepted: list[Accepted]
) -> None:
    before = datetime.now(UTC)
    post(path, MINIMAL[path])
    assert before <= accepted[0].received_at <= datetime.now(UTC)
    assert accepted[0].message.timestamp == accepted[0].received_at
    assert accepted[0].message.timestamp.tzinfo is UTC


@each("path", PATHS)
def test_a_message_from_the_future_is_taken_as_of_now(
    path: str, post: Post, accepted: list[Accepted]
) -> None:
    future = "2999-01-01" if path.startswith("/v2") else 32_472_144_000_000
    post(path, MINIMAL[path] | {"timestamp": future})
    (call,) = accepted
    assert call.message.timestamp == call.received_at - timestamps.FUTURE_OFFSET
    assert timestamps.was_clamped(call.message.timestamp, call.received_at)


@each("path", PATHS)
def test_no_other_message_seems_to_be_from_the_future(
    path: str, post: Post, accepted: list[Accepted]
) -> None:
    now = datetime.now(UTC)
    post(path, MINIMAL[path])
    for ahead in (timedelta(minutes=-1), timedelta(minutes=4)):
        moment = now + ahead
        value = round(moment.timestamp() * 1000) if path.startswith("/v1") else str(moment)
        assert post(path, MINIMAL[path] | {"timestamp": value}).status_code == 202
    assert not any(
        timestamps.was_clamped(call.message.timestamp, call.received_at) for call in accepted
    )


@pytest.mark.parametrize(
    ("moment", "does"),
    [
        (timestamps.EPOCH, False),
        (datetime(1970, 1, 11, 22, tzinfo=UTC), False),
        # 2000, today, and 2100, as seconds that are read as milliseconds.
        (datetime(1970, 1, 11, 23, tzinfo=UTC), True),
        (timestamps.EPOCH + timedelta(milliseconds=AT.timestamp()), True),
        (datetime(1970, 2, 17, 11, tzinfo=UTC), True),
        (datetime(1970, 2, 18, tzinfo=UTC), False),
        (AT, False),
    ],
)
def test_seconds_are_told_from_milliseconds(moment: datetime, does: bool) -> None:
    assert timestamps.looks_like_seconds(moment) is does


def with_timestamp(path: str, value: bytes) -> bytes:
    return json.dumps(MINIMAL[path] | {"timestamp": "@"}).encode().replace(b'"@"', value)
