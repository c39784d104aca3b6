"""The forms of ISO 8601 that standard libraries print: each is read as the moment it says."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ingestion import timestamps
from ingestion.errors import IngestionError
from tests.cases import each

AT = datetime(2026, 9, 24, 10, 11, 12, 123_456, tzinfo=UTC)
SECOND = AT.replace(microsecond=0)
MILLISECOND = AT.replace(microsecond=123_000)
DAY = datetime(2026, 9, 24, tzinfo=UTC)
IN_PARIS = DAY - timedelta(hours=2)
# Monrovia was 44 minutes and 30 seconds behind UTC until 1972.
IN_MONROVIA = datetime(1971, 6, 1, 0, 44, 30, tzinfo=UTC)

# Texts as the library's own methods and constants printed them.
PRINTED = {
    "JavaScript Date.toISOString": ("2026-09-24T10:11:12.123Z", MILLISECOND),
    "JavaScript Temporal.Instant": ("2026-09-24T10:11:12.123456789Z", AT),
    "JavaScript Temporal.ZonedDateTime": (
        "2026-09-24T12:11:12.123456789+02:00[Europe/Paris]",
        AT,
    ),
    "JavaScript Temporal.ZonedDateTime with a calendar": (
        "2026-09-24T12:11:12+02:00[Europe/Paris][u-ca=gregory]",
        SECOND,
    ),
    "JavaScript Temporal, critical": (
        "2026-09-24T12:11:12+02:00[!Europe/Paris][!u-ca=iso8601]",
        SECOND,
    ),
    "JavaScript Temporal.PlainDateTime": ("2026-09-24T10:11:12[u-ca=gregory]", SECOND),
    "JavaScript Temporal.PlainDate": ("2026-09-24[u-ca=hebrew]", DAY),
    "JavaScript Temporal.PlainYearMonth": ("2026-09", DAY.replace(day=1)),
    "JavaScript with an expanded year": ("+002026-09-24T10:11:12.123Z", MILLISECOND),
    "Java Instant": ("2026-09-24T10:11:12.123456789Z", AT),
    "Java OffsetDateTime": ("2026-09-24T12:11+02:00", SECOND.replace(second=0)),
    "Java ZonedDateTime": ("2026-09-24T12:11:12.123456789+02:00[Europe/Paris]", AT),
    "Java ZonedDateTime of GMT+2": ("2026-09-24T12:11:12+02:00[GMT+02:00]", SECOND),
    "Java ZonedDateTime of UTC": ("2026-09-24T10:11:12Z[UTC]", SECOND),
    "Java ZonedDateTime of old": ("1971-06-01T00:00-00:44:30[Africa/Monrovia]", IN_MONROVIA),
    "Java LocalDateTime": ("2026-09-24T10:11", SECOND.replace(second=0)),
    "Java YearMonth": ("2026-09", DAY.replace(day=1)),
    "Java Year": ("2026", datetime(2026, 1, 1, tzinfo=UTC)),
    "Java Timestamp": ("2026-09-24 10:11:12.123456789", AT),
    "Java BASIC_ISO_DATE": ("20260924", DAY),
    "Java BASIC_ISO_DATE with an offset": ("20260924+0200", IN_PARIS),
    "Java BASIC_ISO_DATE in UTC": ("20260924Z", DAY),
    "Java BASIC_ISO_DATE of old": ("19710601-004430", IN_MONROVIA),
    "Java ISO_OFFSET_DATE": ("2026-09-24+02:00", IN_PARIS),
    "Java ISO_DATE in UTC": ("2026-09-24Z", DAY),
    "Java ISO_DATE of old": ("1971-06-01-00:44:30", IN_MONROVIA),
    "Java ISO_OFFSET_DATE_TIME": ("1971-06-01T00:00:00-00:44:30", IN_MONROVIA),
    "Java ISO_ORDINAL_DATE": ("2026-267", DAY),
    "Java ISO_ORDINAL_DATE with an offset": ("2026-267+02:00", IN_PARIS),
    "Java ISO_ORDINAL_DATE of old": ("1971-152-00:44:30", IN_MONROVIA),
    "Java ISO_WEEK_DATE": ("2026-W39-4", DAY),
    "Java ISO_WEEK_DATE with an offset": ("2026-W39-4+02:00", IN_PARIS),
    "Java ISO_WEEK_DATE in UTC": ("2026-W39-4Z", DAY),
    "Go RFC3339": ("2026-09-24T12:11:12+02:00", SECOND),
    "Go RFC3339Nano": ("2026-09-24T12:11:12.123456789+02:00", AT),
    "Go DateTime": ("2026-09-24 10:11:12", SECOND),
    "Go DateOnly": ("2026-09-24", DAY),
    "Go Time.String": ("2026-09-24 12:11:12.123456789 +0200 CEST", AT),
    "Go Time.String in UTC": ("2026-09-24 10:11:12 +0000 UTC", SECOND),
    "Go Time.String without an abbreviation": ("2026-09-24 15:41:12 +0530 +0530", SECOND),
    "Go Time.String of now": ("2026-09-24 12:11:12 +0200 CEST m=+86401.000012345", SECOND),
    "PHP ATOM": ("2026-09-24T12:11:12+02:00", SECOND),
    "PHP ISO8601": ("2026-09-24T12:11:12+0200", SECOND),
    "PHP ISO8601_EXPANDED": ("+2026-09-24T12:11:12+02:00", SECOND),
    "PHP RFC3339_EXTENDED": ("2026-09-24T12:11:12.123+02:00", MILLISECOND),
    "PHP o-\\WW-N": ("2026-W39-4", DAY),
    "ISO 8601 basic week": ("2026W394", DAY),
    "ISO 8601 week": ("2026-W39", datetime(2026, 9, 21, tzinfo=UTC)),
    "ISO 8601 basic week without a day": ("2026W39", datetime(2026, 9, 21, tzinfo=UTC)),
    "ISO 8601 basic ordinal date": ("2026267T1011", SECOND.replace(second=0)),
    "ISO 8601 hour": ("2026-09-24T10Z", DAY.replace(hour=10)),
    "ISO 8601 basic hour": ("20260924T10", DAY.replace(hour=10)),
    "ISO 8601 decimal hour": ("2026-09-24T10.25Z", DAY.replace(hour=10, minute=15)),
    "ISO 8601 decimal minute": ("2026-09-24T10:11,2Z", SECOND),
    "ISO 8601 end of the day": ("2026-09-23T24:00:00Z", DAY),
    "ISO 8601 end of the day, basic": ("20260923T24", DAY),
    "ISO 8601 leap second": (
        "2016-12-31T23:59:60Z",
        datetime(2016, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ),
    "ISO 8601 leap second in India": (
        "2017-01-01T05:29:60.25+05:30",
        datetime(2016, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ),
}


@each("name", PRINTED)
def test_what_a_library_prints_is_read(name: str) -> None:
    text, moment = PRINTED[name]
    assert timestamps.parse_iso(text) == moment
    assert timestamps.parse_iso(text.lower()) == moment
    assert timestamps.parse_iso(text).tzinfo is UTC


# --- Any moment in any form -----------------------------------------------------------------

# Writers of a day and of a time of day, as the standard spells them: the parser's mirror image.
DATES: dict[str, tuple[bool, Callable[[date], str]]] = {
    "extended": (True, lambda day: f"{day:%Y-%m-%d}"),
    "basic": (False, lambda day: f"{day:%Y%m%d}"),
    "ordinal": (True, lambda day: f"{day:%Y}-{day.timetuple().tm_yday:03}"),
    "basic ordinal": (False, lambda day: f"{day:%Y}{day.timetuple().tm_yday:03}"),
    "week": (True, lambda day: "{:04}-W{:02}-{}".format(*day.isocalendar())),
    "basic week": (False, lambda day: "{:04}W{:02}{}".format(*day.isocalendar())),
    "signed": (True, lambda day: f"+{day:%Y-%m-%d}"),
    "expanded": (True, lambda day: f"+00{day:%Y-%m-%d}"),
}
offsets = st.none() | st.integers(-86_399, 86_399)


def write_offset(seconds: int | None, colon: str) -> str:
    if seconds is None:
        return ""
    minutes, rest = divmod(abs(seconds), 60)
    parts = [minutes // 60, minutes % 60] + ([rest] if rest else [])
    return ("-" if seconds < 0 else "+") + colon.join(f"{part:02}" for part in parts)


@example(datetime(9999, 12, 31, 23, 59, 59, 999_999), None, "week", ":")
@example(datetime(1970, 1, 1), None, "basic week", "")
@given(
    local=st.datetimes(datetime(1970, 1, 2), datetime(9998, 12, 30)),
    offset=offsets,
    form=st.sampled_from(sorted(DATES)),
    colon=st.sampled_from(["", ":"]),
)
def test_every_moment_survives_every_form(
    local: datetime, offset: int | None, form: str, colon: str
) -> None:
    extended, write_day = DATES[form]
    clock = f"{local:%H:%M:%S.%f}" if extended else f"{local:%H%M%S,%f}"
    zone = write_offset(offset, colon)
    text = f"{write_day(local.date())}T{clock}{zone}"
    expected = local.replace(tzinfo=timezone(timedelta(seconds=offset or 0))).astimezone(UTC)
    assert timestamps.read_iso(text) == (expected, offset is not None)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    day = timestamps.parse_iso(write_day(local.date()) + zone)
    assert day == midnight - timedelta(seconds=offset or 0)


@given(
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    digits=st.text("0123456789", min_size=1, max_size=40),
)
def test_fractions_of_hours_and_minutes_are_exact(hour: int, minute: int, digits: str) -> None:
    denominator = 10 ** len(digits)
    of_hour = timedelta(microseconds=int(digits) * 3_600_000_000 // denominator)
    of_minute = timedelta(microseconds=int(digits) * 60_000_000 // denominator)
    start = DAY + timedelta(hours=hour)
    assert timestamps.parse_iso(f"2026-09-24T{hour:02}.{digits}Z") == start + of_hour
    moment = timestamps.parse_iso(f"20260924T{hour:02}{minute:02},{digits}")
    assert moment == start + timedelta(minutes=minute) + of_minute


@given(day=st.dates(date(1970, 1, 1), date(9999, 12, 30)), second=st.integers(0, 60))
def test_texts_in_order_are_times_in_order(day: date, second: int) -> None:
    before = timestamps.parse_iso(f"{day}T23:59:{second:02}Z")
    after = timestamps.parse_iso(f"{day}T24:00Z")
    assert before < after == timestamps.parse_iso(f"{day + timedelta(days=1)}")
    assert before.date() == day


@given(st.integers(0, 9999), st.integers(0, 999))
def test_a_year_has_as_many_days_as_the_calendar(year: int, ordinal: int) -> None:
    assume(year >= 1970)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if 1 <= ordinal <= 365 + leap:
        moment = timestamps.parse_iso(f"{year:04}-{ordinal:03}")
        assert moment.timetuple()[0] == year
        assert moment.timetuple().tm_yday == ordinal
    else:
        with pytest.raises(IngestionError):
            timestamps.parse_iso(f"{year:04}-{ordinal:03}")
