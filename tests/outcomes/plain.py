"""Backtests in plain Python, from what a world tells. ``outcomes.backtests`` must agree."""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from engagement.rescoring.what_if import ScoringDefinition
from engagement.scores.formula import rounded_score
from outcomes.kinds import Kind
from tests.outcomes import worlds
from tests.outcomes.worlds import DAY, Fate, World

# What a rate needs, and how strongly all outcomes count in that of a band.
LEAST_KNOWN, PRIOR = 20, 10


class Prediction(NamedTuple):
    """What was known of an account, and what became of it."""

    account: str
    is_good: bool
    score: float
    strength: float
    recency: float
    age: int
    predicted_on: date
    known_on: date


class Split(NamedTuple):
    """The predictions that count, and the numbers of outcomes without one."""

    predictions: list[Prediction]
    already_answered: int
    without_data: int


def split(world: World, own: ScoringDefinition, kind: Kind, days: int, today: date) -> Split:
    predictions, already_answered, without_data = [], 0, 0
    benchmarks: dict[date, float | None] = {}
    for fate in counted_fates(world, kind, today):
        day = (fate.began_on if kind is Kind.MONTHLY_STAY else fate.day) - days * DAY
        if min(fate.known_on, fate.answered_on or fate.known_on) <= day:
            already_answered += 1
        elif not has_data(world, fate.account, day) or (
            kind is Kind.EVALUATION and day < fate.began_on
        ):
            without_data += 1
        else:
            if day not in benchmarks:
                benchmarks[day] = worlds.benchmark_of(world, own, day)
            predictions.append(_prediction(world, own, fate, day, benchmarks[day]))
    return Split(predictions, already_answered, without_data)


def counted_fates(world: World, kind: Kind, today: date) -> list[Fate]:
    return [
        fate
        for fate in world.fates
        if fate.kind == kind
        and max(fate.day, fate.known_on) <= today
        and has_data(world, fate.account, fate.day - DAY)
    ]


def has_data(world: World, account: str, day: date) -> bool:
    return any(count.account == account and count.day <= day for count in world.counts)


def _prediction(
    world: World, own: ScoringDefinition, fate: Fate, day: date, benchmark: float | None
) -> Prediction:
    raw = worlds.raw(world, own, fate.account, day)
    idle = worlds.idle_days(world, own, fate.account, day)
    return Prediction(
        fate.account,
        fate.is_good,
        rounded_score(raw, benchmark),
        # Twelve digits: what is equal but for the order of a sum is equal.
        float(f"{raw / benchmark:.12g}") if benchmark else 0.0,
        -1_000_000 if idle is None else -idle,
        max(0, (day - world.created[fate.account]).days),
        day,
        fate.known_on,
    )


def auc(values: Sequence[tuple[float, bool]]) -> float | None:
    """The share of pairs of a good and a bad outcome of which the good one is higher."""
    good = [value for value, is_good in values if is_good]
    bad = [value for value, is_good in values if not is_good]
    if not good or not bad:
        return None
    wins = sum((own > other) + (own == other) / 2 for own in good for other in bad)
    return wins / len(good) / len(bad)


def expected(predictions: Sequence[Prediction], own: Prediction) -> float | None:
    """The share of bad outcomes that the score made expect when it was computed."""
    earlier = [other for other in predictions if other.known_on < own.predicted_on]
    if len(earlier) < LEAST_KNOWN:
        return None
    band = [other for other in earlier if other.score // 25 == own.score // 25]
    of_all = sum(not other.is_good for other in earlier) / len(earlier)
    return (sum(not other.is_good for other in band) + PRIOR * of_all) / (len(band) + PRIOR)


def brier(predictions: Sequence[Prediction]) -> float | None:
    errors = [
        (rate - (not own.is_good)) ** 2
        for own in predictions
        if (rate := expected(predictions, own)) is not None
    ]
    return sum(errors) / len(errors) if errors else None


def lift(predictions: Sequence[Prediction]) -> float | None:
    """How many times as often the lowest tenth was bad as all were; those that are equal at the
    border count in part."""
    lowest = len(predictions) // 10
    bad = sum(not own.is_good for own in predictions) / max(1, len(predictions))
    if not lowest or not bad or len({own.strength for own in predictions}) == 1:
        return None
    border = sorted(own.strength for own in predictions)[lowest - 1]
    below = [own for own in predictions if own.strength < border]
    at = [own for own in predictions if own.strength == border]
    part = (lowest - len(below)) / len(at)
    number = sum(not own.is_good for own in below) + part * sum(not own.is_good for own in at)
    return number / lowest / bad
