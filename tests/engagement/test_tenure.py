"""When a subject was created, and how many days ago."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engagement.tenure import created_at, parse_time, tenure_days
from tests.cases import each

FIRST_SEEN = datetime(2026, 5, 1, 9, tzinfo=UTC)
NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)


@each(
    ("value", "expected"),
    [
        ("2024-01-01", NEW_YEAR),
        ("20240101", NEW_YEAR),
        ("2024-01-01T00:00", NEW_YEAR),
        ("2024-01-01 00:00:00", NEW_YEAR),
        ("2024-01-01T00:00:00Z", NEW_YEAR),
        ("2024-01-01T02:00:00+02:00", NEW_YEAR),
        (" 2024-01-01T00:00:00.000Z ", NEW_YEAR),
        ("2024-01-01T00:00:00.1234567Z", NEW_YEAR + timedelta(microseconds=123456)),
        ("1969-07-20T20:17:40Z", datetime(1969, 7, 20, 20, 17, 40, tzinfo=UTC)),
        (1704067200, NEW_YEAR),
        (1704067200.5, NEW_YEAR + timedelta(milliseconds=500)),
        (1704067200000, NEW_YEAR),
        ("1704067200", NEW_YEAR),
        ("1704067200000", NEW_YEAR),
    ],
)
def test_a_created_trait_is_iso_8601_or_unix_time(value: Any, expected: datetime) -> None:
    assert created_at({"createdAt": value}, FIRST_SEEN) == expected


@each(
    "value",
    [
        None, "", "yesterday", "2024-13-01", "2024-01-01T24:00:00Z", "٢٠٢٤-01-01",
        "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1" * 5000,
        True, 0, -5, 10**30, 1e308, float("nan"), float("inf"), [2024], {"at": "2024-01-01"},
    ],
)  # fmt: skip
def test_an_unusable_value_is_ignored(value: Any) -> None:
    assert created_at({"createdAt": value}, FIRST_SEEN) == FIRST_SEEN


def test_either_spelling_of_the_trait_counts() -> None:
    assert created_at({"created_at": "2024-01-01"}, FIRST_SEEN) == NEW_YEAR
    assert created_at({"createdAt": "?", "created_at": "2024-01-01"}, FIRST_SEEN) == NEW_YEAR
    both = {"createdAt": "2024-01-01", "created_at": "2025-01-01"}
    assert created_at(both, FIRST_SEEN) == NEW_YEAR


def test_without_a_trait_a_subject_was_created_when_first_seen() -> None:
    assert created_at({}, FIRST_SEEN) == FIRST_SEEN


def test_tenure_counts_utc_days() -> None:
    assert tenure_days(NEW_YEAR, date(2024, 1, 1)) == 0
    assert tenure_days(NEW_YEAR, date(2024, 3, 1)) == 60
    late_in_the_west = datetime(2023, 12, 31, 20, tzinfo=timezone(timedelta(hours=-8)))
    assert tenure_days(late_in_the_west, date(2024, 1, 2)) == 1


def test_tenure_of_a_subject_created_in_the_future_is_zero() -> None:
    assert tenure_days(NEW_YEAR, date(2023, 1, 1)) == 0


@given(
    st.one_of(
        st.text(),
        st.integers(),
        st.floats(),
        st.datetimes(timezones=st.timezones()).map(lambda moment: moment.isoformat()),
    )
)
def test_any_value_is_a_time_in_utc_or_none(value: Any) -> None:
    parsed = parse_time(value)
    assert parsed is None or parsed.utcoffset() == timedelta(0)
