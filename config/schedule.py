"""Beat's schedule, which is in the database."""

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import Error
from django_celery_beat.schedulers import DatabaseScheduler

logger = logging.getLogger(__name__)

# Seconds between two attempts to read the schedule of a database that is away.
WAIT = 2.0


class Scheduler(DatabaseScheduler):  # type: ignore[misc]  # it has no types
    """The schedule of django-celery-beat, which waits for its database where that is away.

    Celery's own beat ends with a traceback when it starts before its database does.
    """

    def setup_schedule(self) -> None:
        with _signals_end_the_process():
            self._wait_for_the_database()
            super().setup_schedule()

    def _wait_for_the_database(self) -> None:
        waited = False
        while reason := self._what_is_missing():
            if not waited:
                logger.error(
                    "The schedule cannot be read (%s); beat tries again every %.0f seconds.",
                    reason,
                    WAIT,
                )
            waited = True
            time.sleep(WAIT)
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
