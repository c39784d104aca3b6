"""How much each key may put into the inbox, as one web process sees it.

A flood of one key fills only that key's share; other keys are still accepted. Messages without a
valid key get a limited number of rows a second; the rest is only counted.
"""

import time
from collections import Counter
from collections.abc import Collection
from typing import LiteralString

from django.conf import settings

from core.database import sql
from core.rate_limits import MINUTE, RateLimit

# One key may fill this share of INBOX_LIMIT.
MAX_KEY_SHARE = 0.5
# Above INBOX_LIMIT, only keys with more than an equal share are rejected. Above this multiple of
# it, all are.
HARD_LIMIT_FACTOR = 2
# Counting a deep inbox takes up to this share of the time, but is not put off for longer than this
# many seconds: on old counts, a quota would stay exhausted after its messages are recorded.
MAX_COUNT_TIME_SHARE = 0.05
MAX_COUNT_PAUSE = 10.0

# Messages without a valid key that one process stores per second, and at once after a pause.
UNKNOWN_PER_SECOND = 50
UNKNOWN_BURST = 500
# A key is looked up again after this time: it may have been deleted.
KEY_CACHE_SECONDS = 60.0

_COUNT: LiteralString = """
    SELECT key_digest, count(*)
    FROM (SELECT key_digest FROM ingestion_inboxmessage LIMIT %(limit)s) AS waiting
    GROUP BY key_digest
"""


class KeyQuotas:
    """How many messages of each key wait: counted now and then, and incremented in between."""

    def __init__(self) -> None:
        self._next_count = 0.0
        self._waiting: Counter[bytes] = Counter()
        self._total = 0

    def refresh_if_due(self) -> None:
        """Count the inbox again, unless the last count is recent."""
        started = time.monotonic()
        if started < self._next_count:
            return
        rows = sql.fetch(_COUNT, {"limit": HARD_LIMIT_FACTOR * settings.INBOX_LIMIT})
        self._waiting = Counter({bytes(digest): number for digest, number in rows})
        self._total = self._waiting.total()
        took = time.monotonic() - started
        pause = min(max(1.0, took / MAX_COUNT_TIME_SHARE), MAX_COUNT_PAUSE)
        self._next_count = started + took + pause

    def add(self, messages: Counter[bytes]) -> None:
        self._waiting.update(messages)
        self._total += messages.total()

    def is_exceeded(self, digest: bytes) -> bool:
        """Whether the inbox accepts no more messages of the key for now."""
        limit, waiting = settings.INBOX_LIMIT, self._waiting.get(digest, 0)
        if waiting >= limit * MAX_KEY_SHARE or self._total >= limit * HARD_LIMIT_FACTOR:
            return True
        return self._total >= limit and waiting >= limit / len(self._waiting)


_EXISTING: LiteralString = """
    SELECT digest FROM ingestion_ingestionkey WHERE digest = ANY(%(digests)b::bytea[])
"""


class KnownKeys:
    """A cache of the existing keys, revoked ones included, and an allowance for unknown ones."""

    def __init__(self) -> None:
        self._digests: set[bytes] = set()
        self._expires_at = 0.0
        self._allowance = RateLimit(MINUTE * UNKNOWN_PER_SECOND, at_once=UNKNOWN_BURST)

    def unknown(self, digests: Collection[bytes]) -> set[bytes]:
        """The digests that are no existing key's."""
        now = time.monotonic()
        if now >= self._expires_at:
            self._digests.clear()
            self._expires_at = now + KEY_CACHE_SECONDS
        uncached = set(digests) - self._digests
        if not uncached:
            return uncached
        existing = {bytes(row[0]) for row in sql.fetch(_EXISTING, {"digests": list(uncached)})}
        self._digests |= existing
        return uncached - existing

    def take_unknown_allowance(self, messages: int) -> int:
        """Reserve room for messages with unknown keys. Returns how many may be stored now."""
        return self._allowance.take(None, messages)
