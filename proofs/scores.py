"""Scores: worlds in which the truth is planted are judged by the service's own statistics, and its
suggested weights are compared with the true ones. Intervals must cover, nothing may be claimed
where nothing is, and what is known of public purchases must come out.
"""

import argparse
import multiprocessing
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.command import run_command
from harness.report import Report, Result, Table, progress
from outcomes.backtests.results import Verdict
from outcomes.backtests.verdicts import verdict
from outcomes.statistics.auc import auc, auc_difference
from outcomes.suggestions.choice import WINDOWS, Definition, Examples, Window, choose
from outcomes.suggestions.results import Judgement
from outcomes.suggestions.walk_forward import judge
from proofs.score_worlds import HORIZON, NAMES, Planted, World, build, decayed, independent

Array = npt.NDArray[Any]
Figures = dict[str, float]

PRESENT = Definition(Window(30), np.ones(NAMES))
WEIGHTS = "3 of 10 names, 200 outcomes"
DRIFT = "drift in the last quarter, 600 outcomes"
INDEPENDENT = "independent outcomes"
YEARLY, MONTHLY = World(outcomes=6_000), World(outcomes=6_000, per_account=12)
# Accounts drawn from a world, and whether each has twelve outcomes.
SAMPLES = {
    "30 outcomes": (30, YEARLY),
    "100 outcomes": (100, YEARLY),
    "1,000 outcomes": (1_000, YEARLY),
    "360 of 30 accounts": (30, MONTHLY),
}


def sums(planted: Planted, window: Window) -> Array:
    """The counts of each name that the window has on the day of the prediction."""
    days = planted.days - HORIZON
    if window.half_life_days:
        return decayed(planted.counts, planted.accounts, days, window.half_life_days)
    rows = zip(planted.accounts, days, strict=True)
    first = 1 - window.lookback_days
    return np.array(
        [planted.counts[row, max(day + first, 0) : day + 1].sum(axis=0) for row, day in rows], float
    )


def examples_of(planted: Planted, good: Array | None = None) -> Examples:
    return Examples(
        {window: sums(planted, window) for window in WINDOWS},
        planted.is_good if good is None else good,
        planted.accounts,
        planted.days - HORIZON,
        planted.days + 1,
        PRESENT,
    )


# --- How often intervals cover --------------------------------------------------------------------


def covers(seed: int, draws: int, only: str = "") -> Iterator[tuple[str, Figures]]:
    """Draw outcomes of accounts of one population, whose AUC is known, again and again."""
    chance = np.random.default_rng(seed)
    for name, (accounts, world) in SAMPLES.items():
        if not re.search(only, name):
            continue
        planted = build(world, seed)
        scores = sums(planted, PRESENT.window).sum(axis=1)
        truth = true_auc(scores, planted.chances)
        for _ in range(draws):
            if world.per_account == 12:
                own = chance.choice(np.unique(planted.accounts), accounts, replace=False)
                rows = np.flatnonzero(np.isin(planted.accounts, own))
            else:
                rows = chance.choice(len(scores), accounts, replace=False)
            is_good = chance.random(len(rows)) < planted.chances[rows]
            estimate = auc(scores[rows], is_good, planted.accounts[rows])
            if estimate is not None:
                is_inside = estimate.low <= truth <= estimate.high
                width = estimate.high - estimate.low
                yield name, {"covered": is_inside, "width": width, "true AUC": truth}


def true_auc(scores: Array, chances: Array) -> float:
    """The chance that of two outcomes, a good and a bad one, the good one has the higher score."""
    order = np.argsort(scores, kind="stable")
    values, good, bad = scores[order], chances[order], 1 - chances[order]
    below = np.concatenate([[0.0], np.cumsum(bad)])
    low, high = (np.searchsorted(values, values, side) for side in ("left", "right"))
    return float((good * (below[low] + below[high]) / 2).sum() / good.sum() / bad.sum())


