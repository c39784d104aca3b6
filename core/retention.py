"""Retention: how long rows are kept, and their deletion, a chunk at a time."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Model, Q
from django.db.models.expressions import RawSQL

# Rows that one statement deletes. It must not hold its locks for long.
CHUNK_ROWS = 10_000

OutOfTime = Callable[[], bool]


@dataclass(frozen=True)
class Retention:
    """Rows of *model*, of those that *rows* selects, are kept until their *column* is older than
    *lifetime* says.

    *permission* is a statement that a trigger of the table asks for, in the same transaction.
    """

    model: type[Model]
    column: str
    lifetime: Callable[[], timedelta]
    rows: Q = field(default_factory=Q)
    permission: str = ""


_by_app: dict[str, list[Retention]] = defaultdict(list)


def register(app: str, *retentions: Retention) -> None:
    """Have the maintenance of the app delete these rows, in this order. Call it from
    ``AppConfig.ready()``."""
    _by_app[app] += retentions


def days(setting: str) -> Callable[[], timedelta]:
    """The lifetime that the setting has in days."""
    return lambda: timedelta(days=getattr(settings, setting))


def delete_expired(app: str, now: datetime, out_of_time: OutOfTime = lambda: False) -> None:
    """Delete the rows of the app that are past their retention. What is left when the time is up
    waits for the next run."""
    for retention in _by_app[app]:
        delete_older(retention, now - retention.lifetime(), out_of_time)


def delete_older(retention: Retention, than: datetime, out_of_time: OutOfTime) -> None:
    """Delete the rows from before this time, each chunk in a transaction of its own."""
    while not out_of_time() and _delete_chunk(retention, than) == CHUNK_ROWS:
        pass


def _delete_chunk(retention: Retention, than: datetime) -> int:
    table = connection.ops.quote_name(retention.model._meta.db_table)
    old = retention.model._base_manager.filter(
        retention.rows, **{f"{retention.column}__lt": than}
    ).order_by()
    # Not by the key: that of some tables has several columns.
    places = old.annotate(place=RawSQL(f"{table}.ctid", ())).values_list("place")[:CHUNK_ROWS]
    choice, parameters = places.query.sql_with_params()
    with transaction.atomic(), connection.cursor() as cursor:
        if retention.permission:
            cursor.execute(retention.permission)
        cursor.execute(f"DELETE FROM {table} WHERE ctid = ANY(ARRAY({choice}))", parameters)
        deleted: int = cursor.rowcount
    return deleted
