"""When people of a country work less. Days are roughly right: moving feasts stand still."""

from functools import cache
from typing import TypeAlias

# First and last month and day, and the activity that is left.
Holiday: TypeAlias = tuple[tuple[int, int], tuple[int, int], float]

_CHRISTMAS: tuple[Holiday, ...] = (((12, 22), (12, 31), 0.3), ((1, 1), (1, 3), 0.3))
_EASTER: Holiday = ((4, 3), (4, 6), 0.4)
_AUGUST: Holiday = ((8, 1), (8, 25), 0.75)
_EUROPE: tuple[Holiday, ...] = (*_CHRISTMAS, _EASTER, _AUGUST)
HOLIDAYS: dict[str, tuple[Holiday, ...]] = {
    "United States": (*_CHRISTMAS, ((11, 24), (11, 29), 0.5), ((7, 2), (7, 5), 0.5)),
    "Canada": (*_CHRISTMAS, ((10, 10), (10, 13), 0.6)),
    "Brazil": (*_CHRISTMAS, ((2, 13), (2, 18), 0.3)),
    "Japan": (
        ((12, 29), (12, 31), 0.2),
        ((1, 1), (1, 4), 0.2),
        ((4, 29), (5, 5), 0.2),
        ((8, 11), (8, 16), 0.4),
    ),
    "India": (((11, 6), (11, 11), 0.4),),
    "Australia": (*_CHRISTMAS, ((1, 4), (1, 20), 0.7)),
}


@cache
def holiday_activity(country: str, month: int, day: int) -> float:
    """The share of their usual activity that is left to people of the country on the day."""
    holidays = HOLIDAYS.get(country, _EUROPE)
    shares = [share for first, last, share in holidays if first <= (month, day) <= last]
    return min(shares, default=1)
