"""Who may put how much into the inbox, as one web process sees it.

A flood of one key fills that key's share and is refused then, and nobody else is. Messages without
a valid key get a bounded number of rows a second; the rest is counted.
"""

import time
from collections import Counter
from collections.abc import Collection
from typing import LiteralString

from django.conf import settings

from engagement.database import sql

# One key may fill this share of INBOX_LIMIT.
MAX_KEY_SHARE = 0.5
# Over INBOX_LIMIT only keys with more than an equal share are refused; over so many times the limit
# all are.
HARD_LIMIT_FACTOR = 2
# Counting a deep inbox takes time: it may take up to this share of it.
MAX_COUNT_TIME_SHARE = 0.05

# Messages without a valid key that one process stores in a second, and at once after a pause.
UNKNOWN_PER_SECOND = 50.0
UNKNOWN_BURST = 500.0
# A key is looked up anew after so many seconds: it may have been deleted.
KEY_CACHE_SECONDS = 60.0

_COUNT: LiteralString = """
    SELECT key_digest, count(*)
    FROM (SELECT key_digest FROM ingestion_inboxmessage LIMIT %(limit)s) AS waiting
    GROUP BY key_digest
"""


class KeyQuotas:
    """How many messages of each key wait: counted now and then, and added up in between."""

    def __init__(self) -> None:
        self._next_count = 0.0
        self._waiting: Counter[bytes] = Counter()
        self._total = 0

    def refresh_if_due(self) -> None:
        started = time.monotonic()
        if started < self._next_count:
            return
        rows = sql.fetch(_COUNT, {"limit": HARD_LIMIT_FACTOR * settings.INBOX_LIMIT})
        self._waiting = Counter({bytes(digest): number for digest, number in rows})
        self._total = self._waiting.total()
        took = time.monotonic() - started
        self._next_count = started + max(1.0, took / MAX_COUNT_TIME_SHARE)

    def add(self, messages: Counter[bytes]) -> None:
        self._waiting.update(messages)
        self._total += messages.total()

    def is_exceeded(self, digest: bytes) -> bool:
        """Whether the inbox takes no more messages of the key for now."""
        limit, mine = settings.INBOX_LIMIT, self._waiting.get(digest, 0)
        if mine >= limit * MAX_KEY_SHARE or self._total >= limit * HARD_LIMIT_FACTOR:
            return True
        return self._total >= limit and mine >= limit / len(self._waiting)


_KNOWN: LiteralString = """
    SELECT digest FROM ingestion_ingestionkey WHERE digest = ANY(%(digests)b::bytea[])
"""


class KnownKeys:
    """Which keys there are, revoked ones included, asked for once for all that are new here."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._forget_at = 0.0
        self._allowed = UNKNOWN_BURST
        self._allowed_at = time.monotonic()

    def unknown(self, digests: Collection[bytes]) -> set[bytes]:
        """Those of the keys that there are not, as the database says now."""
        now = time.monotonic()
        if now >= self._forget_at:
            self._known.clear()
            self._forget_at = now + KEY_CACHE_SECONDS
        new = set(digests) - self._known
        if new:
            found = {bytes(one) for (one,) in sql.fetch(_KNOWN, {"digests": list(new)})}
            self._known |= found
            new -= found
        return new

    def allow(self, messages: int) -> int:
        """How many of so many messages with unknown keys may be stored now."""
        now = time.monotonic()
        earned = (now - self._allowed_at) * UNKNOWN_PER_SECOND
        self._allowed = min(UNKNOWN_BURST, self._allowed + earned)
        self._allowed_at = now
        allowed = min(messages, int(self._allowed))
        self._allowed -= allowed
        return allowed
