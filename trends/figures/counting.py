"""Counts the figures of days from the daily counts, as arrays.

PostgreSQL packs what some thousand subjects did by day into one value, so that no row becomes a
Python object. What stays in memory is a histogram of the scores of each day, and of the last day
about 15 bytes for each subject that was active.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, LiteralString

import numpy as np
import numpy.typing as npt

from core.database import sql
from engagement.metric_names import Scope
from engagement.models import DailyBenchmark, ScoreSet
from engagement.scopes import ACCOUNTS, SubjectKind, get_kind
from engagement.scores.active_days import DAY
from engagement.scores.raw import counting, join_counted_users, query_parameters
from trends.models import BAND_COUNT

WEEK, STOPPED_AFTER = 7, 28
SUBJECTS_PER_READ = 10_000
# As many subjects tell a benchmark that is not stored (``engagement.scores.past_benchmarks``).
USER_SAMPLE, ACCOUNT_SAMPLE = 10_000, 3_000
STATEMENT_TIMEOUT_SECONDS = 60.0
# Displayed scores are tenths from 0 to 1000.
TENTHS = 1_001

Array = npt.NDArray[Any]
Benchmarks = dict[date, float | None]

_IDS: LiteralString = f"""
    SELECT string_agg(int8send(id), '') FROM (
        SELECT {{id_column}} AS id FROM {{engagement_table}}
        WHERE product_id = %(product)s AND score_set_id = {sql.SCORE_SET}
          AND {{id_column}} > %(after)s
          AND (%(active_from)s::date IS NULL OR last_active_at >= %(active_from)s::date)
        ORDER BY {{order}} LIMIT %(limit)s) AS part
"""
_IN_ORDER: LiteralString = "{id_column}"
# The same subjects each time, all over the product.
_EVENLY: LiteralString = "hashint8({id_column}), {id_column}"
_ID = np.dtype(">i8")
# The first place of the grid has all that counts of the days before it.
_COUNTS: LiteralString = """
    engagement_dailycount d {join_users}
    LEFT JOIN engagement_scoredevent w
        ON w.score_set_id = %(score_set)s AND w.event_name_id = d.event_name_id
    WHERE d.product_id = %(product)s AND COALESCE(w.weight, %(default_weight)s) > 0
"""
_POINTS: LiteralString = f"""
    SELECT string_agg(int8send(id) || int2send(place) || float8send(points), '') FROM (
        SELECT d.{{id_column}} AS id,
            GREATEST(d.day - %(grid_from)s::date + 1, 0)::smallint AS place,
            sum({{points}} * COALESCE(w.weight, %(default_weight)s))::float8 AS points
        FROM {_COUNTS} AND d.{{id_column}} = ANY(%(ids)b::bigint[])
          AND d.day BETWEEN %(read_from)s AND %(last)s
        GROUP BY 1, 2) AS counted
"""
_POINT = np.dtype([("id", ">i8"), ("place", ">i2"), ("points", ">f8")])
_ACTIVE_BEFORE: LiteralString = f"""
    SELECT string_agg(int8send(k.id), '') FROM unnest(%(ids)b::bigint[]) AS k(id)
    WHERE EXISTS (SELECT FROM {_COUNTS} AND d.account_id = k.id AND d.day < %(grid_from)s)
"""
_USERS: LiteralString = f"""
    SELECT string_agg(int8send(account_id) || int4send(daily) || int4send(weekly), '') FROM (
        SELECT d.account_id, count(DISTINCT d.user_id)::integer AS weekly,
            (count(DISTINCT d.user_id) FILTER (WHERE d.day = %(last)s))::integer AS daily
        FROM {_COUNTS} AND d.account_id = ANY(%(ids)b::bigint[])
          AND d.day BETWEEN %(last)s::date - {WEEK - 1} AND %(last)s
        GROUP BY d.account_id) AS counted
