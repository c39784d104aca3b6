"""Scores: from daily counts to raw scores, benchmarks and the score from 0 to 100."""

import math


def score(raw: int, benchmark: float | None) -> float:
    """The engagement score, 0 to 100, of a raw score under a workspace's benchmark.

    100 · (1 - 10^(-raw / benchmark)), at least 1 for any raw score above zero, and 0 for none. The
    benchmark itself scores 90, which leaves room above it. The rule is monotone in *raw*, so
    ranking by raw score is ranking by score.
    """
    if raw <= 0 or not benchmark:
        return 0.0
    return max(1.0, 100.0 * (1.0 - math.pow(10.0, -raw / benchmark)))
