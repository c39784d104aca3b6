"""What a backtest says. It is stored as JSON, and pages, files, and the read API read it."""

from datetime import date
from enum import StrEnum

import msgspec

from outcomes.kinds import Exclusion, Kind
from outcomes.statistics.estimates import Estimate


class Verdict(StrEnum):
    """What the outcomes allow to say of a score."""

    TOO_FEW = "too_few"
    NO_BETTER_THAN_CHANCE = "no_better_than_chance"
    NO_BETTER_THAN_RECENCY = "no_better_than_recency"
    BETTER_THAN_BOTH = "better_than_both"


class Band(msgspec.Struct, frozen=True):
    """The outcomes of accounts whose score was at least *low* and below *high* (the last band
    includes 100). ``bad`` is how many were not good, ``rate`` their share (0 to 1, Wilson)."""

    low: int
    high: int
    outcomes: int
    bad: int
    rate: Estimate | None

    @property
    def label(self) -> str:
        """Its scores, like "25 to 50"."""
        if self.low == 0:
            return f"under {self.high}"
        return f"{self.low} or more" if self.high == 100 else f"{self.low} to {self.high}"


class ReliabilityPoint(msgspec.Struct, frozen=True):
    """Of outcomes with similar scores: the share that was expected to be bad from all outcomes of
    the days before, and the share that was."""

    expected: float
    observed: Estimate


class Horizon(msgspec.Struct, frozen=True):
    """How the scores of some days before predicted.

    ``outcomes`` and ``bad`` are those that a prediction of that day counts for;
    ``already_answered`` those that the customer had answered by then; ``without_data`` those of
    accounts that had no data then. AUC is the chance that a good outcome had a higher score than a
    bad one; the baselines are the AUC of two predictors that need no score. ``lift`` is how much
    more often accounts of the lowest tenth of scores ended badly than all did. ``late_events`` is
    the share (0 to 1) of the counted events that arrived after the day of the prediction; None if
    unknown.
    """

    days: int
    outcomes: int
    bad: int
    already_answered: int
    without_data: int
    verdict: Verdict
    needed: int
    bands: list[Band]
    reliability: list[ReliabilityPoint]
    auc: Estimate | None = None
    auc_of_recency: Estimate | None = None
    auc_of_age: Estimate | None = None
    better_than_recency: Estimate | None = None
    lift: Estimate | None = None
    brier: float | None = None
    late_events: float | None = None


class Backtest(msgspec.Struct, frozen=True):
    """The backtest of a definition of scores against the outcomes of one kind.

    ``first_day`` and ``last_day`` are the days of its outcomes, None without any. ``sampled_of`` is
    the number of outcomes of which an even sample was taken, None if all were. ``revision`` is that
    of the license ledger. ``segment`` is the id of the segment whose accounts alone count.
    """

    kind: Kind
    horizons: list[Horizon]
    excluded: dict[Exclusion, int]
    first_day: date | None
    last_day: date | None
    revision: int | None
    sampled_of: int | None
    segment: int | None = None
