"""Counts the cohorts of a workspace, one week of activity at a time.

Each statement finds who did something in the week, and then when they were first seen. So its cost
is that of the week's daily counts, however old the product is.
"""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any, LiteralString

from core.database import sql
from engagement.models import ScoreSet
from engagement.scopes import SubjectKind, get_kind
from engagement.scores.history import WHERE_SCORED
from engagement.scores.raw import join_counted_users
from trends.cohorts.results import WEEK, WEEKS, Cohorts, Group, monday
from trends.models import ANY_EVENT, StoredCohorts

# The most frequent values of a trait have groups; all others share one.
MAX_VALUES, VALUE_LENGTH = 6, 100
ALL, OTHERS, WITHOUT = "All", "Other values", "Without a value"

# Subjects of the workspace that were first seen in one of the weeks. A place is that of the value
# among the frequent ones, from 1 on; 0 is another value, and NULL none.
_FROM: LiteralString = """
    {table} s
    JOIN {engagement_table} e ON e.product_id = %(product)s AND e.score_set_id = %(score_set)s
        AND e.{id_column} = s.id
    CROSS JOIN LATERAL (
        SELECT CASE WHEN jsonb_typeof(s.traits->%(trait)s) IN ('string', 'number', 'boolean')
                    THEN left(s.traits->>%(trait)s, %(length)s) END AS value) v
    WHERE s.product_id = %(product)s
      AND s.first_seen_at >= %(first)s::date::timestamp AT TIME ZONE 'UTC'
      AND s.first_seen_at < (%(through)s::date + 1)::timestamp AT TIME ZONE 'UTC'
"""
_COUNTS: LiteralString = """
    SELECT ((s.first_seen_at AT TIME ZONE 'UTC')::date - %(first)s::date) / 7,
           CASE WHEN v.value IS NOT NULL
                THEN COALESCE(array_position(%(values)b::text[], v.value), 0) END,
           count(*)
"""
_VALUES: LiteralString = f"""
    SELECT v.value, count(*) FROM {_FROM} AND v.value IS NOT NULL
    GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT %(most)s
"""
_SIZES: LiteralString = f"{_COUNTS} FROM {_FROM} GROUP BY 1, 2"
_ACTIVE: LiteralString = f"""
    WITH active AS MATERIALIZED (
        SELECT DISTINCT d.{{id_column}} AS id FROM engagement_dailycount d {{join_users}}
        {{where}} AND d.day BETWEEN %(week)s AND %(week_end)s)
    {_COUNTS} FROM active, {_FROM} AND s.id = active.id GROUP BY 1, 2
"""
_WHERE_EVENT: LiteralString = """
    WHERE d.product_id = %(product)s AND d.event_name_id = %(event)s
"""


class Counting:
    """The statements of one question about a score set, as known at the end of *through*."""

    def __init__(self, question: StoredCohorts, score_set: ScoreSet, through: date) -> None:
        self._kind: SubjectKind = get_kind("user" if question.scope == "user" else "account")
        self._has_trait = bool(question.trait)
        self.first, self.through = monday(through) - (WEEKS - 1) * WEEK, through
        self._parts: dict[str, LiteralString] = {
            "table": self._kind.table,
            "engagement_table": self._kind.engagement_table,
            "id_column": self._kind.id_column,
            "join_users": join_counted_users(score_set, self._kind),
            "where": WHERE_SCORED if question.event_name_id == ANY_EVENT else _WHERE_EVENT,
        }
        self._parameters: dict[str, Any] = {
            "product": score_set.product_id,
            "score_set": score_set.pk,
            "default_weight": score_set.default_weight,
            "event": question.event_name_id,
            # No trait has this name.
            "trait": question.trait or "\n",
            "length": VALUE_LENGTH,
            "first": self.first,
            "through": through,
            "most": MAX_VALUES,
        }

    def begin(self) -> Cohorts:
        """The cohorts with their sizes, and nobody active yet."""
        values = [value for value, _ in self._fetch(_VALUES)] if self._has_trait else []
        groups = [Group(ALL, None, [0] * WEEKS, _triangle())]
        if self._has_trait:
            groups += [Group(value, value, [0] * WEEKS, _triangle()) for value in values]
            groups += [Group(each, None, [0] * WEEKS, _triangle()) for each in (OTHERS, WITHOUT)]
        cohorts = Cohorts(self.first, self.through, groups)
        for cohort, own, number in self._counts(_SIZES, cohorts):
            for group in own:
                group.sizes[cohort] += number
        return cohorts

    def add_week(self, cohorts: Cohorts, week: int) -> None:
        """Count who was active in the week with this number."""
        span = {"week": cohorts.week(week), "week_end": cohorts.week(week) + timedelta(days=6)}
        span["week_end"] = min(span["week_end"], self.through)
        for cohort, own, number in self._counts(_ACTIVE, cohorts, **span):
            # Events may be older than what says when their user was first seen.
            if cohort <= week:
                for group in own:
                    group.active[cohort][week - cohort] += number

    def _counts(
        self, statement: LiteralString, cohorts: Cohorts, **more: Any
    ) -> Iterable[tuple[int, list[Group], int]]:
        """Cohort, groups, and number."""
        everybody, *of_values = cohorts.groups
        values = [group.value for group in of_values if group.value is not None]
        by_place: Mapping[int | None, Group] = dict(
            zip([*range(1, len(values) + 1), 0, None], of_values, strict=False)
        )
        for cohort, place, number in self._fetch(statement, values=values, **more):
            yield cohort, [everybody, *([by_place[place]] if of_values else [])], number

    def _fetch(self, statement: LiteralString, **more: Any) -> list[sql.Row]:
        parameters = {**self._parameters, "values": [], **more}
        return sql.fetch(statement.format(**self._parts), parameters)


def _triangle() -> list[list[int]]:
    return [[0] * (WEEKS - cohort) for cohort in range(WEEKS)]
