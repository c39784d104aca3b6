"""Asks for a drain soon after messages arrived, but not too often."""

import threading
import time

from celery import signature

from core import wakeups

# By name: importing the task would load the scoring engine into the web process.
DRAIN_TASK = signature("ingestion.tasks.drain")
# Seconds. A worker drops an older request: newer ones followed it, and scoring must not wait behind
# all of them.
DRAIN_EXPIRES = 5
# Seconds between two requests of one process. While messages keep coming, the pause grows to the
# maximum: a drain of a few messages costs almost as much as one of a thousand.
PAUSE = 0.2
MAX_PAUSE = 1.0
# Seconds without a request after the broker failed.
PAUSE_AFTER_FAILURE = 5.0


class DrainRequester:
    """Publishes requests from its own thread: a slow broker must not delay a response."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requested = threading.Event()
        self._thread: threading.Thread | None = None

    def request_drain(self) -> None:
        """Ask for a drain soon. Returns at once."""
        if self._requested.is_set():
            return
        self._requested.set()
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="drain-requests", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        pause = PAUSE
        while True:
            pause = min(2 * pause, MAX_PAUSE) if self._requested.is_set() else PAUSE
            self._requested.wait()
            self._requested.clear()
            published = wakeups.enqueue(DRAIN_TASK, DRAIN_EXPIRES)
            time.sleep(pause if published else PAUSE_AFTER_FAILURE)


_requester = DrainRequester()
request_drain = _requester.request_drain
