"""Forecasts: worlds in which hazards are planted are forecast by the service's own functions. An
80% interval must hold what happens in about 80% of them, whatever the sizes of customers are.
"""

import argparse
import multiprocessing
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from harness.command import run_command
from harness.report import Report, Result, Table, progress
from outcomes.forecasts.results import Measure, PastCount
from outcomes.forecasts.simulation import believed_spreads, simulate
from outcomes.statistics.rates import wilson
from proofs import plots
from proofs.forecast_worlds import World, months

PROMISED, BARS = 0.8, (0.74, 0.86)
# Months that have gone by when a quarter is forecast.
HISTORY = 24
# Few terms, many, one customer with 40% of all seats, several terms of a customer, months that
# differ, and chances that were learned.
WORLDS = {
    "30 terms": World(terms=10),
    "300 terms": World(terms=100),
    "3,000 terms": World(terms=1_000),
    "300 terms, one with 40% of the seats": World(terms=100, largest=0.4),
    "300 terms, three of each customer": World(terms=99, per_account=3),
    "300 terms, months differ by 0.5": World(terms=100, shift=0.5),
    "3,000 terms, months differ by 0.3": World(terms=1_000, shift=0.3),
    "300 terms, learned from 300": World(terms=100, learned_from=300),
    "3,000 terms, learned from 1,000": World(terms=1_000, learned_from=1_000),
}
YEARS = 5
WALKS = {
    "20 terms a month": World(terms=20),
    "300 terms a month, months differ by 0.3": World(terms=300, shift=0.3),
    "100 terms a month, learned from 300": World(terms=100, learned_from=300),
}


def quarters(seed: int, only: str = "") -> Iterator[tuple[str, bool, float]]:
    """A quarter of each world whose name has *only* in it: whether its interval held, and how wide
    it was."""
    for name, world in _with_name(WORLDS, only):
        own = list(months(world, HISTORY + 3, seed))
        spreads = believed_spreads(month.count for month in own[:HISTORY])
        quarter = own[HISTORY:]
        terms = [
            # Whoever renews in a month of the year renews in no other.
            term._replace(month=number, account=number * world.terms + term.account)
            for number, month in enumerate(quarter)
            for term in month.terms
        ]
        sums = simulate(terms, spreads, [seed]).sums()[Measure.SEATS]
        renewed = sum(month.renewed for month in quarter)
        yield name, sums.low <= renewed <= sums.high, (sums.high - sums.low) / sums.due


def walks(seed: int, only: str = "") -> Iterator[tuple[str, bool, float]]:
    """Five years: each month is forecast by what was known when it began, and judged later."""
    for name, world in _with_name(WALKS, only):
        past: list[PastCount] = []
        for number, month in enumerate(months(world, 12 * YEARS, seed)):
            spreads = believed_spreads(past[-36:])
            sums = simulate(month.terms, spreads, [seed, number]).sums([0])[Measure.SEATS]
            yield name, sums.low <= month.renewed <= sums.high, (sums.high - sums.low) / sums.due
            past.append(month.count)


def _with_name(worlds: dict[str, World], only: str) -> list[tuple[str, World]]:
    return [(name, world) for name, world in worlds.items() if only in name]


def _worlds_of(only: str, seed: int) -> list[tuple[str, str, bool, float]]:
    with_walks = seed % 10 == 0
    return [
        *(("a quarter", *rows_of) for rows_of in quarters(seed, only)),
        *(("five years", *rows_of) for rows_of in (walks(seed, only) if with_walks else ())),
    ]


def measure(options: argparse.Namespace) -> Report:
    rows_of: dict[tuple[str, str], list[tuple[bool, float]]] = defaultdict(list)
    seeds = range(options.seed, options.seed + options.worlds)
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        worlds = pool.imap_unordered(partial(_worlds_of, options.only), seeds)
        for number, world in enumerate(worlds, 1):
            progress(f"{number} of {options.worlds} seeds")
            for part, name, is_within, width in world:
                rows_of[part, name].append((is_within, width))
    rows, drawn = [], []
    for (part, name), each in rows_of.items():
        within, widths = np.array(each, float).T
        share = round(float(within.mean()), 3)
        width = round(float(widths.mean()), 3)
        if held := wilson(within.sum(), len(each)):
            drawn.append(plots.Row(f"Of {part}", name, held))
        rows.append({"": f"{part}: {name}", "covered": share, "width": width, "of": len(each)})
        yield Result(f"{part}: {name}: covered, at least", share, at_least=BARS[0])
        yield Result(f"{part}: {name}: covered, at most", share, at_most=BARS[1])
    if options.plot:
        title = "80% intervals that held what happened"
        plots.write_coverage(options.plot, title, drawn, PROMISED, BARS)
    yield Table(
        "Forecasts: 80% intervals that held, and their widths as shares of what was due", rows
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--worlds", type=int, default=200, help="quarters of each world")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--only", default="", metavar="TEXT", help="worlds with this in their name")
    parser.add_argument("--processes", type=int, default=2, help="worlds at a time")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the coverage to FILE")


if __name__ == "__main__":
    run_command("proofs.forecasts", __doc__, arguments, measure, missed_is_wrong=True)
