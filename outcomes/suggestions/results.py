"""What a suggestion says. It is stored as JSON, and pages read it: nothing here needs numpy."""

from datetime import date

import msgspec

from outcomes.kinds import Kind
from outcomes.statistics.estimates import Estimate


class Weights(msgspec.Struct, frozen=True):
    """What a workspace scores, without its audience. With a half-life, the lookback is 30 days."""

    lookback_days: int
    half_life_days: int | None
    default_weight: int
    weights: dict[str, int]


class Part(msgspec.Struct, frozen=True):
    """Outcomes that were predicted together, and both AUC of them, None as in ``auc()``."""

    first_day: date
    last_day: date
    outcomes: int
    auc: Estimate | None
    present_auc: Estimate | None


class Judgement(msgspec.Struct, frozen=True):
    """How suggestions from what was known before predicted all parts, how the present weights did,
    and the difference. None where there are too few."""

    auc: Estimate | None
    present_auc: Estimate | None
    gain: Estimate | None
    parts: list[Part]

    @property
    def has_gain(self) -> bool:
        return self.gain is not None and self.gain.low > 0

    @property
    def has_loss(self) -> bool:
        return self.gain is not None and self.gain.high < 0


class Suggestion(msgspec.Struct, frozen=True):
    """Weights that the outcomes of one kind suggest, from what was known *horizon_days* before.

    ``outcomes`` and ``bad`` are those that it learned from. With fewer than *needed*, or too few of
    a class, nothing is suggested. ``revision`` and ``sampled_of`` are as in an ``OutcomeSet``.
    """

    kind: Kind
    horizon_days: int
    outcomes: int
    bad: int
    needed: int
    present: Weights
    revision: int | None
    sampled_of: int | None
    suggested: Weights | None = None
    judgement: Judgement | None = None
