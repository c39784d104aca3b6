"""The licenses that a simulator serves, kept as encoded JSON so that large feeds are fast."""

import threading
from collections.abc import Iterable
from datetime import date
from typing import Any, NamedTuple

import msgspec

from harness.marketplace.records import INSIGHTS, Record

COMMERCIAL = "commercial"


class FeedQuery(NamedTuple):
    """A list of licenses. Always free licenses and those of each special cloud are lists of their
    own."""

    product_id: str | None = None
    updated_since: date | None = None
    always_free: bool = False
    boundary: str = COMMERCIAL
    first_day: date | None = None
    last_day: date | None = None
    with_staff: bool = False


class _Row(NamedTuple):
    """An encoded record and the values for the filters; None passes every filter."""

    body: bytes
    product_id: str | None
    updated: str | None
    is_free: bool
    boundaries: frozenset[str] | None
    started: str | None = None
    # A license of the marketplace's own staff.
    is_staff: bool = False

    def matches(self, query: FeedQuery) -> bool:
        since = query.updated_since.isoformat() if query.updated_since else None
        return (
            (query.product_id is None or self.product_id in (None, query.product_id))
            and (since is None or self.updated is None or self.updated >= since)
            and self.is_free == query.always_free
            and (query.with_staff or not self.is_staff)
            and (self.boundaries is None or query.boundary in self.boundaries)
            and self._started_within(query)
        )

    def _started_within(self, query: FeedQuery) -> bool:
        """A license without a start counts as an old one."""
        started = self.started or ""
        return (query.first_day is None or started >= query.first_day.isoformat()) and (
            query.last_day is None or started <= query.last_day.isoformat()
        )


class Feed:
    """Licenses in the order of the feed. Safe to change while requests read it."""

    def __init__(self, records: Iterable[Any]) -> None:
        self._rows = [_row(record) for record in records]
        self._rows_by_query: dict[FeedQuery, list[bytes]] = {}
        # What requests see while the reports are delayed.
        self._held_rows: list[_Row] | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def matching(self, query: FeedQuery) -> list[bytes]:
        """The encoded records of the query."""
        with self._lock:
            if query not in self._rows_by_query:
                rows = self._rows if self._held_rows is None else self._held_rows
                self._rows_by_query[query] = [row.body for row in rows if row.matches(query)]
            return self._rows_by_query[query]

    def add(self, *records: Any, at: int | None = None, leaks: bool = False) -> None:
        """Add records at an index or at the end. With *leaks* they pass every filter. Bytes are
        served unchanged."""
        rows = [_row(record) for record in records]
        if leaks:
            rows = [_Row(row.body, None, None, False, None) for row in rows]
        index = len(self._rows) if at is None else at
        self._replace([*self._rows[:index], *rows, *self._rows[index:]])

    def change(self, index: int, **fields: Any) -> Record:
        """Change fields of the record at the index, and return the record."""
        record: Record = {**msgspec.json.decode(self._rows[index].body), **fields}
        self._replace([*self._rows[:index], _row(record), *self._rows[index + 1 :]])
        return record

    def touch(self, number: int, today: date, **fields: Any) -> list[Record]:
        """Change fields of the first records and set their last update to today."""
        return [
            self.change(index, lastUpdated=today.isoformat(), **fields)
            for index in range(min(number, len(self)))
        ]

    def hold(self) -> None:
        """Let requests see the records as they are now, whatever changes."""
        with self._lock:
            self._held_rows = self._rows

    def release(self) -> None:
        with self._lock:
            self._held_rows = None
            self._rows_by_query = {}

    def replace(self, records: Iterable[Any]) -> None:
        """Serve these records, and no others."""
        self._replace([_row(record) for record in records])

    def remove(self, index: int) -> None:
        self._replace([*self._rows[:index], *self._rows[index + 1 :]])

    def _replace(self, rows: list[_Row]) -> None:
        with self._lock:
            self._rows = rows
            self._rows_by_query = {}


def without_insights(body: bytes) -> bytes:
    """The encoded record without the fields that only requests with data insights get."""
    try:
        record = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return body
    if not isinstance(record, dict):
        return body
    return msgspec.json.encode(
        {name: value for name, value in record.items() if name not in INSIGHTS}
    )


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
        _text(fields.get("maintenanceStartDate")),
        fields.get("licenseSourceType") == "Atlassian",
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
