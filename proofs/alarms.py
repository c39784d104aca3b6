"""Alarms: worlds in which the truth is planted are decided night by night by the service's own
functions. Alarms about accounts that did not change must be as rare as the level allows, and those
that changed must be found as often as stated.
"""

import argparse
import multiprocessing
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from engagement.alarms.levels import (
    ALLOWED_RATES,
    MEASURED_BY,
    NOTHING_DAYS,
    QUARTER_DAYS,
    measured_kappas,
    measured_span,
    thresholds,
)
from engagement.alarms.statistic import LEAST_WEEKS, WEEKS, WINDOWS, Accounts
from engagement.alarms.transitions import ALARM, OPEN, RECOVERED, Decision, decide_night
from harness import cluster
from harness.command import run_command
from harness.report import Report, Result, Table, progress
from harness.service import temporary_service
from proofs.alarm_worlds import (
    CHANGES,
    COUNTRIES,
    HISTORY_DAYS,
    MEASURED_DAYS,
    Kind,
    World,
    build,
)

Array = npt.NDArray[Any]

FALL, RISE = 0, 1
SIMPLE = Kind("simple planted", changes=("halved",), is_rich=False)
NEVER = Kind("rich, none changes", changing=0.0)
SOME = Kind("rich, 15% change")
MANY = Kind("rich, 40% change", changing=0.4)
FEW = Kind("rich, 30 accounts", accounts=30)
KINDS = (SIMPLE, NEVER, SOME, MANY)
RICH_KINDS = (NEVER.name, SOME.name, MANY.name)
# Seconds for a world in the database.
PATIENCE = 3600.0
# How many days later than the others late senders deliver.
LATE_DAYS = 2
# Worlds of 30 accounts in one.
FEW_WORLDS = 4
NIGHTS_FROM = HISTORY_DAYS
JUDGED_FROM = HISTORY_DAYS + MEASURED_DAYS

# An alarm of one direction: its last column is the day that ended it, or the day after the last.
SPAN = np.dtype([("row", "i8"), ("level", "i8"), ("since", "i8"), ("end", "i8"), ("outcome", "i8")])


@dataclass
class History:
    """The alarms of a world in both directions, and what they are counted by."""

    world: World
    spans: tuple[Array, Array]
    # The accounts that each night could decide.
    decidable: dict[int, int]
    # Nights on which an account was decidable, within the judged time, for each account.
    judged_nights: Array


