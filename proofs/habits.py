"""Habits: worlds in which the truth is planted are looked at week by week by the service's own
functions. Accounts that did not change must seldom be told of, and those that lost an event, many
users, or their most active one must be found.
"""

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import django
import numpy as np
import numpy.typing as npt

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

# The apps must be loaded first.
from engagement.alarms import habits  # noqa: E402
from engagement.alarms.levels import ALLOWED_RATES, QUARTER_DAYS  # noqa: E402
from engagement.models import Alarm  # noqa: E402
from engagement.nights import habit_alarms  # noqa: E402
from harness.command import run_command  # noqa: E402
from harness.report import Report, Result, Table, progress  # noqa: E402

Array = npt.NDArray[Any]

FIRST_DAY = date(2024, 1, 1)
HISTORY_DAYS, JUDGED_DAYS = 168, 364
DAYS = HISTORY_DAYS + JUDGED_DAYS
NAMES = 24
# An event that a release renames, and its new name.
RENAMED, NEW_NAME = 2, NAMES
# Shares of accounts with a planted change.
CHANGES = {"abandoned": 0.08, "40% leave": 0.08, "key user leaves": 0.08}
# Days in which a change counts as found.
FOUND_WITHIN = {Alarm.Signal.FEATURE: 63, Alarm.Signal.LEAVING: 35, Alarm.Signal.KEY_USER: 35}
SIGNALS = dict(zip(CHANGES, FOUND_WITHIN, strict=True))
# The largest number of false alarms per account-quarter: section by section what people are told.
MOST_FALSE = {Alarm.Signal.LEAVING: 0.04, Alarm.Signal.KEY_USER: 0.08}
TOLERANCE = 1.35
# The largest share of accounts that may be told of an event which was renamed, at each level.
MOST_TOLD = 0.1
# The least share of changes that must be found: many are, so less is a fault and no chance.
LEAST_FOUND = {
    (Alarm.Signal.FEATURE, 3, "20 or more uses"): 0.5,
    (Alarm.Signal.KEY_USER, 0, "dominant"): 0.5,
    (Alarm.Signal.LEAVING, 0, "10 to 29 users"): 0.5,
}


@dataclass
class World:
    """Who did what on which day (columns), and what changed when.

    ``uses`` are the users of each event name, account, and day; ``active`` says on which days each
    user was. ``changes`` has the kind and the first column of each planted change, by account, and
    ``abandoned`` the event.
    """

    accounts: Array
    active: Array
    uses: Array
    changes: dict[int, tuple[str, int]]
    abandoned: dict[int, int]


def build(seed: int, account_count: int) -> World:
    chance = np.random.default_rng(seed)
    sizes = np.clip(np.exp(chance.normal(np.log(3.4), 1.25, account_count)), 1, 100).astype(int)
    changes = _plan(chance, sizes)
    accounts, first, last = _seats(chance, sizes)
    p = _chances(chance, accounts, sizes)
    days = np.arange(DAYS)
    p[(days < first[:, None]) | (days >= last[:, None])] = 0
    _take_users(chance, accounts, p, changes)
    active = chance.random(p.shape, dtype=np.float32) < p
    world = World(accounts, active, *_uses(chance, accounts, active, account_count), changes, {})
    for account, (kind, column) in list(changes.items()):
        if kind == "abandoned":
            _abandon(chance, world, account, column)
    return world


def _plan(chance: np.random.Generator, sizes: Array) -> dict[int, tuple[str, int]]:
    changes: dict[int, tuple[str, int]] = {}
    draws, shares = chance.random(len(sizes)), np.cumsum(list(CHANGES.values()))
    for account in np.flatnonzero(draws < shares[-1]).tolist():
        kind = list(CHANGES)[int(np.searchsorted(shares, draws[account], side="right"))]
        if kind == "abandoned" or sizes[account] >= (5 if kind == "40% leave" else 2):
            column = int(chance.integers(HISTORY_DAYS, DAYS - 91))
            changes[account] = kind, column
    return changes


def _seats(chance: np.random.Generator, sizes: Array) -> tuple[Array, Array, Array]:
    """The account, the first, and the day after the last day of each user: they stay for 600 days
    on average, and have successors after 8."""
    rows: list[tuple[int, float, float]] = []
    for account, size in enumerate(sizes.tolist()):
        for _ in range(size):
            start = 0.0
            while start < DAYS:
                end = start + chance.exponential(600)
                rows.append((account, start, end))
                start = end + chance.exponential(8)
    accounts, first, last = np.array(rows).T
    return accounts.astype(int), first, last


