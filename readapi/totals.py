"""The number of records of a list, on request."""

from typing import Any

from django.db.models import QuerySet

from core.database import sql
from engagement.models import Workspace
from engagement.scopes import get_kind
from engagement.segments import counts
from readapi.filters import ListFilter
from readapi.pagination import Total
from readapi.serializers import format_time

# A list that takes longer to count has no total.
TIMEOUT_SECONDS = 2.0


def count(workspace: Workspace, list_filter: ListFilter, rows: QuerySet[Any]) -> Total:
    """The total of *rows*, which are the workspace's rows that match the filter.

    All rows of a large workspace, and the members of its segments, are counted in the background.
    """
    score_set = workspace.scores
    if score_set is None:
        return Total(0)
    counted_at = counts.counted_at(score_set)
    as_of = format_time(counted_at) if counted_at else None
    if not list_filter:
        totals = counts.subject_totals([score_set])[score_set.pk]
        return Total(getattr(totals, get_kind(list_filter.scope).plural), as_of)
    if list_filter.segment is not None and list_filter.is_segment_only:
        segment = list_filter.segment
        counted = counts.known_segment_counts(score_set, [segment])
        if segment.pk in counted:
            return Total(counted[segment.pk], as_of)
    return count_live(rows)


def count_live(rows: QuerySet[Any]) -> Total:
    """The present number of *rows*."""
    try:
        with sql.statement_timeout(TIMEOUT_SECONDS):
            return Total(rows.count())
    except sql.StatementTimeout:
        return Total(None)
