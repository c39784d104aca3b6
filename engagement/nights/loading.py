"""Reads what a night decides by: the weekly user-days of all accounts, as arrays.

PostgreSQL packs the active days of some thousand accounts at a time into one value, so that no row
becomes a Python object. What stays in memory is about 100 bytes for each active account.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any, LiteralString

import numpy as np
import numpy.typing as npt

from core.database import sql
from engagement.alarms.statistic import WEEKS, Accounts
from engagement.models import ScoreSet
from engagement.scores.active_days import DAY, GREATEST_DELAY

DAYS = 7 * WEEKS
# An account's usual delay is that of as many days.
DELAY_DAYS = 28
# The connection keeps a buffer as large as the largest value that it has read.
ROWS_PER_READ, ACCOUNTS_PER_READ = 20_000, 5_000
# With at most two users on any day, an account is small.
SMALL_USERS = 2

_SUBJECTS: LiteralString = """
    SELECT string_agg(
        int8send(account_id) || int4send(total_users)
            || int2send(COALESCE(activity, -1)::smallint), '' ORDER BY account_id)
    FROM (
        SELECT account_id, total_users, activity FROM engagement_accountengagement
        WHERE product_id = %(product)s AND score_set_id = %(score_set)s
          AND account_id > %(after)s
        ORDER BY account_id LIMIT %(limit)s) AS part
"""
_SUBJECT = np.dtype([("id", ">i8"), ("users", ">i4"), ("activity", ">i2")])
_ACTIVE_DAYS: LiteralString = """
    SELECT string_agg(
        int8send(account_id) || int4send(users) || int2send((day - %(first)s::date)::smallint)
            || int2send(hour) || int2send(late), '')
    FROM engagement_activeday
    WHERE product_id = %(product)s AND score_set_id = %(score_set)s
      AND account_id BETWEEN %(from)s AND %(to)s
      AND day BETWEEN %(first)s - %(greatest_delay)s AND %(last)s
"""
_ACTIVE_DAY = np.dtype(
    [("id", ">i8"), ("users", ">i4"), ("day", ">i2"), ("hour", ">i2"), ("late", ">i2")]
)
_ACTIVE_BEFORE: LiteralString = """
    SELECT string_agg(int8send(k.id), '') FROM unnest(%(ids)b::bigint[]) AS k(id)
    WHERE EXISTS (
        SELECT FROM engagement_activeday s
        WHERE s.product_id = %(product)s AND s.score_set_id = %(score_set)s
          AND s.account_id = k.id AND s.day < %(first)s)