def _chances(chance: np.random.Generator, accounts: Array, sizes: Array) -> Array:
    """The chance that each user is active on each day, but for how long they stay."""
    n, weeks, days = len(accounts), DAYS // 7, np.arange(DAYS)
    rates = np.exp(chance.normal(np.log(0.22), 0.7, len(sizes)))[accounts]
    rates = np.minimum(rates * np.exp(chance.normal(0, 0.6, n)), 0.9)
    noise = np.zeros((len(sizes), weeks))
    for week in range(1, weeks):
        noise[:, week] = 0.7 * noise[:, week - 1] + chance.normal(0, 0.086, len(sizes))
    p = (rates[:, None] * np.exp(np.repeat(noise, 7, axis=1))[accounts]).astype(np.float32)
    works_always = chance.random(len(sizes)) < 0.07
    p[np.ix_(~works_always[accounts], days % 7 >= 5)] *= 0.04
    p *= 1 + 0.08 * np.cos(2 * np.pi * days / 365)
    p[:, (days % 365) >= 358] *= 0.2
    kinds = chance.choice(4, n, p=[0.58, 0.24, 0.10, 0.08])
    on = np.repeat(chance.random((n, weeks)) < 0.5, 7, axis=1)
    p = np.where((kinds == 1)[:, None], p * np.where(on, 1.6, 0.15), p)
    p = np.where((kinds == 2)[:, None], p * np.where(days % 30 >= 25, 3.0, 0.1), p)
    p = np.where((kinds == 3)[:, None], p * 0.2, p)
    for _ in range(4):
        start = chance.integers(0, DAYS, n)
        length = chance.integers(7, 22, n)
        p[(days >= start[:, None]) & (days < (start + length)[:, None])] = 0
    chances: Array = np.minimum(p, 0.98)
    return chances


def _take_users(
    chance: np.random.Generator, accounts: Array, p: Array, changes: dict[int, tuple[str, int]]
) -> None:
    for account, (kind, column) in list(changes.items()):
        own = np.flatnonzero(accounts == account)
        recent = p[own, column - 56 : column].sum(axis=1)
        own = own[recent > 1][np.argsort(-recent[recent > 1])]
        if kind == "40% leave" and len(own) >= 5:
            p[chance.permutation(own)[: round(0.4 * len(own))], column:] = 0
        elif kind == "key user leaves" and len(own) >= 2:
            p[own[0], column:] = 0
        elif kind != "abandoned":
            del changes[account]


def _uses(
    chance: np.random.Generator, accounts: Array, active: Array, account_count: int
) -> tuple[Array]:
    """How many users of each account used each event on each day. Users have habits of their own,
    and a quarter of the pairs of a user and an event are projects of some weeks."""
    uses = np.zeros((NAMES + 1, account_count, DAYS), np.uint16)
    starts = np.searchsorted(accounts, np.arange(account_count))
    for name in range(NAMES):
        popularity = 0.8 / (1 + 0.2 * name)
        strength = np.where(
            chance.random(len(accounts)) < popularity, chance.beta(1.2, 1.2, len(accounts)), 0
        )
        uses_it = active & (chance.random(active.shape, dtype=np.float32) < strength[:, None])
        projects = np.flatnonzero(chance.random(len(accounts)) < 0.25)
        uses_it[projects] &= _projects(chance, len(projects))
        uses[name] = np.add.reduceat(uses_it, starts, axis=0, dtype=np.uint16)
    column = HISTORY_DAYS + JUDGED_DAYS // 2
    uses[NEW_NAME, :, column:], uses[RENAMED, :, column:] = uses[RENAMED, :, column:], 0
    return (uses,)


