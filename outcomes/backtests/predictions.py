"""What a score predicted: for each outcome, what was known of its account some days before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from outcomes.kinds import Kind, Outcome
from outcomes.past_scores.scores import Pair, PastScore


@dataclass(frozen=True)
class Predictions:
    """The outcomes that a prediction of *days* before counts for, with what was known then, and for
    how many outcomes none does."""

    days: int
    counted: Sequence[tuple[Outcome, date, PastScore]]
    already_answered: int
    without_data: int

    @property
    def pairs(self) -> list[Pair]:
        return [(outcome.account_id, day) for outcome, day, _ in self.counted]


def day_of_prediction(kind: Kind, outcome: Outcome, days: int) -> date:
    """The day of the score that predicts the outcome *days* before.

    It is as long before the outcome's day. Of a monthly license, it is before the quarter: in it,
    licenses that stay are decided on the last day, and the others earlier.
    """
    before = outcome.began_on if kind is Kind.MONTHLY_STAY else outcome.day
    return before - timedelta(days=days)


def predictions(
    kind: Kind, outcomes: Sequence[Outcome], days: int, scores: Mapping[Pair, PastScore]
) -> Predictions:
    """The predictions of the scores *days* before.

    An outcome without a score then has no data. Nor has an evaluation that had not begun.
    """
    counted, already_answered, without_data = [], 0, 0
    for outcome in outcomes:
        day = day_of_prediction(kind, outcome, days)
        score = scores.get((outcome.account_id, day))
        if outcome.is_answered(day):
            already_answered += 1
        elif score is None or (kind is Kind.EVALUATION and day < outcome.began_on):
            without_data += 1
        else:
            counted.append((outcome, day, score))
    return Predictions(days, counted, already_answered, without_data)
