"""Habits that ended: events that an account no longer uses, and users who no longer come.

A weekly look compares the last weeks with the 16 before. It counts time in blocks of 28 days; block
0 is the last one. How often a habit ends for no reason is counted and not modelled: it is the share
of comparable habits of the same product that ended at the same time, so vacations, turnover, and
renamed events are in it. The figures behind the rules are in docs/decisions/engagement.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp, lgamma
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from engagement.alarms.levels import ALLOWED_RATES

Array: TypeAlias = NDArray[Any]

BLOCK_DAYS, BASELINE_BLOCKS, BLOCKS = 28, 4, 6
ROWS_AT_ONCE = 5_000
# An event is no longer used if it was not used for this number of blocks.
WINDOWS = (1, 2)
# A habit has an event in that many of the baseline's weeks.
MIN_WEEKS = 8
# What shares of accounts use of an event, compared with before: below this, the event itself ends.
MIN_NAME_SHARE = 0.5
# Habits are comparable if they are in the same class of the expected number of days.
CLASSES = np.array([1, 2, 3, 4.5, 6.5, 9, 13, 20, 40])
# The counts of ``count_ends()`` for nothing.
NO_ENDS = np.zeros((len(CLASSES), 2), "i8")
# Habits of an account often end together, when somebody leaves. So p is less than their number
# times the chance of one.
TOGETHER = 0.75
# A habit may have ended if its p is lower.
GREATEST_P = max(ALLOWED_RATES.values())
# A regular user is expected on that many days of a block, and came on that many of the one before.
MIN_REGULAR_DAYS = 2
# Users of one account leave and stay together more than others do.
CORRELATION = 0.02
# The most active user has this share of the account's user-days, of that many in a block.
KEY_SHARE, MIN_USER_DAYS = 0.4, 6

# A pair of an account and an event name: expected and observed user-days in each window. One that
# is no habit in the window expects 0. *quiet_days* are those since the last one.
HABIT = np.dtype(
    [
        ("account", "i8"),
        ("name", "i8"),
        ("expected", "f4", len(WINDOWS)),
        ("observed", "i4", len(WINDOWS)),
        ("quiet_days", "i4"),
    ]
)
# A regular user of an account: the days expected in a block, the share of the account's user-days,
# and the days since the last one.
REGULAR = np.dtype(
    [
        ("account", "i8"),
        ("user", "i8"),
        ("expected", "f4"),
        ("share", "f4"),
        ("quiet_days", "i4"),
    ]
)


@dataclass(frozen=True)
class Use:
    """What was counted of accounts and event names (*keys*), or of accounts and users.

    A row of *keys* is an account and a name or a user. *days* are its user-days by block. *bits*
    are the days of each block on which there was one: the lowest bit is the last day.
    """

    keys: Array
    days: Array
    bits: Array


def uses_of(rows: Iterator[Sequence[Any]]) -> tuple[Use, Use]:
    """The use of event names, and by users, of ``engagement.scores.uses.count_uses()``."""
    parts = [np.zeros((0, 3 + 2 * BLOCKS), "i8")]
    while chunk := list(islice(rows, ROWS_AT_ONCE)):
        parts.append(np.array(chunk, "i8"))
    counts = np.concatenate(parts)
    is_user = counts[:, 1] > 0
    names, users = counts[~is_user], counts[is_user]
    return (
        Use(names[:, [0, 2]], days=names[:, 3 + BLOCKS :], bits=names[:, 3 : 3 + BLOCKS]),
        Use(users[:, [0, 1]], days=users[:, 3 + BLOCKS :], bits=users[:, 3 : 3 + BLOCKS]),
    )


def unpack(dtype: "np.dtype[Any]", parts: Sequence[Any]) -> Array:
    """The rows of all parts, which are the bytes of arrays."""
    return np.concatenate([np.zeros(0, dtype), *(np.frombuffer(part, dtype) for part in parts)])


# --- What a look keeps of some accounts -------------------------------------------------------


def habits_of(names: Use, users: Use) -> Array:
    """The habits of accounts (HABIT). Both have the same accounts.

    An account that does less as a whole is expected to do less of each event, so that one that
    falls does not lose all its events, too.
    """
    rows = np.zeros(len(names.keys), HABIT)
    rows["account"], rows["name"] = names.keys[:, 0], names.keys[:, 1]
    accounts, places = np.unique(users.keys[:, 0], return_inverse=True)
    totals = np.zeros((len(accounts), BLOCKS))
    np.add.at(totals, places, users.days)
    own_totals = totals[np.searchsorted(accounts, names.keys[:, 0])]
    weeks = _weeks(names.bits)
    for place, window in enumerate(WINDOWS):
        baseline = slice(window, window + BASELINE_BLOCKS)
        usual = own_totals[:, baseline].sum(axis=1)
        movement = own_totals[:, :window].sum(axis=1) / np.maximum(usual, 1)
        expected = names.days[:, baseline].sum(axis=1) * np.minimum(
            movement, window / BASELINE_BLOCKS
        )
        is_habit = weeks[:, baseline].sum(axis=1) >= MIN_WEEKS
        rows["expected"][:, place] = np.where(is_habit, expected, 0)
        rows["observed"][:, place] = names.days[:, :window].sum(axis=1)
    is_habit = rows["expected"].any(axis=1)
    rows = rows[is_habit]
    rows["quiet_days"] = _quiet_days(names.bits[is_habit])
    return rows


def regular_users_of(users: Use) -> Array:
    """The regular users of accounts (REGULAR)."""
    baseline = users.days[:, 1 : 1 + BASELINE_BLOCKS].sum(axis=1)
    accounts, places = np.unique(users.keys[:, 0], return_inverse=True)
    totals = np.bincount(places, baseline, len(accounts))
    expected = baseline / BASELINE_BLOCKS
    came_before = users.days[:, 1] >= MIN_REGULAR_DAYS
    is_regular = (expected >= MIN_REGULAR_DAYS) & came_before
    rows = np.zeros(int(is_regular.sum()), REGULAR)
    rows["account"], rows["user"] = users.keys[is_regular, 0], users.keys[is_regular, 1]
    rows["expected"] = expected[is_regular]
    rows["share"] = (baseline / np.maximum(totals[places], 1))[is_regular]
    rows["quiet_days"] = _quiet_days(users.bits[is_regular])
    return rows


def is_quiet(users: Array) -> Array:
    """Which of the regular users did not come in the last block."""
    quiet: Array = users["quiet_days"] >= BLOCK_DAYS
    return quiet


def with_quiet(users: Array) -> Array:
    """Those of the regular users in whose account one is quiet."""
    quiet_accounts = users["account"][is_quiet(users)]
    rows: Array = users[np.isin(users["account"], quiet_accounts)]
    return rows


def _weeks(bits: Array) -> Array:
    """The number of weeks of each block with a day."""
    weeks = [((bits >> shift) & 0b1111111) != 0 for shift in (0, 7, 14, 21)]
    counts: Array = np.sum(weeks, axis=0)
    return counts


def _quiet_days(bits: Array) -> Array:
    """The days since the last day of each row, which has one."""
    block = (bits != 0).argmax(axis=1)
    last = bits[np.arange(len(bits)), block]
    # The logarithm of a power of two is exact.
    days: Array = block * BLOCK_DAYS + np.log2(last & -last).astype(int)
    return days


# --- How often habits end ---------------------------------------------------------------------


def count_ends(expected: Array, is_over: Array) -> Array:
    """For each class of *expected*: how many habits there are, and how many are over."""
    places = np.searchsorted(CLASSES, expected, side="right") - 1
    has_class = places >= 0
    counts = [
        np.bincount(places[own], minlength=len(CLASSES)) for own in (has_class, has_class & is_over)
    ]
    return np.stack(counts, axis=1)


def total_ends(parts: Sequence[Sequence[Sequence[int]]]) -> Array:
    """The sum of several of these counts."""
    total: Array = np.sum([NO_ENDS, *map(np.array, parts)], axis=0)
    return total


def pool(ends: Array) -> Array:
    """The counts of ``count_ends()``, with neighboring classes taken together until habits of
    larger classes end no more often: isotonic regression by pooling adjacent violators."""
    pools: list[tuple[int, int, int]] = []
    for count, ended in ends.tolist():
        latest = (count, ended, 1)
        while pools and pools[-1][1] * latest[0] <= latest[1] * pools[-1][0]:
            before = pools.pop()
            latest = (before[0] + latest[0], before[1] + latest[1], before[2] + latest[2])
        pools.append(latest)
    return np.array([row[:2] for row in pools for _ in range(row[2])])


# --- Events -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class EndedHabit:
    """An event that an account may no longer use.

    It was expected on *expected* user-days of the last *window_days*, and last used *quiet_days*
    before the last day. Of *comparable* habits of the product *ended* ended like this. *p* is that
    share times the habits of the account, TOGETHER.
    """

    account: int
    name: int
    window_days: int
    quiet_days: int
    expected: float
    comparable: int
    ended: int
    p: float


def ended_habits(habits: Array) -> list[EndedHabit]:
    """Those with a p below GREATEST_P, each in the window with the smallest."""
    best: dict[tuple[int, int], EndedHabit] = {}
    for place, window in enumerate(WINDOWS):
        for habit in _ended_in(habits, place, window * BLOCK_DAYS):
            key = habit.account, habit.name
            if key not in best or habit.p < best[key].p:
                best[key] = habit
    return list(best.values())


def _ended_in(habits: Array, place: int, window_days: int) -> Iterator[EndedHabit]:
    rows = habits[habits["expected"][:, place] > 0]
    observed = rows["observed"][:, place]
    expected = rows["expected"][:, place] * _name_shares(rows, place)
    has_class = expected >= CLASSES[0]
    rows, expected, is_over = rows[has_class], expected[has_class], (observed == 0)[has_class]
    if not len(rows):
        return
    pooled = pool(count_ends(expected, is_over))
    classes = np.searchsorted(CLASSES, expected, side="right") - 1
    _, accounts, habit_counts = np.unique(rows["account"], return_inverse=True, return_counts=True)
    p = pooled[classes, 1] / pooled[classes, 0] * habit_counts[accounts] * TOGETHER
    for row in np.flatnonzero(is_over & (p < GREATEST_P)):
        comparable, ended = map(int, pooled[classes[row]])
        account, name, quiet_days = (int(rows[c][row]) for c in ("account", "name", "quiet_days"))
        yield EndedHabit(
            account,
            name,
            window_days,
            quiet_days,
            float(expected[row]),
            comparable,
            ended,
            float(p[row]),
        )


def _name_shares(habits: Array, place: int) -> Array:
    """For each habit: what is left of its event in all accounts, 1 at most; 0 for an event that
    ends itself, because it was renamed or removed."""
    _, names = np.unique(habits["name"], return_inverse=True)
    expected = np.bincount(names, habits["expected"][:, place])
    share = np.minimum(np.bincount(names, habits["observed"][:, place]) / expected, 1)
    shares: Array = np.where(share < MIN_NAME_SHARE, 0, share)[names]
    return shares


# --- Users ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuietUsers:
    """The regular users of an account who did not come in the last block, of that many. The one
    who is quiet for the most days comes first.

    *tails* are the chances of one such user or more, of two or more, and so on; *usual_share* is
    the share of comparable users of the product who did not come.
    """

    account: int
    users: list[int]
    quiet_days: list[int]
    regular: int
    usual_share: float
    tails: list[float]

    @property
    def p(self) -> float:
        """The chance of as many or more."""
        return self.tails[-1]


@dataclass(frozen=True)
class QuietKeyUser:
    """An account's most active user, who did not come for *quiet_days*.

    The *share* is of the account's user-days before. Of *comparable* users of the product *ended*
    did not come in the last block.
    """

    account: int
    user: int
    share: float
    expected: float
    quiet_days: int
    comparable: int
    ended: int


def quiet_users(users: Array, ends: Array) -> tuple[list[QuietUsers], list[QuietKeyUser]]:
    """What *users* tell: all regular users of the accounts of which one is quiet. *ends* are the
    counts of all regular users of the product (``count_ends()``)."""
    pooled = pool(ends)
    classes = np.searchsorted(CLASSES, users["expected"], side="right") - 1
    shares = pooled[classes, 1] / np.maximum(pooled[classes, 0], 1)
    quiet = is_quiet(users)
    order = np.argsort(users["account"], kind="stable")
    starts = np.flatnonzero(np.diff(users["account"][order], prepend=-1))
    leaving, key_users = [], []
    for own in np.split(order, starts[1:]) if len(order) else ():
        account, own_quiet = int(users["account"][own[0]]), own[quiet[own]]
        if not len(own_quiet):
            continue
        share = float(shares[own].mean())
        own_quiet = own_quiet[np.argsort(-users["quiet_days"][own_quiet], kind="stable")]
        ids, quiet_days = (users[name][own_quiet].tolist() for name in ("user", "quiet_days"))
        tails = [beta_binomial_tail(n + 1, len(own), share) for n in range(len(own_quiet))]
        leaving.append(QuietUsers(account, ids, quiet_days, len(own), share, tails))
        first = own_quiet[np.argmax(users["share"][own_quiet])]
        if len(own) >= 2 and _is_key(users[first]):
            row, (comparable, ended) = users[first], map(int, pooled[classes[first]])
            user, days = int(row["user"]), int(row["quiet_days"])
            share, expected = float(row["share"]), float(row["expected"])
            key_users.append(QuietKeyUser(account, user, share, expected, days, comparable, ended))
    return leaving, key_users


def _is_key(row: Any) -> bool:
    user_days = row["expected"] / row["share"]
    return bool(row["share"] >= KEY_SHARE and user_days >= MIN_USER_DAYS)


def beta_binomial_tail(least: int, count: int, mean: float) -> float:
    """The chance that *least* or more of *count* are, where each is with *mean*, and any two of
    them correlate by CORRELATION."""
    if mean <= 0 or mean >= 1:
        return float(least <= 0 or mean >= 1)
    total = 1 / CORRELATION - 1
    alpha, beta = mean * total, (1 - mean) * total
    scale = lgamma(alpha) + lgamma(beta) - lgamma(total)
    return min(
        1.0,
        sum(
            exp(
                lgamma(count + 1)
                - lgamma(number + 1)
                - lgamma(count - number + 1)
                + lgamma(number + alpha)
                + lgamma(count - number + beta)
                - lgamma(count + total)
                - scale
            )
            for number in range(least, count + 1)
        ),
    )
