"""When digests are due: each period once, in any zone, whatever the clock does."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifications.digests.schedule import RECENT, Schedule, Slot, is_recent, last_slot
from notifications.models import Digest

HOUR = timedelta(hours=1)
# Those with odd offsets, half-hour changes, changes at midnight, and a day that never was.
ODD = [
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"),
    *("America/St_Johns", "Pacific/Apia", "Pacific/Chatham", "America/Sao_Paulo", "Africa/Cairo"),
    *("Atlantic/Azores", "Antarctica/Troll", "America/Havana", "Asia/Beirut", "UTC"),
]
zones = st.sampled_from(ODD) | st.sampled_from(sorted(available_timezones()))
schedules = st.builds(
    Schedule, st.sampled_from(["week", "day"]), st.integers(0, 6), st.integers(0, 23), zones
)
times = st.datetimes(datetime(2005, 1, 1), datetime(2040, 1, 1)).map(
    lambda time: time.replace(tzinfo=UTC)
)


class Sender:
    """What the database does: a period that has its row gets no other."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.sent: dict[date, datetime] = {}

    def look(self, now: datetime) -> None:
        slot = last_slot(self.schedule, now)
        if is_recent(self.schedule, slot):
            self.sent.setdefault(slot.day, now)


def walls(schedule: Schedule, begin: datetime, end: datetime) -> set[date]:
    """The periods whose hour comes between two times, found minute by minute on the wall."""
    zone, days = ZoneInfo(schedule.time_zone), set()
    now, before = begin, begin.astimezone(zone).replace(tzinfo=None)
    while now < end:
        now += timedelta(minutes=15)
        wall = now.astimezone(zone).replace(tzinfo=None)
        day = before.date()
        while day <= wall.date():
            at = datetime.combine(day, datetime.min.time()) + schedule.hour * HOUR
            is_day = schedule.cadence == "day" or day.weekday() == schedule.weekday
            # From before its hour to after it: also over an hour that does not exist. Of a day that
            # does not exist, midnight is.
            if is_day and before < at <= wall and wall - at < RECENT[_cadence(schedule)]:
                days.add(day if schedule.cadence == "day" else day - timedelta(day.weekday()))
            day += timedelta(days=1)
        before = max(before, wall)
    return days


def _cadence(schedule: Schedule) -> Digest.Cadence:
    return Digest.Cadence(schedule.cadence)


@given(schedules, times, st.integers(1, 60))
def test_each_period_comes_once_while_the_service_runs(
    schedule: Schedule, begin: datetime, minutes: int
) -> None:
    sender, now, end = Sender(schedule), begin, begin + timedelta(days=9)
    # What was due before it began is not of interest.
    before = last_slot(schedule, begin).day
    while now < end:
        now += timedelta(minutes=minutes)
        sender.look(now)
    expected = walls(schedule, begin, end - timedelta(hours=2))
    late = walls(schedule, end - timedelta(hours=2), end + timedelta(hours=2))
    assert expected <= set(sender.sent) | {before}
    assert set(sender.sent) <= expected | {before} | late


@given(schedules, times, st.lists(st.timedeltas(-30 * 24 * HOUR, 30 * 24 * HOUR), max_size=30))
def test_a_clock_that_jumps_sends_no_period_twice_and_the_next_one_again(
    schedule: Schedule, begin: datetime, jumps: list[timedelta]
) -> None:
    sender, now = Sender(schedule), begin
    looks = 0
    for jump in jumps:
        now += jump
        for minutes in (0, 1, 61):
            looks += 1
            sender.look(now + timedelta(minutes=minutes))
    assert len(sender.sent) <= looks
    # Whatever it did, a clock that is right from now on brings the period that follows.
    following = now
    for _ in range(9 * 24 * 4):
        following += timedelta(minutes=15)
        sender.look(following)
    assert last_slot(schedule, now + timedelta(days=8)).day in sender.sent


@given(schedules, times, st.integers(1, 400))
def test_after_an_outage_one_digest_comes_at_most(
    schedule: Schedule, begin: datetime, days: int
) -> None:
    sender = Sender(schedule)
    sender.look(begin)
    first = set(sender.sent)
    back = begin + timedelta(days=days)
    sender.look(back)
    sender.look(back + timedelta(minutes=1))
    assert len(set(sender.sent) - first) <= 1 + (schedule.hour == _minute_later(schedule, back))


def _minute_later(schedule: Schedule, now: datetime) -> int:
    """The hour on the wall one minute later: a new period may begin in between."""
    return (now + timedelta(minutes=1)).astimezone(ZoneInfo(schedule.time_zone)).hour


def looks(zone: str, hour: int, *times: str) -> list[Slot]:
    return [last_slot(Schedule("day", 0, hour, zone), datetime.fromisoformat(at)) for at in times]


@pytest.mark.parametrize(
    ("zone", "hour", "before", "after"),
    [
        # Clocks skip from 02:00 to 03:00, and in Lord Howe from 02:00 to 02:30.
        ("Europe/Berlin", 2, "2026-03-29T00:59:00Z", "2026-03-29T01:00:00Z"),
        ("America/New_York", 2, "2026-03-08T06:59:00Z", "2026-03-08T07:00:00Z"),
        ("Australia/Lord_Howe", 2, "2026-10-03T15:29:00Z", "2026-10-03T15:30:00Z"),
        # From midnight to 01:00.
        ("Asia/Beirut", 0, "2026-03-28T21:59:00Z", "2026-03-28T22:00:00Z"),
    ],
)
def test_an_hour_that_does_not_exist_is_the_moment_after_it(
    zone: str, hour: int, before: str, after: str
) -> None:
    earlier, slot = looks(zone, hour, before, after)
    assert slot.day == earlier.day + timedelta(days=1)
    assert slot.age <= HOUR


@pytest.mark.parametrize(
    ("zone", "hour", "first", "second"),
    [
        ("Europe/Berlin", 2, "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"),
        ("America/New_York", 1, "2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z"),
        # 01:30 to 02:00 come twice: 02:00 itself once.
        ("Australia/Lord_Howe", 1, "2026-04-04T14:00:00Z", "2026-04-04T15:00:00Z"),
    ],
)
def test_an_hour_that_comes_twice_is_its_first_time(
    zone: str, hour: int, first: str, second: str
) -> None:
    once, again = looks(zone, hour, first, second)
    assert once.day == again.day and once.age == timedelta()


def test_another_weekday_is_no_second_digest_of_the_same_week() -> None:
    thursday = datetime(2026, 9, 24, 12, tzinfo=UTC)
    days = {last_slot(Schedule("week", weekday, 8, "UTC"), thursday).day for weekday in range(4)}
    assert days == {date(2026, 9, 21)}
    # Its Friday was last week's.
    assert last_slot(Schedule("week", 4, 8, "UTC"), thursday).day == date(2026, 9, 14)
