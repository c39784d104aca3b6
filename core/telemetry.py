"""Counts the service's own operations in the database, so that any process can report them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import LiteralString

from core.database import sql
from core.models import OperationCounter

# last_at is the latest time of all processes. One more than a minute ahead is from a wrong clock.
# Left there, it would hide for that long that the operation no longer runs.
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
    """A run that is under way. The code inside sets how many units of work it did."""

    units = 0


@contextmanager
def track_operation(name: str, clock: Callable[[], datetime]) -> Iterator[OperationRun]:
    """Add the block's run to the counter *name*, unless the block fails.

    Use it outside a transaction, which would lock the counter's row until it ends.
    """
    run = OperationRun()
    started = time.monotonic()
    yield run
    add_run(name, run.units, time.monotonic() - started, clock())


def add_run(name: str, units: int, seconds: float, now: datetime) -> None:
    """Add one run, with its units of work and its duration, to the counter *name*."""
    sql.execute(_ADD, {"name": name, "units": units, "seconds": seconds, "now": now})


def get_counters(*names: str) -> dict[str, OperationCounter]:
    """The existing counters with these names."""
    return {counter.name: counter for counter in OperationCounter.objects.filter(name__in=names)}
