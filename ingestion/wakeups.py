"""Asks the workers to drain the inbox, soon after messages came and not too often.

A wake-up carries no data. A lost one costs some seconds, until beat asks again; a repeated one
finds the inbox empty.
"""

import logging
import threading
import time

from kombu.exceptions import OperationalError

from ingestion import tasks

logger = logging.getLogger(__name__)

# Seconds between two wake-ups of one process.
PAUSE = 0.2
# A worker that finds a wake-up this old drops it: there have been newer ones.
EXPIRES = 30
# After a failure the broker is left alone for so many seconds.
PAUSE_AFTER_FAILURE = 5.0


class Waker:
    """Publishes wake-ups from a thread of its own: a slow broker must not delay an answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None

    def request(self) -> None:
        """Have the inbox drained soon; returns at once."""
        if self._wanted.is_set():
            return
        self._wanted.set()
        if self._thread is None or not self._thread.is_alive():
            with self._lock:
                self._thread = threading.Thread(target=self._run, name="wake-up", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            time.sleep(PAUSE if self._publish() else PAUSE_AFTER_FAILURE)

    def _publish(self) -> bool:
        try:
            tasks.drain.apply_async(expires=EXPIRES, retry=False)
        except (OperationalError, OSError) as error:
            logger.warning(
                "The broker did not take a wake-up (%s); beat asks again within seconds.",
                type(error).__name__,
            )
            return False
        except Exception:
            logger.exception("The broker did not take a wake-up")
            return False
        return True


_waker = Waker()
request = _waker.request