"""
_ID = np.dtype(">i8")

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Loaded:
    """The accounts that a night decides about: those with an active day in 24 weeks, or an alarm.

    ``ids`` are sorted, and ``accounts``, ``users``, and ``delays`` have their rows in the same
    order. The weeks of an account end as many days before the night as its sender usually is late.
    ``totals`` has the user-days of each of the days. ``all_rows`` are all accounts of the set, with
    what they show now (``AccountEngagement.activity``, -1 for None), sorted by id.
    """

    ids: Array
    users: Array
    delays: Array
    accounts: Accounts
    totals: Array
    all_rows: Array


def load(score_set: ScoreSet, day: date, alarmed: Array) -> Loaded:
    """Read the accounts as of the end of *day*; also those in *alarmed*, an array of ids."""
    own = {"product": score_set.product_id, "score_set": score_set.pk}
    all_rows = np.concatenate([np.empty(0, _SUBJECT), *_subjects(own)])
    # Pages of memory that nobody writes to take no room.
    span = {"first": day - (DAYS - 1) * DAY, "last": day, "greatest_delay": GREATEST_DELAY}
    return _Loading(all_rows, np.sort(alarmed), {**own, **span}).run()


def _subjects(own: dict[str, Any]) -> Iterator[Array]:
    """All accounts in parts, sorted by id."""
    after = 0
    while len(part := _read(_SUBJECTS, {**own, "after": after, "limit": ROWS_PER_READ}, _SUBJECT)):
        yield part
        after = int(part["id"][-1])


class _Loading:
    """The arrays while they are filled."""

    def __init__(self, all_rows: Array, alarmed: Array, parameters: dict[str, Any]) -> None:
        size = len(all_rows)
        self._all_rows, self._alarmed, self._parameters = all_rows, alarmed, parameters
        self._ids = np.empty(size, np.int64)
        self._users = np.empty(size, np.int32)
        self._delays = np.empty(size, np.int8)
        self._weeks = np.empty((size, WEEKS), np.uint16)
        self._ages = np.empty(size, np.uint8)
        self._is_small = np.empty(size, np.bool_)
        self._regions = np.empty(size, np.uint8)
        self._totals = np.zeros(DAYS)

    def run(self) -> Loaded:
        end = 0
        for start in range(0, len(self._all_rows), ACCOUNTS_PER_READ):
            end = self._add(self._all_rows[start : start + ACCOUNTS_PER_READ], end)
        rows = slice(0, end)
        accounts = Accounts(
            self._weeks[rows], self._ages[rows], self._is_small[rows], self._regions[rows]
        )
        totals = self._totals.astype(np.int64)
        return Loaded(
            self._ids[rows],
            self._users[rows],
            self._delays[rows],
            accounts,
            totals,
            self._all_rows,
        )

    def _add(self, part: Array, start: int) -> int:
        """Add the accounts of this part that were active or have an alarm, from the row *start* on.
        Returns the next row."""
        ids = part["id"].astype(np.int64)
        span = {"from": int(ids[0]), "to": int(ids[-1])}
        days = _read(_ACTIVE_DAYS, {**self._parameters, **span}, _ACTIVE_DAY)
        active = days["id"][days["day"] >= 0]
        is_needed = np.isin(ids, active) | np.isin(ids, self._alarmed)
        ids = ids[is_needed]
        days = days[np.isin(days["id"], ids)]
        rows, count = slice(start, start + len(ids)), len(ids)
        place = np.searchsorted(ids, days["id"])
        users, day = days["users"].astype(np.int64), days["day"].astype(np.int64)
        self._totals += np.bincount(day[day >= 0], users[day >= 0], DAYS)
        self._ids[rows], self._users[rows] = ids, part["users"][is_needed]
        delays = self._delays[rows] = usual_delays(place, day, users, days["late"], count)
        day += delays[place]
        week = (DAYS - 1 - day) // 7
        is_within = (week >= 0) & (week < WEEKS)
        weekly = np.bincount((place * WEEKS + week)[is_within], users[is_within], count * WEEKS)
        if weekly.max(initial=0) > np.iinfo(self._weeks.dtype).max:
            self._weeks = self._weeks.astype(np.uint32)
        self._weeks[rows] = weekly.reshape(count, WEEKS)
        self._ages[rows] = self._ages_of(ids, place, day)
        self._is_small[rows] = ~np.isin(np.arange(count), place[is_within & (users > SMALL_USERS)])
        self._regions[rows] = _regions(place[is_within], days["hour"][is_within], count)
        return rows.stop

    def _ages_of(self, ids: Array, place: Array, day: Array) -> Array:
        """The complete weeks since the first active day; all 24 for one before these."""
        first = np.full(len(ids), DAYS, np.int64)
        np.minimum.at(first, place, day)
        ages = np.clip((DAYS - first) // 7, 0, WEEKS)
        before = _read(_ACTIVE_BEFORE, {**self._parameters, "ids": ids.tolist()}, _ID)
        ages[np.isin(ids, before)] = WEEKS
        return ages


def usual_delays(place: Array, day: Array, users: Array, late: Array, count: int) -> Array:
    """For each account, the number of days after which more than half of its user-days of the last
    four weeks were known."""
    users = users * (day >= DAYS - DELAY_DAYS)
    half = np.bincount(place, users, count) / 2
    is_later = [
        np.bincount(place, users * (late >= delay), count) > half
        for delay in range(1, GREATEST_DELAY + 1)
    ]
    return np.asarray(np.sum(is_later, axis=0, dtype=np.int8))


def _regions(place: Array, hour: Array, count: int) -> Array:
    """The band of each account's median hour: before 12, before 19, or later."""
    band = (hour >= 12).astype(np.int64) + (hour >= 19)
    bands = np.bincount(place * 3 + band, minlength=count * 3).reshape(count, 3).cumsum(axis=1)
    half = bands[:, 2:] / 2
    regions: Array = (bands[:, :2] < half).sum(axis=1)
    return regions


def _read(statement: LiteralString, parameters: dict[str, Any], dtype: np.dtype[Any]) -> Array:
    ((packed,),) = sql.fetch(statement, parameters)
    return np.frombuffer(packed or b"", dtype)
