"""What an estimate is: never a number without its interval and its count."""

from typing import NamedTuple


class Estimate(NamedTuple):
    """A number with its 95% interval, and the number of outcomes that it comes from."""

    value: float
    low: float
    high: float
    outcomes: int
