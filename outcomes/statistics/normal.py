"""Quantiles of the normal distribution and of Student's t."""

import math

# 97.5% of a normal distribution are below it: the factor of 95% intervals.
Z = 1.959963984540054


def t_quantile(freedom: float) -> float:
    """The factor of 95% intervals for that many degrees of freedom, from 1 on, to 0.1%.

    From 3 on by the expansion of Abramowitz and Stegun, 26.7.5.
    """
    if freedom < 2:
        return 12.7062
    if freedom < 3:
        return 4.3027
    z, n = Z, freedom
    terms = (
        z,
        (z**3 + z) / 4 / n,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96 / n**2,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384 / n**3,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160 / n**4,
    )
    return math.fsum(terms)
