"""Decides the alarms after one complete day, and writes what it decided in one transaction."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, LiteralString

import numpy as np
import numpy.typing as npt
from django.db.models import QuerySet

from core.database import locks, sql
from core.jobs import run
from core.models import Job
from engagement.alarms import levels, statistic, transitions
from engagement.alarms.negative_binomial import lower_tail
from engagement.alarms.statistic import WINDOWS
from engagement.models import Alarm, AlarmNight, ScoreSet
from engagement.nights import stored_alarms
from engagement.nights.loading import DAYS, Loaded, load
from engagement.nights.stored_alarms import Levels, tell
from engagement.scores.active_days import DAY, store_totals

Array = npt.NDArray[Any]

# Of more accounts than these, what the rows show is written in transactions of its own.
SHOWN_PER_TRANSACTION = 20_000
# Sizes by users, as pages name them.
SIZES = {"1": 1, "2-4": 2, "5-9": 5, "10+": 10}
SIGNALS = (Alarm.Signal.FALL, Alarm.Signal.RISE)
# An alarm as ``stored_alarms.read`` returns it; *direction* is a place in SIGNALS.
STORED = np.dtype(
    [
        ("account", ">i8"),
        ("direction", ">i2"),
        ("level", ">i2"),
        ("since", ">i4"),
        ("is_open", ">i2"),
        ("weeks", ">i4"),
        ("rate", ">f8"),
        ("burstiness", ">f8"),
    ]
)
# By the numbers that ``statistic.account_activity`` gives them.
STATES = ("decidable", "too_quiet", "too_new")


class NoLongerCurrent(Exception):
    """Another score set has replaced the one that was read. Nothing is written."""


@dataclass(frozen=True)
class DecidedNight:
    """What is decided after *day*, to be written. ``activity`` has an entry for each account of
    ``loaded.all_rows``. *alarms* are those that the night began with, by signal."""

    score_set: ScoreSet
    day: date
    stored: Levels
    loaded: Loaded
    alarms: tuple[Array, Array]
    kappas: tuple[list[float], list[float]]
    night: transitions.Night

    @property
    def activity(self) -> Array:
        """Of each account of ``loaded.all_rows``; of one without an active day, too quiet."""
        activity = np.full(len(self.loaded.all_rows), statistic.TOO_QUIET, np.int8)
        activity[np.searchsorted(self.loaded.all_rows["id"], self.loaded.ids)] = self.night.activity
        return activity

    @property
    def p_on(self) -> tuple[list[float], list[float]]:
        fall, rise = self.kappas
        return levels.thresholds(fall), levels.thresholds(rise)


def decide(score_set: ScoreSet, day: date, stored: Levels) -> DecidedNight:
    """What becomes of the alarms at those levels after *day*. Writes nothing."""
    rows = np.frombuffer(stored_alarms.read(score_set, day, stored), STORED)
    loaded = load(score_set, day, rows["account"].astype(np.int64))
    falls, rises = (_placed(rows, direction, loaded.ids) for direction in range(len(SIGNALS)))
    fall, rise = _kappas(score_set, day, stored)
    p_on = levels.thresholds(fall), levels.thresholds(rise)
    level = score_set.workspace.alarm_level
    night = transitions.decide_night(day.toordinal(), loaded.accounts, (falls, rises), p_on, level)
    return DecidedNight(score_set, day, stored, loaded, (falls, rises), (fall, rise), night)


def _kappas(score_set: ScoreSet, day: date, stored: Levels) -> Iterator[list[float]]:
    """Of falls and rises, the kappa of each level, as the workspace's own alarms tell."""
    span = levels.measured_span(day)
    nights = AlarmNight.objects.filter(workspace=score_set.workspace_id, day__range=span)
    rows = list(nights.filter(accounts__gt=0).values_list("accounts", "parameters__p_on"))
    for direction, signal in enumerate(SIGNALS):
        numbers = stored_alarms.came_to_nothing(score_set, stored, signal, *span)
        own = [(accounts or 0, p_on[direction]) for accounts, p_on in rows]
        yield levels.measured_kappas(numbers, own)


def _placed(rows: Array, direction: int, ids: Array) -> Array:
    """The alarms of the direction, by the places of their accounts in *ids*. Those of accounts that
    are gone are left out."""
    own = rows[(rows["direction"] == direction) & np.isin(rows["account"], ids)]
    alarms = np.zeros(len(own), transitions.ALARM)
    alarms["row"] = np.searchsorted(ids, own["account"])
    alarms["outcome"] = np.where(own["is_open"], transitions.OPEN, transitions.SETTLED)
    for name in ("level", "since", "rate", "weeks", "burstiness"):
        alarms[name] = own[name]
    return alarms