# --- Verdicts and suggestions ---------------------------------------------------------------------


def without_effect(seed: int) -> Iterator[tuple[str, Figures]]:
    """Outcomes that nothing predicts: by year, and twelve of each account."""
    for per_account in (2, 12):
        planted = build(independent(World(per_account=per_account)), seed)
        examples = examples_of(planted)
        scores = examples.counts[Window(30)].sum(axis=1)
        recency = last_active(planted)
        estimate = auc(scores, planted.is_good, planted.accounts)
        ahead = auc_difference(scores, recency, planted.is_good, planted.accounts)
        conclusion = verdict(estimate, ahead, len(scores), int((~planted.is_good).sum()))
        yield (
            f"{INDEPENDENT}, {per_account} of an account",
            {
                "no better than chance": conclusion is Verdict.NO_BETTER_THAN_CHANCE,
                "gains claimed": judge(examples).has_gain,
            },
        )


def last_active(planted: Planted) -> Array:
    """Minus the days since the last activity."""
    until = planted.days - HORIZON
    silent = []
    for row, day in zip(planted.accounts, until, strict=True):
        active = planted.counts[row, day::-1].any(axis=1)
        silent.append(int(active.argmax()) if active.any() else int(day) + 1)
    return -np.array(silent, float)


def with_three_names(seed: int) -> Iterator[tuple[str, Figures]]:
    for half_life in (20.0, 45.0, 90.0):
        world = World(half_life=half_life)
        examples = examples_of(build(world, seed))
        suggestion = choose(examples, np.arange(world.outcomes))
        days = suggestion.window.half_life_days or 0
        judgement = judge(examples)
        yield (
            f"{WEIGHTS}, half-life {half_life:.0f}",
            {
                "rank correlation": rank_correlation(suggestion.weights, np.array(world.weights)),
                "half-life within a factor of 2": half_life / 2 <= days <= 2 * half_life,
                "gains claimed": judgement.has_gain,
                "gain in AUC": judgement.gain.value if judgement.gain else 0.0,
            },
        )


def rank_correlation(own: Array, other: Array) -> float:
    """Spearman's, 0 if all are equal."""
    ranks = []
    for values in (own, other):
        _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(counts) - (counts - 1) / 2)[places])
    if min(np.ptp(ranks[0]), np.ptp(ranks[1])) == 0:
        return 0.0
    own, other = (values - values.mean() for values in ranks)
    both = (own**2).sum() * (other**2).sum()
    return float((own * other).sum() / both**0.5)


def with_drift(seed: int) -> Iterator[tuple[str, Figures]]:
    world = World(outcomes=600, slope=3.0, drift_from=0.75)
    planted = build(world, seed)
    judgement = judge(examples_of(planted))
    # What was known only from the last part's first day on must not change its suggestion. So if
    # all of that is the other way round, its AUC is, too.
    is_later = planted.days + 1 >= judgement.parts[-1].first_day.toordinal()
    other = judge(examples_of(planted, np.where(is_later, ~planted.is_good, planted.is_good)))
    before, after = _falls(judgement)
    yield (
        DRIFT,
        {
            "AUC before": before,
            "AUC in the last part": after,
            "falls": after < before,
            "learned from the future": abs(_falls(other)[1] - (1 - after)) > 1e-9,
        },
    )


def _falls(judgement: Judgement) -> tuple[float, float]:
    values = [part.auc.value if part.auc else 0.5 for part in judgement.parts]
    return float(np.mean(values[:-1])), values[-1]


# --- Public purchases -----------------------------------------------------------------------------


