"""When a digest is due, by the clock on the wall of its reader.

A digest belongs to a calendar week or day of its time zone. It is due from its hour on. So an hour
that a change of summer time skips is the moment after it, and one that it repeats is its first:
the second time, the period has its row. A clock that jumps back finds that row, too.
"""

from datetime import date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from notifications.models import Digest

# A digest that was not sent for longer, because the service was down, is left out.
RECENT = {Digest.Cadence.WEEK: timedelta(days=3), Digest.Cadence.DAY: timedelta(hours=12)}


class Schedule(NamedTuple):
    """How often, and when. Weekdays count from Monday, which is 0."""

    cadence: str
    weekday: int
    hour: int
    time_zone: str

    @classmethod
    def of(cls, digest: Digest) -> "Schedule":
        return cls(digest.cadence, digest.weekday, digest.hour, digest.time_zone)


class Slot(NamedTuple):
    """The last time at which a digest was due: the first day of its period, and how long ago."""

    day: date
    age: timedelta


def last_slot(schedule: Schedule, now: datetime) -> Slot:
    wall = now.astimezone(ZoneInfo(schedule.time_zone)).replace(tzinfo=None)
    day = (wall - timedelta(hours=schedule.hour)).date()
    if schedule.cadence == Digest.Cadence.DAY:
        return Slot(day, wall - datetime.combine(day, time(schedule.hour)))
    day -= timedelta(days=(day.weekday() - schedule.weekday) % 7)
    age = wall - datetime.combine(day, time(schedule.hour))
    # Another weekday does not make another period.
    return Slot(day - timedelta(days=day.weekday()), age)


def is_recent(schedule: Schedule, slot: Slot) -> bool:
    return slot.age < RECENT[Digest.Cadence(schedule.cadence)]
