"""How many users or accounts did each step: the figures of a workspace's activation."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Any, LiteralString, TypeAlias

import msgspec

from core.database import sql
from engagement.metric_names import Scope
from engagement.models import Activation, ScoreSet
from engagement.rules.steps import Step, parse_steps
from engagement.scopes import get_kind
from engagement.scores.activation import ROWS, row_parameters, row_parts

WEEK = timedelta(days=7)
# In which somebody was first seen, the present one included.
WEEKS = 16


class StepFigures(msgspec.Struct, frozen=True):
    """How many did this step and all before it; how many are at this step, in time or too late;
    and the quartiles of the days until it was done, by all who did it."""

    reached: int
    waiting: int
    late: int
    quartiles: list[int]


class WeekFigures(msgspec.Struct, frozen=True):
    """How many were first seen in the week from this Monday on, and how many of them did the first
    step, the first two, and so on. It is over when none of them can do another step in time."""

    first: date
    size: int
    reached: list[int]
    is_over: bool


class Figures(msgspec.Struct, frozen=True):
    """As of the UTC day. ``quartiles`` are those of the days until all steps were done."""

    day: date
    total: int
    steps: list[StepFigures]
    weeks: list[WeekFigures]
    quartiles: list[int]

    @property
    def activated(self) -> int:
        return self.steps[-1].reached


def stored_figures(activation: Activation | None) -> Figures | None:
    """The figures as they were counted last."""
    stored = activation and activation.figures
    return msgspec.convert(stored, Figures) if stored else None


# Monday of the week or None before the weeks that count, done steps, whether it is too late for the
# next one, and how many there are.
Count: TypeAlias = tuple[date | None, int, bool, int]
# A step from 1 on, or the one after the last for all of them; days, and how many took them.
DayCount: TypeAlias = tuple[int, int, int]

_COUNTS: LiteralString = """
    SELECT CASE WHEN first_day >= %(first)s THEN date_trunc('week', first_day)::date END, reached,
           COALESCE(late_on <= %(day)s, FALSE), count(*)
    FROM engagement_stepsdone
    WHERE product_id = %(product)s AND activation_id = %(activation)s
    GROUP BY 1, 2, 3
"""
_DAY_COUNTS: LiteralString = """
    SELECT k.step, k.day, count(*)
    FROM engagement_stepsdone p
    CROSS JOIN LATERAL unnest(p.days || CASE WHEN p.late_on IS NULL
                                        THEN (SELECT max(d) FROM unnest(p.days) d) END)
        WITH ORDINALITY AS k(day, step)
    WHERE p.product_id = %(product)s AND p.activation_id = %(activation)s AND k.day IS NOT NULL
    GROUP BY 1, 2
"""


def count(activation: Activation, day: date) -> Figures:
    """The figures of all, as of the day. Reads all rows."""
    parameters = {
        "product": activation.product_id,
        "activation": activation.pk,
        "first": _first_week(day),
        "day": day,
    }
    steps = parse_steps(activation.steps)
    counts: Any = sql.fetch(_COUNTS, parameters)
    day_counts: Any = sql.fetch(_DAY_COUNTS, parameters)
    return _sum_up(steps, day, counts, day_counts)


def preview(
    score_set: ScoreSet, scope: Scope, steps: Sequence[Step], ids: Sequence[int], day: date
) -> Figures:
    """What the figures of these subjects would be with the steps. Writes nothing."""
    kind = get_kind(scope)
    statement = ROWS.format(**row_parts(score_set, kind, steps))
    rows = sql.fetch(statement, row_parameters(score_set, kind, steps, ids))
    counts: Counter[tuple[date | None, int, bool]] = Counter()
    day_counts: Counter[tuple[int, int]] = Counter()
    for _, first_day, days, reached, late_on in rows:
        week = first_day - timedelta(days=first_day.weekday())
        is_late = late_on is not None and late_on <= day
        counts[week if week >= _first_week(day) else None, reached, is_late] += 1
        day_counts.update((n, each) for n, each in enumerate(days, 1) if each is not None)
        if late_on is None:
            day_counts[len(steps) + 1, max(days)] += 1
    return _sum_up(
        steps,
        day,
        [(*key, number) for key, number in counts.items()],
        [(*key, number) for key, number in day_counts.items()],
    )


def _first_week(day: date) -> date:
    return day - timedelta(days=day.weekday()) - (WEEKS - 1) * WEEK


def _sum_up(
    steps: Sequence[Step], day: date, counts: Sequence[Count], day_counts: Iterable[DayCount]
) -> Figures:
    by_step: dict[int, list[tuple[int, int]]] = {}
    for step, days, number in day_counts:
        by_step.setdefault(step, []).append((days, number))
    longest = timedelta(days=max(step.within_days for step in steps))
    return Figures(
        day,
        sum(number for *_, number in counts),
        [
            StepFigures(
                sum(number for _, reached, _, number in counts if reached > place),
                sum(number for _, reached, late, number in counts if reached == place and not late),
                sum(number for _, reached, late, number in counts if reached == place and late),
                # A trait does not say since when.
                _quartiles(by_step.get(place + 1, [])) if _has_events([step]) else [],
            )
            for place, step in enumerate(steps)
        ],
        [
            _week(_first_week(day) + number * WEEK, len(steps), counts, day - longest)
            for number in range(WEEKS)
        ],
        _quartiles(by_step.get(len(steps) + 1, [])) if _has_events(steps) else [],
    )


def _has_events(steps: Sequence[Step]) -> bool:
    return any(step.kind == "event" for step in steps)


def _week(first: date, steps: int, counts: Sequence[Count], over_until: date) -> WeekFigures:
    own = [(reached, number) for week, reached, _, number in counts if week == first]
    steps_of = [sum(number for reached, number in own if reached > place) for place in range(steps)]
    is_over = first + WEEK - timedelta(days=1) <= over_until
    return WeekFigures(first, sum(number for _, number in own), steps_of, is_over)


def _quartiles(days: list[tuple[int, int]]) -> list[int]:
    """The first, the second, and the third quartile; empty without any."""
    total, passed, quartiles = sum(number for _, number in days), 0, list[int]()
    for day, number in sorted(days):
        passed += number
        while len(quartiles) < 3 and 4 * passed >= (len(quartiles) + 1) * total:
            quartiles.append(day)
    return quartiles