def live(world: World, nights_from: int = NIGHTS_FROM) -> History:
    """Decide every night of the world, from the first that has a history on."""
    sums = np.zeros((len(world.users), world.kind.days + 1), np.uint32)
    np.cumsum(world.users, axis=1, out=sums[:, 1:])
    first = np.where(world.users.any(axis=1), (world.users > 0).argmax(axis=1), world.kind.days)
    alarms = (np.zeros(0, ALARM), np.zeros(0, ALARM))
    spans: tuple[list[Array], list[Array]] = ([], [])
    # Of each night, the accounts that it could decide, and the thresholds of both directions.
    nights: dict[int, tuple[int, list[list[float]]]] = {}
    for column in range(nights_from, world.kind.days):
        accounts = _accounts(world, sums, first, column)
        p_on = [_thresholds(world, column, own, nights, d) for d, own in enumerate(spans)]
        night = decide_night(column, accounts, alarms, (p_on[FALL], p_on[RISE]), level=2)
        nights[column] = night.decidable - _unknown(accounts, alarms), p_on
        decisions = (night.falls, night.rises)
        for own, decision in zip(spans, decisions, strict=True):
            own.append(_ended(decision, column))
        alarms = (night.falls.next(column), night.rises.next(column))
    for own, open_alarms in zip(spans, alarms, strict=True):
        own.append(_spans(open_alarms[open_alarms["outcome"] == OPEN], world.kind.days))
    columns = np.arange(JUDGED_FROM, world.kind.days)
    judged = ((columns + 1 - first[:, None]) // 7 >= LEAST_WEEKS + WINDOWS[0]).sum(axis=1)
    both = np.concatenate(spans[0]), np.concatenate(spans[1])
    decidable = {night: number for night, (number, _) in nights.items()}
    return History(world, both, decidable, judged)


def _unknown(accounts: Accounts, alarms: tuple[Array, Array]) -> int:
    """The accounts that a night of the service does not read: without activity in all weeks, and
    without an alarm."""
    is_silent = (accounts.ages == WEEKS) & ~accounts.weeks.any(axis=1)
    for own in alarms:
        is_silent[own["row"]] = False
    return int(is_silent.sum())


def _accounts(world: World, sums: Array, first: Array, column: int) -> Accounts:
    """What the service knows at the end of the day."""
    # What late senders deliver is known as late as usual: their weeks end before.
    ends = column + 1 - LATE_DAYS * world.late
    borders = np.maximum(ends[:, None] - 7 * np.arange(WEEKS + 1), 0)
    weeks = -np.diff(np.take_along_axis(sums, borders, axis=1).astype(np.int64), axis=1)
    return Accounts(
        weeks.astype(np.uint32),
        np.clip((ends - first) // 7, 0, WEEKS).astype(np.uint8),
        world.users[:, max(column + 1 - 7 * WEEKS, 0) : column + 1].max(axis=1) <= 2,
        world.regions,
    )


def _thresholds(
    world: World,
    column: int,
    spans: list[Array],
    nights: dict[int, tuple[int, list[list[float]]]],
    direction: int,
) -> list[float]:
    first, last = ((day - world.day(0)).days for day in measured_span(world.day(column)))
    own = np.concatenate(spans) if spans else np.zeros(0, SPAN)
    came_to_nothing = (
        (own["outcome"] == RECOVERED)
        & (own["since"] >= first)
        & (own["since"] <= last)
        & (own["end"] - own["since"] <= NOTHING_DAYS)
    )
    numbers = np.bincount(own["level"][came_to_nothing], minlength=len(MEASURED_BY))
    measured = [
        (decidable, p_on[direction])
        for night, (decidable, p_on) in nights.items()
        if first <= night <= last
    ]
    return thresholds(measured_kappas(dict(enumerate(numbers.tolist())), measured))


def _ended(decision: Decision, column: int) -> Array:
    """The alarms that ended on this night. Those that settled before stay as they were."""
    return _spans(decision.latest[decision.ended], column)


def _spans(alarms: Array, end: int) -> Array:
    spans = np.zeros(len(alarms), SPAN)
    for name in ("row", "level", "since", "outcome"):
        spans[name] = alarms[name]
    spans["end"] = end
    return spans


# --- What is counted: pairs (how many, of how many), which add up over worlds ---------------------

Counts = dict[str, tuple[float, float]]
LEVELS = {2: "F = 0.05", 3: "F = 0.10"}
USERS = {
    "1 user": (1, 1),
    "2–4 users": (2, 4),
    "5–9 users": (5, 9),
    "10–29 users": (10, 29),
    "30–99 users": (30, 99),
    "100+ users": (100, 9_999),
}
# Usual active user-days in 28 days.
USUAL = {
    "E28 4–10": (4, 10),
    "E28 10–25": (10, 25),
    "E28 25–60": (25, 60),
    "E28 60–150": (60, 150),
    "E28 150+": (150, 1e9),
    "E28 25+": (25, 1e9),
}
WITHIN = (14, 28, 56)
PERSISTENCE_DAYS = (60, 90)


def count(history: History) -> Counts:
    counts: Counts = {}
    for level, name in LEVELS.items():
        for direction, of in enumerate(("falls", "rises")):
            spans = history.spans[direction]
            own = spans[spans["level"] == level]
            parts = {**_false_alarms(history, own), **_hits(history, own)}
            counts |= {f"{name}, {of}: {key}": pair for key, pair in parts.items()}
    if history.world.kind.is_rich:
        spans = history.spans[FALL]
        counts |= _calendar(history, spans[spans["level"] == 2])
    return counts


def _false_alarms(history: History, spans: Array) -> Counts:
    """Alarms that begin on unchanged accounts, per account-quarter; account-days with one."""
    world = history.world
    is_same = world.change < 0
    spans = spans[is_same[spans["row"]] & (spans["end"] > JUDGED_FROM)]
    begins = spans["row"][spans["since"] >= JUDGED_FROM]
    onsets = np.bincount(begins, minlength=len(world.users))
    quarters = history.judged_nights / QUARTER_DAYS
    groups = {"all": is_same, "Japan": is_same & (world.countries == COUNTRIES.index("JP"))}
    groups["late senders"] = is_same & world.late
    for name, (least, most) in USERS.items():
        groups[name] = is_same & (world.sizes >= least) & (world.sizes <= most)
    counts = {
        f"false, {name}": (float(onsets[rows].sum()), float(quarters[rows].sum()))
        for name, rows in groups.items()
    }
    days = (spans["end"] - np.maximum(spans["since"], JUDGED_FROM)).sum()
    counts["flagged on a day"] = float(days), float(history.judged_nights[is_same].sum())
    return counts


def _hits(history: History, spans: Array) -> Counts:
    """Changed accounts that have an alarm within some days, which began then or is still open at
    their end. Only of accounts that were 24 weeks old when they changed.
    """
    world = history.world
    before = [
        users[max(0, day - 84) : day].sum() / 3
        for users, day in zip(world.users, world.changed_on, strict=True)
    ]
    usual, changed_on = np.array(before), world.changed_on
    first = (world.users > 0).argmax(axis=1)
    is_old = (changed_on - first >= 7 * WEEKS) & (usual > 0)
    groups = {"all": is_old, "5+ users": is_old & (world.sizes >= 5)}
    for size, (least, most) in USUAL.items():
        groups[size] = is_old & (usual >= least) & (usual < most)
    counts: Counts = {}
    for within in WITHIN:
        start = changed_on[spans["row"]]
        begins = (spans["since"] >= start) & (spans["since"] < start + within)
        lasts = (spans["since"] < start) & (spans["end"] >= start + within)
        hit = np.zeros(len(usual), bool)
        hit[spans["row"][begins | lasts]] = True
        for group, members in groups.items():
            for change, name in enumerate(CHANGES):
                own = members & (world.change == change)
                pair = float(hit[own].sum()), float(own.sum())
                counts[f"{name}, {group}, found in {within} d"] = pair
    return counts | _persistence(world, spans)


def _persistence(world: World, spans: Array) -> Counts:
    """Halved accounts that are found in 28 days, and whose alarm is on some time after."""
    start = world.changed_on[spans["row"]]
    is_early = (spans["since"] >= start) & (spans["since"] < start + 28)
    is_halved = world.change[spans["row"]] == CHANGES.index("halved")
    own = spans[is_early & is_halved]
    start = world.changed_on[own["row"]]
    counts: Counts = {}
    for days in PERSISTENCE_DAYS:
        is_known = start + days < world.kind.days
        is_on = is_known & (own["end"] > start + days)
        counts[f"halved, found in 28 d, on after {days} d"] = (
            float(is_on.sum()),
            float(is_known.sum()),
        )
    return counts


def _calendar(history: History, spans: Array) -> Counts:
    """Alarms that begin on unchanged accounts, by day, in parts of the year."""
    world = history.world
    is_same = world.change < 0
    since = spans["since"][is_same[spans["row"]] & (spans["since"] >= JUDGED_FROM)]
    by_night = np.bincount(since - JUDGED_FROM, minlength=world.kind.judged_days)
    days = [world.day(JUDGED_FROM + night) for night in range(world.kind.judged_days)]
    outage = world.day(world.outage)
    parts: dict[str, Callable[[date], bool]] = {
        "the year": lambda day: True,
        "Christmas": lambda day: not (1, 10) < (day.month, day.day) < (12, 20),
        "August": lambda day: day.month == 8,
        "three weeks after the outage": lambda day: 0 <= (day - outage).days < 21,
    }
    nights = {name: np.array([holds(day) for day in days]) for name, holds in parts.items()}
    counts = {
        f"false a day, {name}": (float(by_night[own].sum()), float(own.sum()))
        for name, own in nights.items()
    }
    return {**counts, "worst day, accounts": (float(by_night.max()), float(is_same.sum()))}


# --- What must be reached: the figures of docs/decisions/engagement.md, with tolerances -----------

RICH = "rich"
# World, level, change, accounts, shares found in 14, 28, and 56 days, and the tolerance.
FINDS: tuple[
    tuple[str, int, str, str, tuple[float | None, float | None, float | None], float], ...
] = (
    (SIMPLE.name, 2, "falls: halved", "5+ users", (0.38, 0.66, 0.84), 0.10),
    (SIMPLE.name, 3, "falls: halved", "5+ users", (0.50, 0.73, 0.89), 0.10),
    (RICH, 2, "falls: stopped", "5+ users", (0.81, 0.95, 0.98), 0.05),
    (RICH, 3, "falls: stopped", "5+ users", (0.85, 0.96, 1.00), 0.05),
    (RICH, 2, "falls: halved", "all", (0.10, 0.17, 0.27), 0.06),
    (RICH, 3, "falls: halved", "all", (0.14, 0.25, 0.37), 0.06),
    (RICH, 2, "falls: halved", "5+ users", (0.14, 0.29, 0.45), 0.06),
    (RICH, 3, "falls: halved", "5+ users", (0.22, 0.41, 0.60), 0.06),
    (RICH, 2, "falls: halved", "E28 10–25", (None, 0.15, 0.30), 0.08),
    (RICH, 2, "falls: halved", "E28 25–60", (None, 0.28, 0.46), 0.08),
    (RICH, 2, "falls: halved", "E28 60–150", (None, 0.41, 0.59), 0.08),
    (RICH, 2, "falls: halved", "E28 150+", (None, 0.80, 0.87), 0.08),
    (RICH, 2, "falls: stopped", "E28 4–10", (None, 0.30, None), 0.08),
    (RICH, 2, "falls: stopped", "E28 10–25", (None, 0.93, None), 0.08),
    (RICH, 2, "falls: stopped", "E28 25+", (None, 1.00, None), 0.08),
    (RICH, 2, "rises: doubled", "all", (None, 0.26, 0.42), 0.08),
    (RICH, 2, "rises: doubled", "5+ users", (None, 0.46, 0.73), 0.08),
    (RICH, 2, "falls: 40% leave", "5+ users", (None, 0.28, 0.40), 0.08),
    (RICH, 3, "falls: 40% leave", "5+ users", (None, 0.35, 0.51), 0.08),
)


@dataclass(frozen=True)
class Bar:
    """The most or the least that a ratio of counts may be, of a kind of world."""

    world: str
    key: str
    most: float | None = None
    least: float | None = None


def bars() -> Iterator[Bar]:
    for level, name in LEVELS.items():
        allowed = ALLOWED_RATES[level]
        yield Bar(SIMPLE.name, f"{name}, falls: false, all", allowed)
        yield Bar(SIMPLE.name, f"{name}, falls: flagged on a day", {2: 0.008, 3: 0.015}[level])
        for kind in (NEVER, SOME, MANY):
            yield Bar(kind.name, f"{name}, falls: false, all", 1.35 * allowed)
            yield Bar(kind.name, f"{name}, rises: false, all", 1.35 * allowed)
        yield Bar(FEW.name, f"{name}, falls: false, all", 1.5 * allowed)
        for group in (*USERS, "Japan"):
            yield Bar(RICH, f"{name}, falls: false, {group}", 1.5 * allowed)
        yield Bar(RICH, f"{name}, falls: flagged on a day", {2: 0.03, 3: 0.045}[level])
    yield Bar(RICH, "worst day, accounts", 0.01)
    for world, level, what, group, shares, tolerance in FINDS:
        for within, share in zip(WITHIN, shares, strict=True):
            if share is not None:
                key = f"{LEVELS[level]}, {what}, {group}, found in {within} d"
                yield Bar(world, key, least=share - tolerance)


def _count(job: tuple[Kind, int]) -> tuple[Kind, int, Counts]:
    kind, seed = job
    return kind, seed, count(live(build(kind, seed)))


def measure(options: argparse.Namespace) -> Report:
    if options.through_database or options.citus:
        yield from through_database(options)
        return
    few = FEW_WORLDS * options.seeds
    jobs = [(kind, seed) for seed in range(1, options.seeds + 1) for kind in KINDS]
    jobs += [(FEW, seed) for seed in range(1, few + 1)]
    jobs = [(kind, seed) for kind, seed in jobs if options.only in kind.name]
    if options.short:
        jobs = [(replace(kind, accounts=min(kind.accounts, 500)), seed) for kind, seed in jobs]
    sums: dict[str, Counts] = defaultdict(dict)
    # A process for each core; each world is an array of a few MB.
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        for kind, seed, counts in pool.imap_unordered(_count, jobs):
            false, quarters = counts[f"{LEVELS[2]}, falls: false, all"]
            progress(f"{kind.name}, seed {seed}: {false:.0f} false in {quarters:.0f} quarters")
            for name in {kind.name, RICH if kind.name in RICH_KINDS else kind.name}:
                for key, (part, total) in counts.items():
                    own = sums[name].get(key, (0.0, 0.0))
                    sums[name][key] = own[0] + part, own[1] + total
    yield from _tables(sums)
    yield from _judge(sums)


def _judge(sums: dict[str, Counts]) -> Iterator[Result]:
    for bar in bars():
        part, total = sums.get(bar.world, {}).get(bar.key, (0.0, 0.0))
        if total:
            value = round(part / total, 4)
            yield Result(f"{bar.world}: {bar.key}", value, bar.least, bar.most)
    if RICH not in sums:
        return
    for part_of_year in ("Christmas", "August", "three weeks after the outage"):
        own, year = sums[RICH][f"false a day, {part_of_year}"], sums[RICH]["false a day, the year"]
        ratio = own[0] / own[1] / (year[0] / year[1])
        name = f"{RICH}: {part_of_year}, new false alarms, times the mean day"
        yield Result(name, round(ratio, 2), at_most=1.5)


def through_database(options: argparse.Namespace) -> Report:
    """Compare what the service decides and stores with what its functions decide on arrays."""
    with cluster.service() if options.citus else temporary_service() as service:
        for seed in range(1, options.seeds + 1):
            for way in ("day by day", "by one replay"):
                progress(f"{SOME.name}, seed {seed}: the service decides {way}.")
                world = (SOME.name, str(seed), str(options.accounts))
                numbers = service.run_json(
                    "-m", "proofs.alarm_nights", *world, way, timeout=PATIENCE
                )
                for name, number in numbers.items():
                    must_be = 0 if name.startswith("differing") else None
                    yield Result(f"{way}, seed {seed}: {name}", number, must_be=must_be)


def _tables(sums: dict[str, Counts]) -> Iterator[Table]:
    """Everything that was counted, with its numbers: bars judge only a part."""
    for world, counts in sums.items():
        rows = [
            {"": key, "share": round(part / total, 4), "part": round(part), "of": round(total)}
            for key, (part, total) in counts.items()
            if total
        ]
        yield Table(world, rows)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=3, help="worlds of each kind")
    parser.add_argument("--only", default="", metavar="TEXT", help="kinds with this in their name")
    parser.add_argument("--short", action="store_true", help="with 500 accounts: too few to judge")
    parser.add_argument(
        "--through-database",
        action="store_true",
        help="have a service decide, and compare its alarms with those of the functions",
    )
    parser.add_argument("--citus", action="store_true", help="the same, on a Citus cluster")
    parser.add_argument("--accounts", type=int, default=300, help="accounts in the database")
    parser.add_argument("--processes", type=int, default=2, help="worlds at a time")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, missed_is_wrong=True)
