"""Requests that got an error although they carried a key: counted, and a few of each kind kept.

Nothing of them reaches the inbox, so without this their product would never know. A web process
collects them in memory, and a thread of its own looks up their keys and saves them seconds later.
Bodies and keys are not saved. What exceeds the limits, or is lost with a killed process, costs no
message.
"""

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import LiteralString, NamedTuple

import msgspec
from django.db import Error, connection, transaction

from core import credentials
from core.database import sql
from ingestion.doors.headers import Headers
from ingestion.doors.segment_keys import sdk_key
from ingestion.errors import IngestionError
from ingestion.log.hours import start_of_hour
from ingestion.models import IngestionKey

logger = logging.getLogger(__name__)

# Seconds between collecting and saving.
SAVE_DELAY = 1.0
# Keys that a process collects between two saves, and samples of each key and code.
MAX_KEYS = 200
MAX_SAMPLES = 3
# Samples of each code that a product keeps.
KEPT_SAMPLES = 25
MAX_USER_AGENT = 100

# Ours, which some client may send in the wrong header.
_CREDENTIAL = re.compile(r"\b(ed[a-z]_\w{5})[\w-]{10,}", re.ASCII)
_UNPRINTABLE = re.compile(r"[^ -~]")
# The kind of message that an endpoint takes, by the last part of its path.
_KINDS = {
    **dict.fromkeys(("identify", "users", "i"), "identify"),
    **dict.fromkeys(("group", "groups", "g"), "group"),
    **dict.fromkeys(("track", "events", "t", "page", "p", "screen", "s"), "track"),
    **dict.fromkeys(("alias", "a"), "alias"),
}


class Refusal(NamedTuple):
    """A refused request, in the order of the table's columns."""

    digest: bytes
    received_at: datetime
    endpoint: str
    kind: str
    status: int
    code: str
    message: str
    field: str
    key_hint: str
    user_agent: str


class _KeyInBody(msgspec.Struct):
    api_key: object = None
    writeKey: object = None  # as Segment's clients spell it


_decode_key = msgspec.json.Decoder(_KeyInBody).decode


def find_key(body: str, headers: Headers) -> str:
    """The key in the header, in the body as far as it can be read, or in the URL; else ""."""
    try:
        call = _decode_key(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        call = _KeyInBody()
    return sdk_key(headers, call.api_key or call.writeKey)


def describe(
    error: IngestionError, key: str, path: str, headers: Mapping[str, object], at: datetime
) -> Refusal:
    """What is kept of a refused request."""
    agent = _UNPRINTABLE.sub("", str(headers.get("HTTP_USER_AGENT", "")))
    endpoint = path.rstrip("/")
    return Refusal(
        digest=credentials.digest(key),
        received_at=at,
        endpoint=endpoint,
        kind=_KINDS.get(endpoint.rpartition("/")[2], ""),
        status=error.status,
        code=error.code,
        message=error.message,
        field=error.field or "",
        key_hint=credentials.hint(key, IngestionKey.PREFIX),
        user_agent=_CREDENTIAL.sub(r"\1…", agent)[:MAX_USER_AGENT],
    )


class Collector:
    """Collects refused requests, and saves them from its own thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._arrived = threading.Event()
        self._thread: threading.Thread | None = None
        self._counts: Counter[tuple[bytes, datetime, str]] = Counter()
        self._samples: dict[tuple[bytes, str], list[Refusal]] = {}
        self._keys: set[bytes] = set()

    def add(self, refusal: Refusal) -> None:
        """Remember the request. Returns at once."""
        with self._lock:
            if refusal.digest not in self._keys and len(self._keys) >= MAX_KEYS:
                return
            self._keys.add(refusal.digest)
            self._counts[refusal.digest, start_of_hour(refusal.received_at), refusal.code] += 1
            samples = self._samples.setdefault((refusal.digest, refusal.code), [])
            samples[:] = [*samples, refusal][-MAX_SAMPLES:]
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="refused-requests", daemon=True
                )
                self._thread.start()
        self._arrived.set()

    def _run(self) -> None:
        while True:
            self._arrived.wait()
            time.sleep(SAVE_DELAY)
            self._arrived.clear()
            try:
                self.save()
            except Error as error:
                logger.warning("Refused requests are not listed: %s", type(error).__name__)
            finally:
                connection.close()

    def save(self) -> None:
        """Save what was collected. What a database error interrupts is lost."""
        with self._lock:
            counts, samples = self._counts, self._samples
            self._counts, self._samples, self._keys = Counter(), {}, set()
        if not counts:
            return
        rows = [refusal for refusals in samples.values() for refusal in refusals]
        with transaction.atomic():
            # Sorted, so that two processes that save for the same products cannot deadlock.
            counted = sorted((*key, number) for key, number in counts.items())
            sql.execute(_COUNT, sql.arrays(counted, "digests", "hours", "codes", "counts"))
            rows.sort(key=lambda refusal: refusal.received_at)
            sql.execute(_SAVE, sql.arrays(rows, *Refusal._fields))
            sql.execute(
                _LIMIT, {"digests": list({row.digest for row in rows}), "keep": KEPT_SAMPLES}
            )


# Requests with a key that no product has, or no longer, are left out.
_COUNT: LiteralString = """
    INSERT INTO ingestion_refusedcount AS c (product_id, hour, code, count)
    SELECT k.product_id, r.hour, r.code, sum(r.count)
    FROM unnest(%(digests)b::bytea[], %(hours)b::timestamptz[], %(codes)b::text[],
                %(counts)b::bigint[]) AS r (digest, hour, code, count)
    JOIN ingestion_ingestionkey k USING (digest)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (product_id, hour, code) DO UPDATE SET count = c.count + EXCLUDED.count
"""
_SAVE: LiteralString = """
    INSERT INTO ingestion_refusedrequest (product_id, received_at, endpoint, kind, status, code,
                                          message, field, key_hint, user_agent)
    SELECT k.product_id, r.received_at, r.endpoint, r.kind, r.status, r.code,
           r.message, r.field, r.key_hint, r.user_agent
    FROM unnest(%(digest)b::bytea[], %(received_at)b::timestamptz[], %(endpoint)b::text[],
                %(kind)b::text[], %(status)b::smallint[], %(code)b::text[], %(message)b::text[],
                %(field)b::text[], %(key_hint)b::text[], %(user_agent)b::text[])
         WITH ORDINALITY AS r (digest, received_at, endpoint, kind, status, code, message, field,
                               key_hint, user_agent, place)
    JOIN ingestion_ingestionkey k USING (digest)
    ORDER BY r.place
"""
# Another process may delete the same rows.
_LIMIT: LiteralString = """
    DELETE FROM ingestion_refusedrequest WHERE id = ANY(ARRAY(
        SELECT id FROM ingestion_refusedrequest WHERE id IN (
            SELECT id FROM (
                SELECT id, row_number() OVER (PARTITION BY product_id, code ORDER BY id DESC) AS n
                FROM ingestion_refusedrequest WHERE product_id IN (
                    SELECT product_id FROM ingestion_ingestionkey
                    WHERE digest = ANY(%(digests)b::bytea[]))) AS numbered
            WHERE n > %(keep)s)
        FOR UPDATE SKIP LOCKED))
"""

_collector = Collector()
add = _collector.add
