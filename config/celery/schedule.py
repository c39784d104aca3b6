"""Beat's schedule, which is in the database."""

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import Error
from django.utils import timezone
from django_celery_beat.schedulers import DatabaseScheduler

from config import keepalive
from engagement import telemetry

logger = logging.getLogger(__name__)

# Seconds between two attempts to read the schedule of a database that is away.
DATABASE_RETRY_DELAY = 2.0
# Seconds between two signs of life.
HEARTBEAT_INTERVAL = 10.0
# A clock that is kept right is set back by less.
CLOCK_TOLERANCE = timedelta(seconds=5)


class Scheduler(DatabaseScheduler):  # type: ignore[misc]  # it has no types
    """The schedule of django-celery-beat, for a database that is away and a clock that is wrong.

    Celery's own beat ends with a traceback when it starts before its database does. And once its
    clock has been ahead, it is silent until the time that it had then.
    """

    _sent = 0
    _noted_at = float("-inf")

    def setup_schedule(self) -> None:
        with _signals_end_the_process():
            self._wait_for_the_database()
            super().setup_schedule()
            self._leave_the_future()

    def tick(self, *given: Any, **options: Any) -> float:
        self._leave_the_future()
        delay: float = super().tick(*given, **options)
        self._note_what_was_sent()
        return delay

    def _leave_the_future(self) -> None:
        """Have what has run in the future have run now: the clock was ahead then."""
        now = timezone.now()
        entries = (self._schedule or {}).values()
        ahead = [entry for entry in entries if entry.last_run_at > now + CLOCK_TOLERANCE]
        for entry in ahead:
            entry.last_run_at = entry.model.last_run_at = now
            entry.model.no_changes = True
            # It is saved with the others that have run.
            self._dirty.add(entry.name)
        if ahead:
            logger.warning("The clock was ahead: %d entries had run in the future.", len(ahead))
            # The times at which entries are due and the schedule is read are of that clock, too.
            self._heap = None
            self._last_full_sync = datetime.min

    def apply_async(self, *given: Any, **options: Any) -> Any:
        result = super().apply_async(*given, **options)
        self._sent += 1
        return result

    def _note_what_was_sent(self) -> None:
        """Write down how many tasks were sent, if any were and the last time is over."""
        started = time.monotonic()
        if not self._sent or started < self._noted_at + HEARTBEAT_INTERVAL:
            return
        try:
            telemetry.add_run(keepalive.BEAT_COUNTER, self._sent, 0.0, timezone.now())
        except Error as error:
            logger.warning("Beat could not note that it is alive (%s).", type(error).__name__)
        else:
            self._sent = 0
        self._noted_at = started

    def _wait_for_the_database(self) -> None:
        waited = False
        while reason := self._what_is_missing():
            if not waited:
                logger.error(
                    "The schedule cannot be read (%s); beat tries again every %.0f seconds.",
                    reason,
                    DATABASE_RETRY_DELAY,
                )
            waited = True
            time.sleep(DATABASE_RETRY_DELAY)
        if waited:
            logger.info("The schedule can be read now.")

    def _what_is_missing(self) -> str:
        try:
            self.Changes.last_change()
        except Error as error:
            return str(error).strip().split("\n")[0]
        return ""


@contextmanager
def _signals_end_the_process() -> Iterator[None]:
    """Celery's own handlers save the schedule first, and so wait for the database, too."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
