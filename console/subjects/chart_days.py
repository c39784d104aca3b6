"""How many days the chart of a subject has, as its address says."""

from dataclasses import dataclass, replace
from datetime import date, timedelta

from django.http import QueryDict

from core.charts import Range
from engagement.metric_names import Scope
from engagement.scores.benchmarks import HISTORY_DAYS

DAYS_PARAM = "days"
# Scores are known for HISTORY_DAYS, active users of an account for longer.
CHOICES: dict[Scope, tuple[int, ...]] = {"user": (30, 90), "account": (30, 90, 365)}


@dataclass(frozen=True)
class ChartDays:
    """A number of days, and the query of the page for the links to the others."""

    count: int = HISTORY_DAYS
    query: QueryDict | None = None
    choices: tuple[int, ...] = ()

    @classmethod
    def of(cls, query: QueryDict, scope: Scope) -> "ChartDays":
        """The days in the address; those that the service keeps scores of without any."""
        days = cls(query=query, choices=CHOICES[scope])
        named = {str(count): count for count in days.choices}
        return replace(days, count=named.get(query.get(DAYS_PARAM, ""), days.count))

    def until(self, last: date) -> list[date]:
        return [last - timedelta(days=ago) for ago in reversed(range(self.count))]

    def ranges(self) -> list[Range]:
        """The links to the page with each of the choices."""
        query = QueryDict(mutable=True) if self.query is None else self.query.copy()
        ranges = []
        for count in self.choices:
            query[DAYS_PARAM] = str(count)
            ranges.append(Range(f"{count} days", f"?{query.urlencode()}", count == self.count))
        return ranges


DEFAULT_DAYS = ChartDays()
