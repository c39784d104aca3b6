"""Repairs timestamps written by a fast clock: times that lie in the future.

Most work is done again some time after it was last done, or from a time on that was stored before.
If that time lies days ahead, the work would rest for as long.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Model

# Clocks of machines differ.
TOLERANCE = timedelta(minutes=5)
NOW = timedelta()


@dataclass(frozen=True)
class StoredTimes:
    """Columns of a model with the time of something, and how far ahead each may rightly lie."""

    model: type[Model]
    columns: Mapping[str, timedelta]
    # Of large tables, the few rows for which it matters.
    rows: Mapping[str, Any]


_registered: dict[type[Model], StoredTimes] = {}


def register(
    model: type[Model], columns: Mapping[str, timedelta], rows: Mapping[str, Any] | None = None
) -> None:
    """Have ``reset_future_times()`` look at these columns. Imports point from other apps to this
    one."""
    _registered[model] = StoredTimes(model, columns, rows or {})


def registered() -> Collection[StoredTimes]:
    return _registered.values()


def reset_future_times(now: datetime) -> int:
    """Set times that lie too far in the future to *now*; return how many."""
    return sum(
        times.model._default_manager.filter(
            **times.rows, **{f"{column}__gt": now + ahead + TOLERANCE}
        ).update(**{column: now})
        for times in _registered.values()
        for column, ahead in times.columns.items()
    )
