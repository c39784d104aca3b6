"""Compares the members of a watched set with the stored ones, and stores the present ones."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, LiteralString

from django.db import connection

from core.database import sql
from notifications.models import Watch, WatchedMember
from notifications.watching.watches import WatchedSet

# Rows of a score set that one statement compares.
ROWS_PER_STEP = 20_000
_LAST_ID = 2**63 - 1


def _ids() -> "array[int]":
    # Eight bytes an id: all members of a set may leave it at once.
    return array("q")


@dataclass
class Changes:
    """The ids of the subjects that entered and left a set, in order."""

    entered: "array[int]" = field(default_factory=_ids)
    left: "array[int]" = field(default_factory=_ids)

    def __bool__(self) -> bool:
        return bool(self.entered or self.left)


def store_changes(watch: Watch, watched: WatchedSet) -> Changes:
    """Compare the set with the watch's stored members, and store the differences.

    Goes through the set in steps of bounded size, in the caller's transaction.
    """
    changes = Changes()
    for after, until in _ranges(watched):
        step = _compare(watch, watched, after, until)
        store_members(watch, step)
        changes.entered.extend(step.entered)
        changes.left.extend(step.left)
    return changes


_RANGE_END: LiteralString = """
    SELECT max(id), count(*) FROM (
        SELECT {id} AS id FROM {table}
        WHERE product_id = %(product)s AND score_set_id = %(score_set)s AND {id} > %(after)s
        ORDER BY {id} LIMIT %(rows)s) AS step
"""


def _ranges(watched: WatchedSet) -> Iterator[tuple[int, int]]:
    """Ranges of ids that together cover all, each with a bounded number of engagement rows."""
    kind, score_set = watched.kind, watched.score_set
    statement = _RANGE_END.format(id=kind.id_column, table=kind.engagement_table)
    after = 0
    while True:
        parameters = {
            "product": score_set.product_id,
            "score_set": score_set.pk,
            "after": after,
            "rows": ROWS_PER_STEP,
        }
        ((until, rows),) = sql.fetch(statement, parameters)
        if rows < ROWS_PER_STEP:
            yield after, _LAST_ID
            return
        yield after, until
        after = until


# EXCEPT hashes both sides, whatever the planner believes about their sizes.
_COMPARE = """
    WITH present AS MATERIALIZED ({present}), stored AS MATERIALIZED ({stored})
    SELECT id, true FROM (TABLE present EXCEPT TABLE stored) AS entered (id)
    UNION ALL
    SELECT id, false FROM (TABLE stored EXCEPT TABLE present) AS gone (id)
    ORDER BY 1
"""


def _compare(watch: Watch, watched: WatchedSet, after: int, until: int) -> Changes:
    id_column = watched.kind.id_column
    is_in_range = {f"{id_column}__gt": after, f"{id_column}__lte": until}
    present = watched.rows().filter(**is_in_range).order_by().values_list(id_column)
    stored = _stored(watch).filter(subject_id__gt=after, subject_id__lte=until)
    present_sql, present_values = present.query.sql_with_params()
    stored_sql, stored_values = stored.values_list("subject_id").query.sql_with_params()
    statement = _COMPARE.format(present=present_sql, stored=stored_sql)
    changes = Changes()
    with connection.cursor() as cursor:
        cursor.execute(statement, [*present_values, *stored_values])
        for subject_id, has_entered in cursor.fetchall():
            (changes.entered if has_entered else changes.left).append(subject_id)
    return changes


def _stored(watch: Watch) -> Any:
    return WatchedMember.objects.filter(product_id=watch.product_id, watch_id=watch.pk)


_INSERT: LiteralString = """
    INSERT INTO notifications_watchedmember (product_id, watch_id, subject_id)
    SELECT %(product)s, %(watch)s, unnest(%(subjects)b::bigint[])
"""
_DELETE: LiteralString = """
    DELETE FROM notifications_watchedmember
    WHERE product_id = %(product)s AND watch_id = %(watch)s
      AND subject_id = ANY(%(subjects)b::bigint[])
"""


def store_members(watch: Watch, changes: Changes) -> None:
    """Add and remove stored members of the watch."""
    for statement, ids in ((_INSERT, changes.entered), (_DELETE, changes.left)):
        if ids:
            parameters = {"product": watch.product_id, "watch": watch.pk, "subjects": list(ids)}
            sql.execute(statement, parameters)


def stored_ids(watch: Watch) -> set[int]:
    """The stored members of a watch that has few."""
    return set(_stored(watch).values_list("subject_id", flat=True))