"""
_USER_COUNT = np.dtype([("id", ">i8"), ("daily", ">i4"), ("weekly", ">i4")])
_KNOWN: LiteralString = f"""
    SELECT (s.first_seen_at AT TIME ZONE 'UTC')::date, count(*)
    FROM {{engagement_table}} e
    JOIN {{table}} s ON s.product_id = %(product)s AND s.id = e.{{id_column}}
    WHERE e.product_id = %(product)s AND e.score_set_id = {sql.SCORE_SET}
    GROUP BY 1
"""

FLAGS = ("daily", "weekly", "new", "returned", "stopped")
FACT = np.dtype([
    ("id", np.int64), ("tenths", np.int16), *((name, np.bool_) for name in FLAGS),
    ("daily_users", np.int32), ("weekly_users", np.int32),
])  # fmt: skip


@dataclass(frozen=True)
class Counted:
    """The figures of one kind of subject on the days of a span.

    ``flags`` has the number of subjects of each of FLAGS by day, ``known`` that of all of them, and
    ``tenths`` the histogram of their displayed scores. ``facts`` are those of the subjects with a
    score or a flag on the last day, sorted by id; users of accounts only if they were asked for.
    """

    flags: dict[str, Array]
    known: Array
    tenths: Array
    facts: Array

    def figures(self, scope: Scope, place: int) -> dict[str, Any]:
        """The figures of the day at that place, by the names of ``DayFigures``."""
        flags = {name: int(values[place]) for name, values in self.flags.items()}
        return figures_of(scope, int(self.known[place]), flags, self.tenths[place])


def count(
    score_set: ScoreSet, kind: SubjectKind, first: date, last: date, *, facts: bool
) -> Counted:
    """Count the days from *first* to *last*. Raises sql.StatementTimeout."""
    return _Span(score_set, kind, first, last).count(with_facts=facts)


class _Span:
    """A kind of subject of a set on some days, and on the days before that these depend on."""

    def __init__(self, score_set: ScoreSet, kind: SubjectKind, first: date, last: date) -> None:
        self._score_set, self._kind = score_set, kind
        self._days = [first + n * DAY for n in range((last - first).days + 1)]
        grid_from = first - max(score_set.lookback_days - 1, STOPPED_AFTER) * DAY
        # The places of the days in the grid.
        self._at = np.arange(len(self._days)) + (first - grid_from).days + 1
        self._width = int(self._at[-1]) + 1
        own = query_parameters(score_set, last)
        is_windowed = score_set.half_life_days is None
        # The activity of a day counts for its figures, however few points a half-life leaves of it.
        read_from = grid_from if is_windowed else min(own["counted_from"], grid_from)
        self._parameters = {**own, "grid_from": grid_from, "last": last, "read_from": read_from}
        # Nobody else has a score, or stopped.
        self._parameters["active_from"] = grid_from if is_windowed else None
        self._is_windowed = is_windowed

    def count(self, *, with_facts: bool) -> Counted:
        benchmarks = self._benchmarks()
        counted = Counted(
            {name: np.zeros(len(self._days), np.int64) for name in FLAGS},
            self._count_known(),
            np.zeros((len(self._days), TENTHS), np.int64),
            np.empty(0, FACT),
        )
        facts = [counted.facts]
        for ids in self._parts():
            part = _Part(ids, *self._read_points(ids), self._at, self._score_set)
            flags = part.flags(self._active_before if self._kind is ACCOUNTS else None)
            tenths = _tenths(part.raw, benchmarks)
            for name, values in flags.items():
                counted.flags[name] += values.sum(axis=0)
            by_day = (np.arange(len(self._days)) * TENTHS + tenths).ravel()
            sums = np.bincount(by_day, minlength=counted.tenths.size)
            counted.tenths[...] += sums.reshape(counted.tenths.shape)
            if with_facts:
                facts.append(self._facts(ids, tenths[:, -1], flags))
        # The others have no points.
        counted.tenths[:, 0] = np.maximum(0, counted.known - counted.tenths[:, 1:].sum(axis=1))
        return Counted(counted.flags, counted.known, counted.tenths, np.concatenate(facts))

    def _facts(self, ids: Array, tenths: Array, flags: dict[str, Array]) -> Array:
        facts = np.zeros(len(ids), FACT)
        facts["id"], facts["tenths"] = ids, tenths
        for name, values in flags.items():
            facts[name] = values[:, -1]
        if self._kind is ACCOUNTS and len(ids):
            users = self._read(_USERS, _USER_COUNT, ids=ids.tolist())
            places = np.searchsorted(ids, users["id"])
            facts["daily_users"][places] = users["daily"]
            facts["weekly_users"][places] = users["weekly"]
        is_told = (facts["tenths"] > 0) | facts["weekly"] | facts["stopped"]
        with_facts: Array = facts[is_told]
        return with_facts

    def _count_known(self) -> Array:
        """How many subjects were known at the end of each day."""
        statement = _KNOWN.format(
            engagement_table=self._kind.engagement_table,
            table=self._kind.table,
            id_column=self._kind.id_column,
        )
        rows = sorted(sql.fetch(statement, self._parameters))
        days = np.array([day.toordinal() for day, _ in rows], np.int64)
        sums = np.cumsum([0, *(number for _, number in rows)])
        ends = [day.toordinal() for day in self._days]
        numbers: Array = sums[np.searchsorted(days, ends, side="right")]
        return numbers

    # --- Benchmarks -------------------------------------------------------------------------

    def _benchmarks(self) -> Benchmarks:
        """The benchmark of each day: the stored one, or that of an even sample."""
        stored = self._stored_benchmarks()
        missing = [place for place, day in enumerate(self._days) if day not in stored]
        if missing:
            limit = ACCOUNT_SAMPLE if self._kind is ACCOUNTS else USER_SAMPLE
            ids = np.sort(self._ids(_EVENLY, after=0, limit=limit))
            part = _Part(ids, *self._read_points(ids), self._at, self._score_set)
            for place in missing:
                raw = part.raw[:, place][part.is_recent[:, place]]
                raw = raw[raw > 0]
                stored[self._days[place]] = float(np.percentile(raw, 90)) if len(raw) else None
        return {day: stored[day] for day in self._days}

    def _stored_benchmarks(self) -> Benchmarks:
        rows = DailyBenchmark.objects.filter(score_set=self._score_set, day__lte=self._days[-1])
        by_day = dict(rows.values_list("day", self._kind.plural))
        stale_from = self._score_set.past_benchmarks_stale_from or date.max
        stored: Benchmarks = {}
        for day in self._days:
            # A day without a row has the benchmark of the day before it.
            if (day in by_day or day - DAY in stored) and day < stale_from:
                stored[day] = by_day[day] if day in by_day else stored[day - DAY]
        return stored

    # --- Reading ----------------------------------------------------------------------------

    def _parts(self) -> Iterator[Array]:
        after = 0
        while len(ids := self._ids(_IN_ORDER, after=after, limit=SUBJECTS_PER_READ)):
            yield ids
            after = int(ids[-1])

    def _ids(self, order: LiteralString, *, after: int, limit: int) -> Array:
        order = order.format(id_column=self._kind.id_column)
        packed = self._read(_IDS, _ID, order=order, after=after, limit=limit)
        return np.sort(packed.astype(np.int64))

    def _read_points(self, ids: Array) -> tuple[Array, Array]:
        """Of each of the subjects, the points by place in the grid, and whether it was active."""
        rows = self._read(_POINTS, _POINT, ids=ids.tolist())
        cells = np.searchsorted(ids, rows["id"]) * self._width + rows["place"]
        size = (len(ids), self._width)
        points = np.bincount(cells, rows["points"], len(ids) * self._width).reshape(size)
        is_active = np.zeros(len(ids) * self._width, np.bool_)
        is_active[cells] = True
        is_active = is_active.reshape(size)
        is_active[:, 0] = False
        return points, is_active

    def _active_before(self, ids: Array) -> Array:
        """Those of the accounts that were active before the grid."""
        return self._read(_ACTIVE_BEFORE, _ID, ids=ids.tolist())

    def _read(
        self,
        statement: LiteralString,
        dtype: np.dtype[Any],
        order: LiteralString = "",
        **parameters: Any,
    ) -> Array:
        statement = statement.format(
            id_column=self._kind.id_column,
            engagement_table=self._kind.engagement_table,
            order=order,
            points=counting(self._score_set)["points"],
            join_users=join_counted_users(self._score_set, self._kind),
        )
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            ((packed,),) = sql.fetch(statement, self._parameters | parameters)
        return np.frombuffer(packed or b"", dtype)


class _Part:
    """What some subjects did on the days of the grid, and what that says of the days at *at*."""

    def __init__(
        self, ids: Array, points: Array, is_active: Array, at: Array, score_set: ScoreSet
    ) -> None:
        self._ids, self._is_active, self._at = ids, is_active, at
        # Sums of whole points are exact.
        total = points.cumsum(axis=1)
        self._active_days = is_active.cumsum(axis=1, dtype=np.int16)
        self.raw: Array = total[:, at]
        if score_set.half_life_days is None:
            self.raw = self.raw - total[:, at - score_set.lookback_days]
        self.is_recent: Array = self._days_within(score_set.lookback_days) > 0

    def flags(self, active_before: Callable[[Array], Array] | None) -> dict[str, Array]:
        """For each of FLAGS, which subjects have it on which days. *active_before* returns those of
        some ids that were active before the grid; without it, nobody is new or returns."""
        daily, weekly = self._is_active[:, self._at], self._days_within(WEEK) > 0
        if active_before is None:
            return {"daily": daily, "weekly": weekly}
        was_last = self._is_active[:, self._at - STOPPED_AFTER]
        begins = daily & (self._days_within(STOPPED_AFTER + 1) == 1)
        is_known = self._active_days[:, self._at - STOPPED_AFTER - 1] > 0
        unknown = (begins & ~is_known).any(axis=1)
        if unknown.any():
            ids = active_before(self._ids[unknown])
            is_known = is_known | np.isin(self._ids, ids)[:, np.newaxis]
        return {
            "daily": daily,
            "weekly": weekly,
            "new": begins & ~is_known,
            "returned": begins & is_known,
            "stopped": was_last & (self._days_within(STOPPED_AFTER) == 0),
        }

    def _days_within(self, days: int) -> Array:
        """How many of the last days each subject was active on."""
        within: Array = self._active_days[:, self._at] - self._active_days[:, self._at - days]
        return within


def _tenths(raw: Array, benchmarks: Benchmarks) -> Array:
    """The displayed scores by day, in tenths, as ``engagement.scores.formula`` computes them."""
    # No score is above zero without a benchmark.
    scale = np.array([benchmark or np.inf for benchmark in benchmarks.values()])
    scores = np.maximum(1.0, 100.0 * (1.0 - np.power(10.0, -raw / scale)))
    tenths = np.floor(scores * 10 + 0.5).astype(np.int16)
    displayed: Array = np.where((raw > 0) & np.isfinite(scale), tenths, 0)
    return displayed


# --- What is stored -------------------------------------------------------------------------


def figures_of(
    scope: Scope, number: int, flags: Mapping[str, int], tenths: Array
) -> dict[str, Any]:
    """The figures of the subjects, of which *tenths* is the histogram of displayed scores, by the
    names of ``DayFigures``."""
    plural = get_kind(scope).plural
    own = FLAGS if scope == "account" else FLAGS[:2]
    bands = tenths[:-1].reshape(BAND_COUNT, -1).sum(axis=1)
    bands[-1] += tenths[-1]
    scores: dict[str, Any] = {"mean": None, "median": None, "bands": bands.tolist()}
    if total := int(tenths.sum()):
        middle = np.searchsorted(tenths.cumsum(), [(total - 1) // 2, total // 2], side="right")
        scores["mean"] = float((tenths * np.arange(TENTHS)).sum()) / total / 10
        scores["median"] = float(middle.sum()) / 20
    return {
        plural: number,
        **{f"{name}_{plural}": flags[name] for name in own},
        **{f"{scope}_{name}": value for name, value in scores.items()},
    }
