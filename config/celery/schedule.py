"""Beat's scheduler, which keeps its schedule in the database."""

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import Error, close_old_connections
from django.utils import timezone
from django_celery_beat.schedulers import DatabaseScheduler

from config.database import keepalive
from core import telemetry

logger = logging.getLogger(__name__)

# Seconds between two attempts to read the schedule while the database is down.
DATABASE_RETRY_DELAY = 2.0
# Seconds between two signs of life.
HEARTBEAT_INTERVAL = 10.0
# Time synchronization sets a clock back by less.
CLOCK_TOLERANCE = timedelta(seconds=5)


class Scheduler(DatabaseScheduler):  # type: ignore[misc]  # it has no types
    """The scheduler of django-celery-beat, made to survive a missing database and a wrong clock.

    Celery's beat ends with a traceback if it starts before its database. After its clock was
    ahead, it sends nothing until that time is reached again.
    """

    _sent = 0
    _saved_at = float("-inf")

    def setup_schedule(self) -> None:
        with _default_signal_handlers():
            self._wait_for_the_database()
            super().setup_schedule()
            self._reset_future_runs()

    def tick(self, *arguments: Any, **options: Any) -> float:
        self._reset_future_runs()
        try:
            delay: float = super().tick(*arguments, **options)
        except Error as error:
            # The schedule is read again every five minutes. Celery's beat ends with a traceback
            # if the database is away just then.
            logger.warning(
                "The schedule cannot be read (%s); beat tries again in %.0f seconds.",
                type(error).__name__,
                DATABASE_RETRY_DELAY,
            )
            close_old_connections()
            self._last_full_sync = datetime.min
            return DATABASE_RETRY_DELAY
        self._save_heartbeat()
        return delay

    def _reset_future_runs(self) -> None:
        """Set last runs that lie in the future to now. They are from a clock that was ahead."""
        now = timezone.now()
        entries = (self._schedule or {}).values()
        ahead = [entry for entry in entries if entry.last_run_at > now + CLOCK_TOLERANCE]
        for entry in ahead:
            entry.last_run_at = entry.model.last_run_at = now
            entry.model.no_changes = True
            # It is saved together with the other entries that have run.
            self._dirty.add(entry.name)
        if ahead:
            logger.warning("The clock was ahead: %d entries had run in the future.", len(ahead))
            # These times are from that clock, too.
            self._heap = None
            self._last_full_sync = datetime.min

    def apply_async(self, *arguments: Any, **options: Any) -> Any:
        result = super().apply_async(*arguments, **options)
        self._sent += 1
        return result

    def _save_heartbeat(self) -> None:
        """Save how many tasks were sent, if there were any and the interval is over."""
        started = time.monotonic()
        if not self._sent or started < self._saved_at + HEARTBEAT_INTERVAL:
            return
        try:
            telemetry.add_run(keepalive.BEAT_COUNTER, self._sent, 0.0, timezone.now())
        except Error as error:
            logger.warning("Beat could not save its heartbeat (%s).", type(error).__name__)
        else:
            self._sent = 0
        self._saved_at = started

    def _wait_for_the_database(self) -> None:
        has_waited = False
        while reason := self._schedule_error():
            if not has_waited:
                logger.error(
                    "The schedule cannot be read (%s); beat tries again every %.0f seconds.",
                    reason,
                    DATABASE_RETRY_DELAY,
                )
            has_waited = True
            time.sleep(DATABASE_RETRY_DELAY)
        if has_waited:
            logger.info("The schedule can be read now.")

    def _schedule_error(self) -> str:
        """Return why the schedule cannot be read, or an empty string."""
        try:
            self.Changes.last_change()
        except Error as error:
            return str(error).strip().split("\n")[0]
        return ""


@contextmanager
def _default_signal_handlers() -> Iterator[None]:
    """Restore the default signal handlers for the block.

    Celery's handlers save the schedule first, so they would also wait for the database.
    """
    numbers = (signal.SIGTERM, signal.SIGINT)
    handlers = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
