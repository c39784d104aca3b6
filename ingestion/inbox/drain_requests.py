"""Has the inbox drained soon after messages came, and not too often."""

import threading
import time

from engagement.core import wakeups
from ingestion import tasks

# Seconds between two wake-ups of one process. Where messages keep coming the pause grows to the
# longest: a drain of a few messages costs almost as much as one of a thousand.
PAUSE = 0.2
MAX_PAUSE = 1.0
# After a failure the broker is left alone for so many seconds.
PAUSE_AFTER_FAILURE = 5.0


class DrainRequester:
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
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="wake-up", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        pause = PAUSE
        while True:
            pause = min(2 * pause, MAX_PAUSE) if self._wanted.is_set() else PAUSE
            self._wanted.wait()
            self._wanted.clear()
            taken = wakeups.enqueue(tasks.drain, tasks.DRAIN_EXPIRES)
            time.sleep(pause if taken else PAUSE_AFTER_FAILURE)


_waker = DrainRequester()
request_drain = _waker.request