# --- What can be told -----------------------------------------------------------------------


def _summary(decided: DecidedNight) -> dict[str, Any]:
    """Numbers of accounts for pages: by state, and by size those of which each level notices that
    their activity stops or halves."""
    size = np.searchsorted(list(SIZES.values()), decided.loaded.users, side="right") - 1
    size, start = np.maximum(size, 0), 0
    noticed = np.zeros((2, len(SIZES), len(levels.ALLOWED_RATES)), np.int64)
    for part in decided.loaded.accounts.chunks():
        own = size[start : start + len(part)]
        start += len(part)
        for change, p in enumerate(_chances(statistic.judge(part, decided.night.parameters))):
            for level, p_on in enumerate(decided.p_on[0][1:]):
                noticed[change, :, level] += np.bincount(own[p < p_on], minlength=len(SIZES))
    accounts = np.bincount(size, minlength=len(SIZES))
    states = np.bincount(decided.activity, minlength=len(STATES)).tolist()
    return {
        "accounts": len(decided.loaded.ids),
        **dict(zip(STATES, states, strict=True)),
        "sizes": {
            name: {
                "accounts": int(accounts[place]),
                "stops": noticed[0, place].tolist(),
                "halvings": noticed[1, place].tolist(),
            }
            for place, name in enumerate(SIZES)
        },
    }


def _chances(figures: Array) -> tuple[Array, Array]:
    """The smallest p of each account if it had stopped, and if it had halved."""
    nothing = np.where(figures["is_usable"], figures["p_nothing"], 1.0)
    half = np.ones(figures.shape)
    usable = figures["is_usable"] & (figures["expected"] > 0)
    expected = figures["expected"][usable]
    half[usable] = lower_tail(np.floor(expected / 2), expected, figures["dispersion"][usable])
    return nothing.min(axis=0), half.min(axis=0)


# --- What becomes of alarms -----------------------------------------------------------------

_OUTCOMES = {
    transitions.OPEN: Alarm.Outcome.OPEN,
    transitions.RECOVERED: Alarm.Outcome.RECOVERED,
    transitions.SETTLED: Alarm.Outcome.SETTLED,
}


def _updates(decided: DecidedNight, direction: int) -> Iterator[dict[str, Any]]:
    """The rows of the alarms that were open."""
    for alarm in _followed(decided, direction):
        outcome = _OUTCOMES[int(alarm["outcome"])]
        yield {
            **_key(decided, direction, alarm),
            "outcome": outcome.value,
            "ended_on": decided.day if outcome else None,
            "is_stopped": bool(alarm["is_stopped"]),
            "weekly_rate": float(alarm["rate"]),
            "latest": {**_numbers(decided, direction, alarm), "day": decided.day.isoformat()},
        }


def _onsets(decided: DecidedNight, direction: int) -> Iterator[dict[str, Any]]:
    """The rows of the alarms that begin."""
    for alarm in _decision(decided, direction).onsets:
        numbers = _numbers(decided, direction, alarm)
        delay = int(decided.loaded.delays[alarm["row"]])
        baseline_to = decided.day - (delay + numbers["window_days"]) * DAY
        yield {
            **_key(decided, direction, alarm),
            "details": {name: numbers.pop(name) for name in ("common", "kappa")},
            **numbers,
            "is_stopped": bool(alarm["is_stopped"]),
            "is_replayed": decided.stored.is_replay,
            "baseline_from": baseline_to - (7 * int(alarm["weeks"]) - 1) * DAY,
            "baseline_to": baseline_to,
            "weekly_rate": float(alarm["rate"]),
            "burstiness": float(alarm["burstiness"]),
        }


def _decision(decided: DecidedNight, direction: int) -> transitions.Decision:
    return (decided.night.falls, decided.night.rises)[direction]


def _followed(decided: DecidedNight, direction: int) -> Array:
    """What became of the alarms that were open."""
    is_open = decided.alarms[direction]["outcome"] == transitions.OPEN
    followed: Array = _decision(decided, direction).latest[is_open]
    return followed


def _changed(decided: DecidedNight) -> set[int]:
    """The accounts whose alarms begin, go on, or end."""
    changed = set[int]()
    for direction in range(len(SIGNALS)):
        for alarms in (_decision(decided, direction).onsets, _followed(decided, direction)):
            changed.update(decided.loaded.ids[alarms["row"]].tolist())
    return changed


