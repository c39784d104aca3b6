"""How many false alarms people allow, and what a chance means to them. It needs no numpy, so that
processes that serve pages may import it.
"""

import math
from datetime import date, timedelta

# False alarms per account, quarter, and direction that each level allows. Every level has alarms
# of its own. Level 0 has a fixed threshold: its alarms measure how often chance alone makes one.
ALLOWED_RATES = {1: 0.025, 2: 0.05, 3: 0.1, 4: 0.2}
REFERENCE_LEVEL, REFERENCE_P = 0, 0.0025
QUARTER_DAYS = 91
# Kappa is measured by the reference alarms that began in the 26 weeks until two months ago, and
# that ended as recovered within 12 weeks.
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


def measured_kappa(came_to_nothing: int, account_days: float) -> float:
    """Onsets by chance per account-quarter and unit of p.

    *came_to_nothing* is the number of reference alarms that began in the ``measured_span`` and
    ended as recovered within ``NOTHING_DAYS``; *account_days* is the sum of the decidable accounts
    over its nights. Without history it is 20.
    """
    account_quarters = account_days / QUARTER_DAYS
    kappa = (came_to_nothing + 5) / (account_quarters * REFERENCE_P + 0.25)
    return min(max(kappa, LEAST_KAPPA), GREATEST_KAPPA)


def thresholds(kappa: float) -> list[float]:
    """The p below which an alarm begins, for each level from 0 on."""
    return [REFERENCE_P, *(rate / kappa for rate in ALLOWED_RATES.values())]


def usual_range(expected: float, dispersion: float) -> tuple[int, int]:
    """The least and the most active user-days that are usual: four of five windows or more are."""
    middle, width = math.sqrt(expected), 0.64 * math.sqrt(dispersion)
    return math.floor(max(0.0, middle - width) ** 2), math.ceil((middle + width) ** 2)


def once_in_days(p: float, kappa: float) -> float:
    """How far apart chance alone makes such an alarm of an account; at most ten years."""
    years = 1 / (4 * kappa * p) if p > 0 else GREATEST_YEARS
    return 365.25 * min(years, GREATEST_YEARS)