def _projects(chance: np.random.Generator, count: int) -> Array:
    """On which days each is under way: some weeks on, some weeks off."""
    lengths = chance.integers(28, 120, (count, 2 * DAYS // 28))
    ends = np.cumsum(lengths, axis=1) - chance.integers(0, 120, (count, 1))
    over = np.zeros((count, DAYS), np.int16)
    for number in range(12):
        over += np.arange(DAYS) >= ends[:, number : number + 1]
    under_way: Array = over % 2 == 0
    return under_way


def _abandon(chance: np.random.Generator, world: World, account: int, column: int) -> None:
    """Let the account drop an event that it used four times in 28 days or more."""
    baseline = world.uses[:, account, column - 112 : column]
    usual = baseline.sum(axis=1) / 4
    weeks = (baseline.reshape(NAMES + 1, 16, 7).sum(axis=2) > 0).sum(axis=1)
    recent = baseline[:, -28:].sum(axis=1) > 0
    names = np.flatnonzero((usual >= 4) & (weeks >= 8) & recent)
    names = names[(names != RENAMED) & (names != NEW_NAME)]
    if not len(names):
        del world.changes[account]
        return
    world.abandoned[account] = int(chance.choice(names))
    world.uses[world.abandoned[account], account, column:] = 0


# --- Looking ----------------------------------------------------------------------------------


def looks(world: World) -> Iterator[tuple[int, list[Alarm], list[Alarm]]]:
    """The column of each look, the alarms that it changed, and those that are open after it."""
    open_alarms: list[Alarm] = []
    for column in range(HISTORY_DAYS - 1, DAYS, 7):
        names, users = _use_until(world, column)
        regular = habits.regular_users_of(users)
        quiet = habits.is_quiet(regular)
        ends = habits.count_ends(regular["expected"], quiet)
        leaving, key_users = habits.quiet_users(habits.with_quiet(regular), ends)
        ended = habits.ended_habits(habits.habits_of(names, users))
        look = habit_alarms.Look(
            FIRST_DAY + timedelta(days=column),
            ended,
            leaving,
            key_users,
            *_recent(world, column, {alarm.account_id for alarm in open_alarms}),
        )
        changed = habit_alarms.follow(look, open_alarms)
        open_alarms = [alarm for alarm in changed if alarm.ended_on is None]
        yield column, changed, open_alarms


def _use_until(world: World, column: int) -> tuple[habits.Use, habits.Use]:
    span = slice(column - 167, column + 1)
    uses = world.uses[:, :, span]
    name, account = np.nonzero(uses.any(axis=2))
    users = np.flatnonzero(world.active[:, span].any(axis=1))
    return (
        _use(np.stack([account, name], axis=1), uses[name, account]),
        _use(np.stack([world.accounts[users], users], axis=1), world.active[users, span]),
    )


def _use(keys: Array, counts: Array) -> habits.Use:
    """Counts of days, the oldest first, as the service reads them."""
    blocks = counts[:, ::-1].reshape(len(counts), habits.BLOCKS, habits.BLOCK_DAYS)
    bits = (blocks > 0) @ (1 << np.arange(habits.BLOCK_DAYS))
    return habits.Use(keys, blocks.sum(axis=2, dtype=np.int64), bits)


def _recent(world: World, column: int, accounts: set[int]) -> tuple[Any, Any]:
    span = slice(column - habit_alarms.RECENT_DAYS + 1, column + 1)
    own = np.array(sorted(accounts), int)
    days = world.uses[:, own, span].sum(axis=2)
    names = {
        (int(own[place]), int(name)): int(days[name, place])
        for name, place in zip(*np.nonzero(days), strict=True)
    }
    users = np.flatnonzero(np.isin(world.accounts, own) & world.active[:, span].any(axis=1))
    return names, {(int(world.accounts[user]), int(user)) for user in users}


# --- Judging ----------------------------------------------------------------------------------


class Tally:
    """What was counted in all worlds, by signal and level."""

    def __init__(self) -> None:
        self.account_quarters = 0.0
        self.flagged_days: Counter[tuple[str, int]] = Counter()
        self.looks = 0
        self.false: Counter[tuple[str, int]] = Counter()
        self.renamed: Counter[int] = Counter()
        self.rename_users = 0
        # By signal, level, and group: found, and how many there are.
        self.found: dict[tuple[str, int, str], list[int]] = defaultdict(lambda: [0, 0])

    def add(self, world: World, accounts: int) -> None:
        unchanged = set(range(accounts)) - world.changes.keys()
        self.account_quarters += len(unchanged) * JUDGED_DAYS / QUARTER_DAYS
        onsets: dict[tuple[str, int, int], list[int]] = defaultdict(list)
        renamed: dict[int, set[int]] = defaultdict(set)
        for column, changed, open_alarms in looks(world):
            self.looks += len(unchanged)
            for alarm in open_alarms:
                kind = alarm.signal, alarm.level
                self.flagged_days[kind] += alarm.account_id in unchanged
                if any(event["id"] == RENAMED for event in alarm.details.get("events", ())):
                    renamed[alarm.level].add(alarm.account_id)
            for alarm in changed:
                for event in alarm.details.get("events", ()):
                    # An account that has such an alarm already is told of another event, too.
                    if event["id"] == world.abandoned.get(alarm.account_id):
                        day = (date.fromisoformat(event["since"]) - FIRST_DAY).days
                        onsets["abandoned", alarm.level, alarm.account_id].append(day)
                if alarm.since == FIRST_DAY + timedelta(days=column):
                    onsets[alarm.signal, alarm.level, alarm.account_id].append(column)
                    # The first look finds what ended long before.
                    is_first = column < HISTORY_DAYS
                    self.false[alarm.signal, alarm.level] += (
                        alarm.account_id in unchanged and not is_first
                    )
        self.renamed.update({level: len(accounts) for level, accounts in renamed.items()})
        self.rename_users += accounts
        self._add_found(world, onsets)

    def _add_found(self, world: World, onsets: dict[tuple[str, int, int], list[int]]) -> None:
        for account, (kind, column) in world.changes.items():
            signal = SIGNALS[kind]
            group = _group(world, account, kind, column)
            if group is None:
                continue
            for level in ALLOWED_RATES if signal == Alarm.Signal.FEATURE else [0]:
                until = column + FOUND_WITHIN[signal]
                what = kind if kind == "abandoned" else signal
                is_found = any(column < at <= until for at in onsets[what, level, account])
                counts = self.found[signal, level, group]
                counts[0] += is_found
                counts[1] += 1


def _group(world: World, account: int, kind: str, column: int) -> str | None:
    """What a change is counted with; None if it is not of the kind that can be found."""
    own = world.active[world.accounts == account, column - 112 : column]
    if kind == "abandoned":
        name = world.abandoned[account]
        usual = world.uses[name, account, column - 112 : column].sum() / 4
        return "4 to 9 uses" if usual < 9 else "9 to 20 uses" if usual < 20 else "20 or more uses"
    if kind == "40% leave":
        count = int((own[:, -56:].sum(axis=1) >= 2).sum())
        if count < 5:
            return None
        return "5 to 9 users" if count < 10 else "10 to 29 users" if count < 30 else "30 or more"
    totals = own.sum(axis=1)
    is_dominant = totals.max() >= habits.KEY_SHARE * totals.sum()
    return "dominant" if is_dominant and totals.sum() / 4 >= habits.MIN_USER_DAYS else "others"


def measure(options: argparse.Namespace) -> Report:
    tally = Tally()
    for seed in range(options.seed, options.seed + options.worlds):
        progress(f"World {seed} is looked at every week.")
        tally.add(build(seed, options.accounts), options.accounts)
    rows = []
    for kind in [
        *((Alarm.Signal.FEATURE, level) for level in ALLOWED_RATES),
        (Alarm.Signal.LEAVING, 0),
        (Alarm.Signal.KEY_USER, 0),
    ]:
        rate = tally.false[kind] / tally.account_quarters
        allowed = ALLOWED_RATES.get(kind[1]) or MOST_FALSE[kind[0]]
        rows.append(
            {
                "": str(kind[0]),
                "level": kind[1],
                "allowed": allowed,
                "false per account-quarter": round(rate, 4),
                "flagged": f"{tally.flagged_days[kind] / tally.looks:.2%}",
                "told of the rename": f"{tally.renamed[kind[1]] / tally.rename_users:.2%}",
            }
        )
        yield Result(
            f"{kind[0]} {kind[1]}: more false alarms than allowed",
            "yes" if rate > TOLERANCE * allowed else "no",
            must_be="no",
        )
        share = tally.renamed[kind[1]] / tally.rename_users
        yield Result(
            f"{kind[0]} {kind[1]}: more accounts told of a rename than {MOST_TOLD:.0%}",
            "yes" if share > MOST_TOLD else "no",
            must_be="no",
        )
    for what, least in LEAST_FOUND.items():
        hits, count = tally.found[what]
        yield Result(
            f"{' '.join(map(str, what))}: fewer found than {least:.0%}",
            "yes" if hits < least * count else "no",
            must_be="no",
        )
    yield Table("Accounts that did not change", rows)
    yield Table(
        "Changes that were found",
        [
            {
                "": str(signal),
                "level": level,
                "group": group,
                "changes": count,
                "found": f"{hits / count:.0%}",
                "within days": FOUND_WITHIN[Alarm.Signal(signal)],
            }
            for (signal, level, group), (hits, count) in sorted(tally.found.items())
        ],
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--worlds", type=int, default=3, help="how many are built")
    parser.add_argument("--accounts", type=int, default=900, help="in each world")
    parser.add_argument("--seed", type=int, default=1, help="of the first world")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