def purchases() -> dict[str, float]:
    """AUC of CDNOW's customers after 39 weeks: who orders again within 91 days (Fader and Hardie;
    the package ``lifetimes`` has the data)."""
    file = distribution("lifetimes").locate_file("lifetimes/datasets/CDNOW_master.txt")
    lines = [line.split() for line in Path(str(file)).read_text().splitlines()]
    orders = [(line[0], line[1]) for line in lines if len(line) > 1 and line[0].isdigit()]
    names, stamps = np.array(orders).T
    day = np.array([f"{s[:4]}-{s[4:6]}-{s[6:]}" for s in stamps], "datetime64[D]").astype(int)
    age = day.min() + 39 * 7 - day
    customers = np.unique(names, return_inverse=True)[1]
    is_good = np.bincount(customers, (age < 0) & (age >= -91)) > 0
    before = age >= 0
    figures = {"customers": float(len(is_good))}
    for name, weights in (
        ("window of 30 days", age < 30),
        ("half-life of 60 days", 2.0 ** (-np.maximum(age, 0) / 60)),
    ):
        estimate = auc(np.bincount(customers, before * weights), is_good)
        figures[name] = estimate.value if estimate else 0.5
    return figures


# --- The command ----------------------------------------------------------------------------------

# The name of a figure's mean over worlds, and the least or the most that it may be.
LEAST = {
    "covered": 0.93,
    "no better than chance": 0.93,
    "rank correlation": 0.8,
    "half-life within a factor of 2": 0.8,
    "falls": 0.9,
}
MOST = {"gains claimed": 0.05}
PURCHASES = {"window of 30 days": 0.60, "half-life of 60 days": 0.77}
TOLERANCE = 0.01


PARTS = {INDEPENDENT: without_effect, WEIGHTS: with_three_names, DRIFT: with_drift}


def _worlds_of(only: str, seed: int) -> list[tuple[str, Figures]]:
    parts = (part for name, part in PARTS.items() if re.search(only, name))
    return [figures for part in parts for figures in part(seed)]


def measure(options: argparse.Namespace) -> Report:
    yield from _judge_purchases()
    all_figures: dict[str, list[Figures]] = defaultdict(list)
    for name, figures in covers(options.seed, options.draws, options.only):
        all_figures[name].append(figures)
    seeds = range(options.seed, options.seed + options.worlds)
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        worlds = pool.imap_unordered(partial(_worlds_of, options.only), seeds)
        for number, world in enumerate(worlds, 1):
            progress(f"{number} of {options.worlds} seeds")
            for name, figures in world:
                all_figures[name].append(figures)
    rows = []
    for name, own in all_figures.items():
        for figure in own[0]:
            mean = float(np.mean([world[figure] for world in own]))
            rows.append({"": f"{name}: {figure}", "mean": round(mean, 3), "worlds": len(own)})
            yield from _judge(name, figure, round(mean, 3))
    yield Table("All figures", rows)


def _judge_purchases() -> Iterator[Result]:
    figures = purchases()
    yield Result("purchases: customers", int(figures["customers"]), must_be=23_570)
    for name, aim in PURCHASES.items():
        is_near = abs(figures[name] - aim) <= TOLERANCE
        yield Result(f"purchases: {name}, AUC", round(figures[name], 4))
        yield Result(f"purchases: {name}, {aim} ± {TOLERANCE}", str(is_near), must_be="True")


def _judge(name: str, figure: str, mean: float) -> Iterator[Result]:
    if figure == "learned from the future":
        yield Result(f"{name}: {figure}", mean, must_be=0.0)
    elif figure in LEAST:
        yield Result(f"{name}: {figure}", mean, at_least=LEAST[figure])
    elif figure in MOST and name.startswith(INDEPENDENT):
        yield Result(f"{name}: {figure}", mean, at_most=MOST[figure])


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--worlds", type=int, default=200, help="worlds of each kind")
    parser.add_argument("--draws", type=int, default=2_000, help="of each population")
    parser.add_argument("--only", default="", metavar="PATTERN", help="parts with such a name")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--processes", type=int, default=2, help="worlds at a time")


if __name__ == "__main__":
    run_command("proofs.scores", __doc__, arguments, measure, missed_is_wrong=True)
