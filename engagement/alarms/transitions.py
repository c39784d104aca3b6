"""When alarms begin, go on, and end: the state machines of both directions, for all levels at once,
on arrays. Pure functions: nights, replays, and proofs call the same ``decide_night()``.

A night starts from the alarms of the nights before it, as an array of ``ALARM`` for each direction.
So these fields are stored, of each open alarm, and of each that settled for ``RESTING_DAYS`` after
its first day: account, level, since, outcome, rate, weeks, and burstiness. The others are what the
last night found. Kappa needs the first and last day of alarms that recovered, and of each night the
thresholds and the number of accounts that it could decide (``levels.measured_kappas()``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from engagement.alarms.statistic import (
    WEEKS,
    WINDOWS,
    Accounts,
    Array,
    Parameters,
    account_activity,
    judge,
    learn,
)

# An alarm recovers when its account is near its usual activity, and when the smallest p of all
# windows is well above the threshold that its level has in this night. What is near, the window of
# four weeks says; after two weeks, the longest one up to it that has only days after the alarm
# began. The days that began it are those that differed most, so with them a lower p is near.
RECOVERY_WINDOW = WINDOWS.index(4)
NEAR_P, NEAR_P_AFTER, OFF_RATIO = 0.08, 0.3, 2
# An alarm that lasts as long settles: the new level is then what is usual.
SETTLED_DAYS = 13 * 7
# As long after the first day of an alarm that settled, weeks before it are not usual.
RESTING_DAYS = WEEKS * 7
# No activity for as many weeks is a stop; the second is for small accounts.
STOP_WEEKS, SMALL_STOP_WEEKS = 2, 4
OPEN, RECOVERED, SETTLED = 0, 1, 2
_LEVELS = 8  # more than there are

# An alarm of one direction. *row* is the place of its account in the arrays of the night, *since*
# the ordinal of its first day. *rate*, *weeks*, and *burstiness* are its baseline; what follows is
# of the window (an index of WINDOWS) with the smallest p in the last night. *recovery_p* has the p
# of the windows until RECOVERY_WINDOW.
ALARM = np.dtype(
    [
        ("row", "i4"),
        ("level", "i1"),
        ("since", "i4"),
        ("outcome", "u1"),
        ("rate", "f8"),
        ("weeks", "f4"),
        ("burstiness", "f8"),
        ("window", "i1"),
        ("observed", "f4"),
        ("expected", "f8"),
        ("dispersion", "f8"),
        ("p", "f8"),
        ("recovery_p", "f8", RECOVERY_WINDOW + 1),
        ("is_stopped", "?"),
    ]
)
_JUDGED = ("rate", "weeks", "burstiness", "observed", "expected", "dispersion")


@dataclass(frozen=True)
class Decision:
    """What a night decides about one direction: ``latest`` has the alarms that it started from, in
    their order, with this night's outcomes and figures; ``ended`` says which of them this night
    ended; ``onsets`` are the alarms that begin. Alarms that settled before stay as they were.
    """

    latest: Array
    ended: Array
    onsets: Array

    def next(self, day: int) -> Array:
        """The alarms that the night after the one of *day* starts from."""
        is_resting = self.latest["since"] > day + 1 - RESTING_DAYS
        is_needed = (self.latest["outcome"] == OPEN) | (
            (self.latest["outcome"] == SETTLED) & is_resting
        )
        return np.concatenate([self.latest[is_needed], self.onsets])


@dataclass(frozen=True)
class Night:
    """What a night decides. ``activity`` is what ``account_activity()`` says of each account, and
    ``decidable`` the number of accounts that are old enough.
    """

    parameters: Parameters
    activity: Array
    decidable: int
    falls: Decision
    rises: Decision


def decide_night(
    day: int,
    accounts: Accounts,
    alarms: tuple[Array, Array],
    p_on: tuple[Sequence[float], Sequence[float]],
    level: int,
) -> Night:
    """Decide after the complete day with the ordinal *day* about all accounts of a workspace.

    *alarms* and *p_on*, the thresholds of the levels, are those of falls and of rises. *level* is
    the one that ``activity`` is by.
    """
    parameters = learn(accounts)
    activity, decidable, start = [], 0, 0
    candidates: tuple[list[Array], list[Array]] = ([], [])
    for part in accounts.chunks():
        figures = judge(part, parameters)
        activity.append(account_activity(figures, p_on[0][level]))
        decidable += int(figures["is_usable"].any(axis=0).sum())
        for direction, own in enumerate(candidates):
            rows = _smallest(figures, part, direction == 0)
            rows["row"] += start
            own.append(rows[rows["p"] < max(p_on[direction])])
        start += len(part)
    falls, rises = (
        _decide(
            day, accounts, parameters, d == 0, p_on[d], np.concatenate(candidates[d]), alarms[d]
        )
        for d in range(2)
    )
    return Night(parameters, np.concatenate(activity), decidable, falls, rises)


def _decide(
    day: int,
    accounts: Accounts,
    parameters: Parameters,
    is_fall: bool,
    p_on: Sequence[float],
    candidates: Array,
    alarms: Array,
) -> Decision:
    """*candidates* are the accounts that some level may have an alarm of."""
    latest = alarms.copy()
    is_open = alarms["outcome"] == OPEN
    latest[is_open] = _follow(day, accounts, parameters, is_fall, p_on, alarms[is_open])
    onsets = [_at_level(candidates[candidates["p"] < p], level) for level, p in enumerate(p_on)]
    begins = np.concatenate(onsets)
    begins = begins[~np.isin(_keys(begins), _keys(alarms))]
    # An account that settled is compared with its weeks since then alone.
    settled = alarms[~is_open & ~np.isin(_keys(alarms), _keys(alarms[is_open]))]
    settled = settled[np.argsort(-settled["since"], kind="stable")]
    settled = settled[np.unique(_keys(settled), return_index=True)[1]]
    rows = settled["row"]
    ages = np.minimum(accounts.ages[rows], (day - settled["since"]) // 7)
    young = replace(accounts.part(rows), ages=ages)
    again = _at_level(_judge_all(young, parameters, is_fall), settled["level"])
    again["row"] = rows
    begins = np.concatenate([begins, again[again["p"] < np.array(p_on)[settled["level"]]]])
    begins["since"] = day
    return Decision(latest, is_open & (latest["outcome"] != OPEN), begins)


def _follow(
    day: int,
    accounts: Accounts,
    parameters: Parameters,
    is_fall: bool,
    p_on: Sequence[float],
    alarms: Array,
) -> Array:
    """Open alarms after the night: they compare with the baseline that they began with."""
    own = accounts.part(alarms["row"])
    latest = _judge_all(own, parameters, is_fall, alarms)
    for name in ("row", "level", "since"):
        latest[name] = alarms[name]
    days = day - alarms["since"]
    is_on = latest["p"] <= OFF_RATIO * np.array(p_on)[alarms["level"]]
    is_near = is_near_usual(latest["recovery_p"], days, own.is_small) & ~is_on
    is_over = days >= SETTLED_DAYS
    latest["outcome"] = np.where(is_near, RECOVERED, np.where(is_over, SETTLED, OPEN))
    return latest


def is_near_usual(recovery_p: Array, days: Array, is_small: Array) -> Array:
    """Whether accounts are near their usual activity, these *days* after their alarms began."""
    first, last = 7 * WINDOWS[0], 7 * WINDOWS[RECOVERY_WINDOW]
    # Two weeks decide nothing about a small account.
    is_after = days >= np.where(is_small, last, first)
    windows = np.where(is_after & (days < last), 0, RECOVERY_WINDOW)
    near_p = np.where(is_after, NEAR_P_AFTER, NEAR_P)
    return np.asarray(recovery_p[np.arange(len(days)), windows] > near_p)


def _judge_all(
    accounts: Accounts, parameters: Parameters, is_fall: bool, usual: Array | None = None
) -> Array:
    """As ``ALARM``, with the places of the accounts as rows, in bounded memory."""
    judged, start = np.zeros(len(accounts), ALARM), 0
    for part in accounts.chunks():
        rows = slice(start, start + len(part))
        own = None if usual is None else usual[rows]
        judged[rows] = _smallest(judge(part, parameters, own), part, is_fall)
        judged["row"][rows] += start
        start = rows.stop
    return judged


def _smallest(figures: Array, accounts: Accounts, is_fall: bool) -> Array:
    """As ``ALARM``, of each account the window with the smallest p; of equal ones the longest."""
    p = figures["p_fall" if is_fall else "p_rise"]
    alarms = np.zeros(len(accounts), ALARM)
    rows = alarms["row"] = np.arange(len(accounts))
    windows = alarms["window"] = len(WINDOWS) - 1 - p[::-1].argmin(axis=0)
    for name in _JUDGED:
        alarms[name] = figures[name][windows, rows]
    alarms["p"], alarms["recovery_p"] = p[windows, rows], p[: RECOVERY_WINDOW + 1].T
    if is_fall:
        has_days = [accounts.weeks[:, :n].any(axis=1) for n in (STOP_WEEKS, SMALL_STOP_WEEKS)]
        alarms["is_stopped"] = ~np.where(accounts.is_small, has_days[1], has_days[0])
    return alarms


def _at_level(alarms: Array, level: "int | Array") -> Array:
    alarms = alarms.copy()
    alarms["level"] = level
    return alarms


def _keys(alarms: Array) -> Array:
    return np.asarray(alarms["row"] * _LEVELS + alarms["level"])
