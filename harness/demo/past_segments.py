"""The past of segments, as nights would have noted it: a service knows it from its first night on,
so a new demo has none.

Who would have been a member follows from past scores and active days. Segments by traits have no
past here either, because nobody kept their values.
"""

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Coalesce

from engagement.metric_names import BOTH_SCOPES
from engagement.models import DailyCount, ScoreSet, Segment, Workspace
from engagement.scopes import SubjectKind, get_kind
from engagement.segments import members
from trends.figures import counting
from trends.figures.members import note_members, read_seats
from trends.models import DayFigures

DAYS = 60
DAY = timedelta(days=1)

Array = npt.NDArray[Any]


@transaction.atomic
def plant(workspace: Workspace, stopping: Callable[[], bool] = lambda: False) -> None:
    """Note the nights before the last one, which is for the service: all of them, or none if
    *stopping* returns true. Does nothing if there are some."""
    score_set = workspace.scores
    assert score_set is not None and score_set.scored_day is not None
    if DayFigures.objects.filter(workspace=workspace, segment_id__gt=0).exists():
        return
    # Past seats are not known.
    seats = read_seats(score_set)[:0]
    last = score_set.scored_day - 2 * DAY
    for scope in BOTH_SCOPES:
        past = _Past(score_set, get_kind(scope))
        for day in (last - ago * DAY for ago in range(DAYS + score_set.lookback_days, -1, -1)):
            if stopping():
                transaction.set_rollback(True)
                return
            facts = past.count(day)
            for segment in members.usable_segments(workspace, scope):
                ids = past.members(segment, day) if day > last - DAYS * DAY else None
                if ids is not None:
                    note_members(score_set, segment, day, ids, facts, seats)


class _Past:
    """When the subjects of one kind came, when each was active, and how each scored."""

    def __init__(self, score_set: ScoreSet, kind: SubjectKind) -> None:
        self._score_set, self._kind = score_set, kind
        rows = kind.engagement_rows(score_set).order_by(kind.id_column)
        came = Coalesce(f"{kind.path}created_at", f"{kind.path}first_seen_at")
        subjects = [(id, at.toordinal()) for id, at in rows.values_list(kind.id_column, came)]
        self._ids, self._since = np.array(subjects, np.int64).reshape(-1, 2).T
        self._active = self._read_active()
        self._tenths: dict[date, Array] = {}

    def _read_active(self) -> Array:
        """Pairs of the place of a subject and a day on which it was active."""
        counts: QuerySet[DailyCount] = DailyCount.objects.filter(product=self._score_set.product_id)
        rows = counts.filter(user__is_identified=True).order_by()
        pairs = rows.values_list(self._kind.id_column, "day").distinct()
        days = np.array([(id or 0, day.toordinal()) for id, day in pairs], np.int64).reshape(-1, 2)
        days = days[np.isin(days[:, 0], self._ids)]
        days[:, 0] = np.searchsorted(self._ids, days[:, 0])
        return days

    def count(self, day: date) -> Array:
        """Count the scores at the end of the day. Returns what nights know of active ones."""
        facts = counting.count(self._score_set, self._kind, day, day, facts=True).facts
        self._tenths[day] = np.zeros(len(self._ids), np.int64)
        self._tenths[day][np.searchsorted(self._ids, facts["id"])] = facts["tenths"]
        return facts

    def members(self, segment: Segment, day: date) -> Array | None:
        """The ids of its members at the end of the day; None if nobody knows."""
        is_member = self._since <= day.toordinal()
        for condition in segment.conditions:
            matches = self._matches(condition, day)
            if matches is None or segment.match != Segment.Match.ALL:
                return None
            is_member = is_member & matches
        ids: Array = self._ids[is_member]
        return ids

    def _matches(self, condition: Mapping[str, Any], day: date) -> Array | None:
        match condition:
            case {"kind": "active"}:
                is_like: Array = (self._tenths[day] > 0) == condition["active"]
                return is_like
            case {"kind": "created"}:
                return self._compare_days(self._since, condition, day)
            case {"kind": "last_active"}:
                latest = np.zeros(len(self._ids), np.int64)
                places, days = self._active[self._active[:, 1] <= day.toordinal()].T
                np.maximum.at(latest, places, days)
                return self._compare_days(latest, condition, day) & (latest > 0)
            case {"kind": "metric", "metric": "engagement_score"}:
                return _compare(self._tenths[day], condition)
            case {"kind": "metric", "metric": "score_change"}:
                window = self._score_set.lookback_days
                change = self._tenths[day] - self._tenths[day - window * DAY]
                # A new subject has nothing to compare with.
                return _compare(change, condition) & (self._since <= day.toordinal() - 2 * window)
        return None

    def _compare_days(self, days: Array, condition: Mapping[str, Any], day: date) -> Array:
        number = condition["days"]
        number = self._score_set.lookback_days if number == "window" else number
        first = day.toordinal() + 1 - number
        return days >= first if condition["operator"] == "within_days" else days < first


def _compare(tenths: Array, condition: Mapping[str, Any]) -> Array:
    value, operator = round(condition["value"] * 10), condition["operator"]
    upper = round(condition["upper"] * 10) if operator == "between" else value
    matches: Array = tenths <= upper
    if operator != "at_most":
        matches = (tenths >= value) & (matches | (operator == "at_least"))
    return matches
