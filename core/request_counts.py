"""Counts the requests that this process answers, and saves the counts every few seconds.

In the database the counts of all web processes and machines add up, and outlive a restart. So
``/metrics`` says the same whichever process answers it. What a process had not saved when it ended
is lost.
"""

import logging
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import LiteralString

from django.db import DEFAULT_DB_ALIAS, Error, connection, connections

from core.database import sql

logger = logging.getLogger(__name__)

# Seconds. The last bucket holds what took longer.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
# Seconds between two saves.
SAVE_INTERVAL = 10.0

# Endpoint, status, code of the error, bucket.
Key = tuple[str, int, str, int]

_ADD: LiteralString = """
    INSERT INTO engagement_requestcount AS c (endpoint, status, code, bucket, requests, seconds)
    SELECT * FROM unnest(%(endpoints)b::text[], %(statuses)b::smallint[], %(codes)b::text[],
                         %(buckets)b::smallint[], %(requests)b::bigint[], %(seconds)b::float8[])
    ON CONFLICT (endpoint, status, code, bucket) DO UPDATE SET
        requests = c.requests + EXCLUDED.requests, seconds = c.seconds + EXCLUDED.seconds
"""


class Collector:
    """Collects counts in memory. Its own thread saves them."""

    def __init__(self, save_more: Callable[[], None] = lambda: None) -> None:
        self._counts: dict[Key, list[float]] = {}
        self._arrived = threading.Event()
        self._thread: threading.Thread | None = None
        self._save_more = save_more
        self._is_failing = False

    def add(self, endpoint: str, status: int, code: str, seconds: float) -> None:
        """Count a request. Costs about a microsecond."""
        key = (endpoint, status, code, bisect_left(BOUNDS, seconds))
        count = self._counts.get(key)
        # The requests of a web process are greenlets, which switch nowhere in here.
        if count is None:
            self._counts[key] = [1, seconds]
            self._arrived.set()
        else:
            count[0] += 1
            count[1] += seconds

    def start(self) -> None:
        """Save what is collected every few seconds, from now on."""
        self._thread = threading.Thread(target=self._run, name="request-counts", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        _use_own_connection()
        while True:
            self._arrived.wait()
            time.sleep(SAVE_INTERVAL)
            self._arrived.clear()
            self._try_to_save()

    def _try_to_save(self) -> None:
        try:
            self.save()
            self._save_more()
        except Error as error:
            if not self._is_failing:
                logger.warning("Requests are not counted: %s", type(error).__name__)
            self._is_failing = True
            self._arrived.set()
        else:
            self._is_failing = False
        finally:
            # It is needed for milliseconds.
            connection.close()

    def save(self) -> None:
        """Add the counts to the stored ones. Keeps them for the next time if that fails."""
        counts, self._counts = self._counts, {}
        # Sorted, so that two processes cannot deadlock.
        rows = [(*key, int(number), seconds) for key, (number, seconds) in sorted(counts.items())]
        if not rows:
            return
        columns = ("endpoints", "statuses", "codes", "buckets", "requests", "seconds")
        try:
            sql.execute(_ADD, sql.arrays(rows, *columns))
        except Error:
            self._put_back(counts)
            raise

    def _put_back(self, counts: dict[Key, list[float]]) -> None:
        for key, (number, seconds) in counts.items():
            newer = self._counts.setdefault(key, [0, 0.0])
            newer[0] += number
            newer[1] += seconds


def _use_own_connection() -> None:
    """Give this thread a connection outside the pool, which would keep it open."""
    own = connection.copy()
    own.settings_dict["OPTIONS"].pop("pool", None)
    connections[DEFAULT_DB_ALIAS] = own