def _key(decided: DecidedNight, direction: int, alarm: Any) -> dict[str, Any]:
    return {
        "account_id": int(decided.loaded.ids[alarm["row"]]),
        "signal": SIGNALS[direction].value,
        "level": decided.stored.stored(int(alarm["level"])),
        "since": date.fromordinal(int(alarm["since"])),
    }


def _numbers(decided: DecidedNight, direction: int, alarm: Any) -> dict[str, Any]:
    """The figures of an alarm, as they are stored."""
    window, region = int(alarm["window"]), int(decided.loaded.accounts.regions[alarm["row"]])
    return {
        "window_days": 7 * WINDOWS[window],
        "observed": int(alarm["observed"]),
        "expected": round(float(alarm["expected"]), 3),
        "dispersion": round(float(alarm["dispersion"]), 3),
        "p": float(f"{alarm['p']:.4g}"),
        "common": round(decided.night.parameters["movement"][window][region], 4),
        "kappa": round(decided.kappas[direction][int(alarm["level"])], 2),
    }


# --- Writing --------------------------------------------------------------------------------


def write(decided: DecidedNight, job: Job, now: datetime, cursor: Any = None) -> None:
    """Write all that the night decided, and the cursor of its job.

    Raises LeaseLost, or NoLongerCurrent.
    """
    score_set, is_replay = decided.score_set, decided.stored.is_replay
    values: dict[str, Any] = {
        "accounts": decided.night.decidable,
        "parameters": {
            **decided.night.parameters,
            **{"kappa": decided.kappas, "p_on": decided.p_on},
        },
        "is_replayed": is_replay,
    }
    if not is_replay:
        values |= {"decided_at": now, "summary": _summary(decided)}
    with run.holding(job):
        _lock(score_set)
        for direction in range(len(SIGNALS)):
            stored_alarms.insert(score_set, _onsets(decided, direction))
            stored_alarms.update(score_set, _updates(decided, direction))
        if not is_replay:
            ids = _show(decided, after=0)
            # What is left is shown by the next step.
            values["score_set_id"] = score_set.pk if len(ids) < SHOWN_PER_TRANSACTION else None
            changed = _changed(decided) | stored_alarms.no_longer_settled(score_set, decided.day)
            tell(score_set, changed | set(ids))
            stored_alarms.delete_old(score_set, decided.day)
        _store_totals(decided)
        _night(decided).update(**values)
        job.cursor = cursor
        job.save(update_fields=["cursor"])


def show(decided: DecidedNight, job: Job) -> None:
    """Have the rows of accounts show what the night could tell of their activity, and nothing else:
    for a new score set, after a replay, or for many accounts."""
    score_set, summary, ids = decided.score_set, _summary(decided), [0]
    while ids:
        with run.holding(job):
            _lock(score_set)
            ids = _show(decided, after=ids[-1])
            tell(score_set, set(ids))
            if not ids:
                _night(decided).update(score_set_id=score_set.pk, summary=summary)


def _lock(score_set: ScoreSet) -> None:
    locks.lock_scoring(score_set.product_id)
    if not ScoreSet.objects.filter(pk=score_set.pk, state=ScoreSet.State.CURRENT).exists():
        raise NoLongerCurrent


_SHOW: LiteralString = """
    UPDATE engagement_accountengagement SET activity = k.activity
    FROM unnest(%(ids)b::bigint[], %(activities)b::bigint[]) AS k(id, activity)
    WHERE product_id = %(product)s AND score_set_id = %(score_set)s AND account_id = k.id
"""


def _show(decided: DecidedNight, after: int) -> list[int]:
    """Write what differs of the next accounts; return their ids."""
    rows, activity = decided.loaded.all_rows, decided.activity
    differs = (activity != rows["activity"]) & (rows["id"] > after)
    places = np.flatnonzero(differs)[:SHOWN_PER_TRANSACTION]
    ids: list[int] = rows["id"][places].tolist()
    if ids:
        own = {"product": decided.score_set.product_id, "score_set": decided.score_set.pk}
        sql.execute(_SHOW, {**own, "ids": ids, "activities": activity[places].tolist()})
    return ids


def _store_totals(decided: DecidedNight) -> None:
    first = decided.day - (DAYS - 1) * DAY
    totals = enumerate(decided.loaded.totals.tolist())
    store_totals(decided.score_set, {first + n * DAY: total for n, total in totals})


def _night(decided: DecidedNight) -> QuerySet[AlarmNight]:
    return AlarmNight.objects.filter(workspace=decided.score_set.workspace_id, day=decided.day)
