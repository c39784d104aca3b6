"""Foresight: worlds in which the chances of evaluations are planted are judged by the service's own
functions. Chances must tell more than the share of all does, mean what they say, and claim nothing
where nothing is to be known.
"""

import argparse
import multiprocessing
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.command import run_command
from harness.report import Report, Result, Table, progress
from outcomes.chances.model import PastCases, as_past_cases, learn, predict
from outcomes.chances.proof import prove, walk_forward
from outcomes.kinds import Outcome
from outcomes.statistics.rates import wilson
from proofs import plots
from proofs.foresight_worlds import DECISIONS, Evaluations, evaluations

Array = npt.NDArray[Any]
Figures = dict[str, float]

# --- Evaluations ----------------------------------------------------------------------------------

AGE = 7
# The share that is bought, in every other world.
BOUGHT = (0.4, 0.2)
# Evaluations of a world. Of 100, hardly 40 are predicted: they have no bar.
SIZES, LEAST_FOR_BARS = (100, 200, 400, 1_500), 200
# Of the bins, whose intervals miss 5% by chance; and of what the truth gains, this share.
LEAST_CALIBRATED, LEAST_OF_TRUTH = 0.9, 0.5
MOST_CLAIMS = 0.05
NOTHING = "nothing"
# Parts of the plot, each of the chances within a tenth, and the least number of them.
TENTHS, LEAST_OF_A_POINT = 10, 50


class World(NamedTuple):
    """The figures of a world; and of each tenth of the chances that were told how many they were,
    their sum, and how many were good."""

    figures: Figures
    tenths: Array


def past_cases(planted: Evaluations) -> PastCases:
    days = [began_on + timedelta(days=AGE) for began_on in planted.began_on]
    outcomes = [
        Outcome(number, known_on, bool(is_good), "", known_on, None, began_on)
        for number, (began_on, known_on, is_good) in enumerate(
            zip(planted.began_on, planted.known_on, planted.is_good, strict=True)
        )
    ]
    return as_past_cases(outcomes, days, planted.features)


def evaluations_of(only: str, seed: int) -> list[tuple[str, str, World]]:
    """A world of each decision and size."""
    return [
        (decision, name, world)
        for decision in DECISIONS
        for number in SIZES
        if only in (name := f"{number:,} evaluations, {decision} decides")
        and (world := judged(number, decision, seed))
    ]


def judged(number: int, decision: str, seed: int) -> World | None:
    """What the proof says of a world, and what the truth would have said of the same evaluations;
    None if the service says that there are too few."""
    bought = BOUGHT[seed % len(BOUGHT)]
    planted = evaluations(number, decision, AGE, seed, bought)
    cases = past_cases(planted)
    proof = prove(cases)
    if proof is None:
        return None
    predicted = walk_forward(cases)[0]
    own = ~np.isnan(predicted)
    truth = float(((planted.chances - planted.is_good)[own] ** 2).mean())
    hits = [bin.observed.low <= bin.expected <= bin.observed.high for bin in proof.bins]
    figures = {
        "evaluations": number,
        "gain": proof.gain.value,
        "gain of the truth": proof.brier_of_share - truth,
        "gains claimed": proof.gain.low > 0,
        "bins": len(hits),
        "calibrated": sum(hits),
        "learned from the future": _learned_from_the_future(cases, predicted),
        **_intervals(cases, decision, bought),
    }
    return World(figures, _tenths(predicted[own], cases.is_good[own]))


def _learned_from_the_future(cases: PastCases, predicted: Array) -> bool:
    """Whether the first chance depends on outcomes that were not known before its day."""
    first = int(np.flatnonzero(~np.isnan(predicted))[0])
    is_later = cases.known_on >= cases.predicted_on[first]
    other = replace(cases, is_good=np.where(is_later, ~cases.is_good, cases.is_good))
    return float(walk_forward(other)[0][first]) != float(predicted[first])


def _tenths(chances: Array, is_good: Array) -> Array:
    places = np.minimum((chances * TENTHS).astype(int), TENTHS - 1)
    columns = (np.ones(len(chances)), chances, is_good.astype(float))
    return np.array([np.bincount(places, column, TENTHS) for column in columns])


def _intervals(cases: PastCases, decision: str, bought: float) -> Figures:
    """How often the intervals of the last model have the chances of other evaluations in them."""
    model = learn(cases, np.arange(len(cases.is_good)))
    if model is None:
        return {}
    others = evaluations(400, decision, AGE, 10**6 + len(cases.is_good), bought)
    _, low, high = predict(model, others.features)
    is_inside = (low <= others.chances) & (others.chances <= high)
    return {"interval has the chance": float(is_inside.mean()), "width": float((high - low).mean())}


def _results(name: str, worlds: list[Figures]) -> Iterator[Result]:
    """What a world must be, of the means over all."""
    mean = {figure: float(np.mean([world[figure] for world in worlds])) for figure in worlds[0]}
    yield Result(f"{name}: learned from the future", mean["learned from the future"], must_be=0.0)
    if NOTHING in name:
        yield Result(f"{name}: gains claimed", round(mean["gains claimed"], 3), at_most=MOST_CLAIMS)
    else:
        share = mean["gain"] / mean["gain of the truth"]
        yield Result(f"{name}: of the truth's gain", round(share, 3), at_least=LEAST_OF_TRUTH)
    if mean["bins"]:
        calibrated = round(mean["calibrated"] / mean["bins"], 3)
        yield Result(f"{name}: bins calibrated", calibrated, at_least=LEAST_CALIBRATED)


def _plot(path: Path, tenths: dict[str, Array]) -> None:
    panels = [
        plots.Panel(
            f"{decision} decides",
            [
                (total / number, observed)
                for number, total, good in own.T
                if number >= LEAST_OF_A_POINT and (observed := wilson(good, number))
            ],
        )
        for decision, own in tenths.items()
    ]
    plots.write_calibration(path, "Chances that were told, and what became of them", panels)


# --- The command ----------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> Report:
    all_figures: dict[str, list[Figures]] = defaultdict(list)
    tenths = {decision: np.zeros((3, TENTHS)) for decision in DECISIONS}
    seeds = range(options.seed, options.seed + options.worlds)
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        of_seeds = pool.imap_unordered(partial(evaluations_of, options.only), seeds)
        for number, worlds in enumerate(of_seeds, 1):
            progress(f"{number} of {options.worlds} seeds")
            for decision, name, world in worlds:
                all_figures[name].append(world.figures)
                tenths[decision] += world.tenths
    if options.plot:
        _plot(options.plot, tenths)
    rows = []
    for name, own in sorted(all_figures.items()):
        if own[0]["evaluations"] >= LEAST_FOR_BARS:
            yield from _results(name, own)
        for figure in own[0]:
            mean = float(np.mean([world[figure] for world in own]))
            rows.append({"": f"{name}: {figure}", "mean": round(mean, 4), "worlds": len(own)})
    yield Table("All figures", rows)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--worlds", type=int, default=40, help="worlds of each kind")
    parser.add_argument("--only", default="", metavar="TEXT", help="worlds with this in their name")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--processes", type=int, default=2, help="worlds at a time")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the calibration to FILE")


if __name__ == "__main__":
    run_command("proofs.foresight", __doc__, arguments, measure, missed_is_wrong=True)
