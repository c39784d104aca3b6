"""The licenses that a simulator serves, as encoded bytes: pages of many thousands cost little."""

import threading
from collections.abc import Iterable
from datetime import date
from typing import Any, NamedTuple

import msgspec

from marketplace.simulator.records import INSIGHTS, Record

COMMERCIAL = "commercial"


class FeedQuery(NamedTuple):
    """Which licenses somebody asks for. Always free ones and the special clouds are never mixed
    in: each needs a request that names them."""

    product_id: str | None = None
    updated_since: date | None = None
    always_free: bool = False
    boundary: str = COMMERCIAL


class _Row(NamedTuple):
    """An encoded record and what the filters look at; None passes every filter."""

    body: bytes
    product_id: str | None
    updated: str | None
    is_free: bool
    boundaries: frozenset[str] | None

    def answers(self, query: FeedQuery) -> bool:
        since = query.updated_since.isoformat() if query.updated_since else None
        return (
            (query.product_id is None or self.product_id in (None, query.product_id))
            and (since is None or self.updated is None or self.updated >= since)
            and self.is_free == query.always_free
            and (self.boundaries is None or query.boundary in self.boundaries)
        )


class Feed:
    """Licenses in the order in which they are served. Safe to change while it is read."""

    def __init__(self, records: Iterable[Any]) -> None:
        self._rows = [_row(record) for record in records]
        self._answers: dict[FeedQuery, list[bytes]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def matching(self, query: FeedQuery) -> list[bytes]:
        """The encoded records that the query asks for."""
        with self._lock:
            if query not in self._answers:
                self._answers[query] = [row.body for row in self._rows if row.answers(query)]
            return self._answers[query]

    def add(self, *records: Any, at: int | None = None, leaks: bool = False) -> None:
        """Serve more records, from a place on or at the end; leaking ones pass every filter. Bytes
        are served as they are."""
        rows = [_row(record) for record in records]
        if leaks:
            rows = [_Row(row.body, None, None, False, None) for row in rows]
        place = len(self._rows) if at is None else at
        self._replace([*self._rows[:place], *rows, *self._rows[place:]])

    def change(self, place: int, **fields: Any) -> Record:
        """Give the record at the place other values; what it is now."""
        record: Record = {**msgspec.json.decode(self._rows[place].body), **fields}
        self._replace([*self._rows[:place], _row(record), *self._rows[place + 1 :]])
        return record

    def touch(self, number: int, today: date, **fields: Any) -> list[Record]:
        """Change the first records as the marketplace does: they were last updated today."""
        return [
            self.change(place, lastUpdated=today.isoformat(), **fields)
            for place in range(min(number, len(self)))
        ]

    def remove(self, place: int) -> None:
        self._replace([*self._rows[:place], *self._rows[place + 1 :]])

    def _replace(self, rows: list[_Row]) -> None:
        with self._lock:
            self._rows = rows
            self._answers = {}


def without_insights(body: bytes) -> bytes:
    """The encoded record as it is served to whoever does not ask for data insights."""
    try:
        record = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return body
    if not isinstance(record, dict):
        return body
    return msgspec.json.encode({k: v for k, v in record.items() if k not in INSIGHTS})


def _row(record: Any) -> _Row:
    if isinstance(record, bytes):
        return _Row(record, None, None, False, frozenset({COMMERCIAL}))
    body = msgspec.json.encode(record)
    fields = record if isinstance(record, dict) else {}
    boundaries = fields.get("cloudComplianceBoundaries")
    return _Row(
        body,
        _text(fields.get("productId")),
        _text(fields.get("lastUpdated")),
        fields.get("licenseType") == "FREE",
        frozenset(boundaries) if isinstance(boundaries, list) else None,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
