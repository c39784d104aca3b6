"""How many false alarms people allow, and what a chance means to them. It needs no numpy, so that
processes that serve pages may import it.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

# False alarms per account, quarter, and direction that each level allows. Every level has alarms
# of its own. Level 0 has a fixed threshold: its alarms measure how often chance alone makes one.
ALLOWED_RATES = {1: 0.025, 2: 0.05, 3: 0.1, 4: 0.2}
REFERENCE_P = 0.0025
QUARTER_DAYS = 91
# Kappa is the alarms by chance per account-quarter and unit of p. It falls with p. So each level's
# is measured by alarms near its own threshold: those of this level, from level 0 on.
MEASURED_BY = (0, 0, 0, 3, 4)
# They count if they began in the 26 weeks until two months ago, and recovered within 12 weeks.
MEASURED_DAYS, SETTLING_DAYS, NOTHING_DAYS = 182, 61, 84
LEAST_KAPPA, GREATEST_KAPPA = 5.0, 50.0
# Readers see that an account settled for this long after its alarm began.
SETTLED_FOR = timedelta(weeks=26)
# The tail is heavier than the model's: it cannot tell rarer events apart.
GREATEST_YEARS = 10.0


def measured_span(day: date) -> tuple[date, date]:
    """The first and the last day of the onsets that measure kappa in the night after *day*."""
    last = day - timedelta(days=SETTLING_DAYS)
    return last - timedelta(days=MEASURED_DAYS - 1), last


def measured_kappas(
    came_to_nothing: Mapping[int, int], nights: Sequence[tuple[int, Sequence[float]]]
) -> list[float]:
    """Kappa for each level from 0 on; 20 without history.

    *came_to_nothing* are the numbers of alarms by level that began in the ``measured_span`` and
    recovered within ``NOTHING_DAYS``; *nights* are the decidable accounts and the thresholds of
    each of its nights.
    """
    kappas = {}
    for level in set(MEASURED_BY):
        exposure = sum(accounts * p_on[level] for accounts, p_on in nights) / QUARTER_DAYS
        kappa = (came_to_nothing.get(level, 0) + 5) / (exposure + 0.25)
        kappas[level] = min(max(kappa, LEAST_KAPPA), GREATEST_KAPPA)
    return [kappas[level] for level in MEASURED_BY]


def thresholds(kappas: Sequence[float]) -> list[float]:
    """The p below which an alarm begins, for each level from 0 on."""
    rates = zip(ALLOWED_RATES.values(), kappas[1:], strict=True)
    return [REFERENCE_P, *(rate / kappa for rate, kappa in rates)]


def usual_range(expected: float, dispersion: float) -> tuple[int, int]:
    """The least and the most active user-days that are usual: four of five windows or more are."""
    middle, width = math.sqrt(expected), 0.64 * math.sqrt(dispersion)
    return math.floor(max(0.0, middle - width) ** 2), math.ceil((middle + width) ** 2)


def once_in_days(p: float, kappa: float) -> float:
    """How far apart chance alone makes such an alarm of an account; at most ten years."""
    years = 1 / (4 * kappa * p) if p > 0 else GREATEST_YEARS
    return 365.25 * min(years, GREATEST_YEARS)
