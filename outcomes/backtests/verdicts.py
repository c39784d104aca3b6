"""What the outcomes allow to say of a score, in one of four verdicts."""

from outcomes.backtests.results import Verdict
from outcomes.statistics.estimates import Estimate

# With fewer, the interval of an AUC is wider than 0.4 and excludes hardly anything.
LEAST_OUTCOMES = 30
# Fewer bad or good outcomes leave an interval as wide, however many there are of the other.
LEAST_OF_EACH = 5


def verdict(
    auc: Estimate | None, better_than_recency: Estimate | None, outcomes: int, bad: int
) -> Verdict:
    """What may be said, from the AUC and from its paired difference to that of recency.

    None stands for what has no estimate, such as the AUC of equal scores.
    """
    if outcomes < LEAST_OUTCOMES or min(bad, outcomes - bad) < LEAST_OF_EACH:
        return Verdict.TOO_FEW
    if auc is None or auc.low <= 0.5:
        return Verdict.NO_BETTER_THAN_CHANCE
    if better_than_recency is None or better_than_recency.low <= 0:
        return Verdict.NO_BETTER_THAN_RECENCY
    return Verdict.BETTER_THAN_BOTH
