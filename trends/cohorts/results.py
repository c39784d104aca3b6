"""What a look at cohorts finds: counts, from which every percentage follows."""

from collections.abc import Iterator
from datetime import date, timedelta

import msgspec

from outcomes.statistics.estimates import Estimate
from outcomes.statistics.rates import wilson

WEEK = timedelta(days=7)
# How many weeks have a cohort, the present one included.
WEEKS = 16


class Group(msgspec.Struct, frozen=True):
    """All, or those with one value of the trait; *value* is None for all, for those with other
    values, and for those without. ``active[n][k]`` of the ``sizes[n]`` that were first seen in
    week n were active in week n + k."""

    label: str
    value: str | None
    sizes: list[int]
    active: list[list[int]]


class Cohorts(msgspec.Struct, frozen=True):
    """The cohorts of ``WEEKS`` weeks from the Monday *first* on, in UTC, as known through the end
    of the day *through*. The first group is of all."""

    first: date
    through: date
    groups: list[Group]

    def week(self, number: int) -> date:
        return self.first + number * WEEK

    def is_complete(self, number: int) -> bool:
        """Whether the week with the number is over."""
        return self.week(number + 1) <= self.through + timedelta(days=1)

    def share(self, group: Group, cohort: int, weeks_later: int) -> Estimate | None:
        """The share that was active, with its 95% interval; None for an empty cohort."""
        return wilson(group.active[cohort][weeks_later], group.sizes[cohort])

    def curve(self, group: Group) -> Iterator[Estimate | None]:
        """The share that was active that many weeks later, of all cohorts together whose week then
        is over."""
        for later in range(WEEKS):
            cohorts = [n for n in range(WEEKS - later) if self.is_complete(n + later)]
            active = sum(group.active[n][later] for n in cohorts)
            yield wilson(active, sum(group.sizes[n] for n in cohorts))


def monday(day: date) -> date:
    """The Monday of the day's week."""
    return day - timedelta(days=day.weekday())
