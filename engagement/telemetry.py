"""Counts of the service's own work, kept in the database: monitors ask any process for them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import LiteralString

from engagement.database import sql
from engagement.models import OperationCounter

# The latest time of all processes. What is a minute ahead of another one is from a clock that was
# wrong, and must not hide for as long that nothing happens any more.
_ADD: LiteralString = """
    INSERT INTO engagement_measure AS m (name, runs, units, seconds, last_at)
    VALUES (%(name)s, 1, %(units)s, %(seconds)s, %(now)s)
    ON CONFLICT (name) DO UPDATE SET
        runs = m.runs + 1, units = m.units + EXCLUDED.units,
        seconds = m.seconds + EXCLUDED.seconds,
        last_at = CASE WHEN m.last_at > EXCLUDED.last_at + interval '1 minute'
            THEN EXCLUDED.last_at ELSE GREATEST(m.last_at, EXCLUDED.last_at) END
"""


class OperationRun:
    """A piece of work that is under way; who does it says how many units it was."""

    units = 0


@contextmanager
def track_operation(name: str, clock: Callable[[], datetime]) -> Iterator[OperationRun]:
    """Add what is done within to the measure *name*, unless it fails.

    To be used outside a transaction: the measure's row would be locked until that ends.
    """
    work = OperationRun()
    started = time.monotonic()
    yield work
    add_run(name, work.units, time.monotonic() - started, clock())


def add_run(name: str, units: int, seconds: float, now: datetime) -> None:
    """Add one run of so many units, which took so long, to the measure *name*."""
    sql.execute(_ADD, {"name": name, "units": units, "seconds": seconds, "now": now})


def get_counters(*names: str) -> dict[str, OperationCounter]:
    """The measures that there are of these names."""
    return {measure.name: measure for measure in OperationCounter.objects.filter(name__in=names)}
