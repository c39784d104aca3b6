"""Reads the history of licenses, on request and once: each state that a license had.

Nobody says which requests bring it. The asynchronous export is tried first, in parts by start date;
then pages; then the pages of each license. A way counts if its rows have a day of their own and
some license has several states: a marketplace that ignores the parameter sends one row of each.
What a way brings is written even if it does not count, because each row is a state that was true.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.jobs.kinds import Done, Later, More, Outcome
from core.jobs.shares import time_limit
from marketplace import texts
from marketplace.models import Connection, ReportReading
from marketplace.runs import history_writes
from marketplace.runs.report_positions import Door, Position
from marketplace.runs.report_reading import STEP_SECONDS, Attempt, Source
from marketplace.source.client import LicenseQuery, ReportQuery
from marketplace.source.queries import quarters

# Rows of a way after which it must have shown that it brings histories.
MIN_ROWS: Final = 1_000
# Licenses that are requested one by one, before the marketplace is believed to have no history.
MIN_LICENSES: Final = 200
# Requests for single licenses, and in which time.
REQUESTS_PER_HOUR: Final = 500
HOUR: Final = timedelta(hours=1)
LICENSES_AT_ONCE: Final = 50
MAX_PAGES_OF_LICENSE: Final = 20
# While the ledger is being filled after a full sync, a history waits for it.
FILL_PAUSE: Final = timedelta(minutes=1)


class History(Source):
    """Each state of each license."""

    report = ReportReading.Report.HISTORY
    doors = (Door.EXPORT, Door.PAGES, Door.TEXT)

    def begin(self, reading: ReportReading, connection: Connection, now: datetime) -> Position:
        return Position(connection.generation, now)

    def take_step(self, attempt: Attempt) -> Outcome:
        # States of licenses that the ledger does not know yet would be left out.
        if not history_writes.is_ledger_filled(attempt.connection.product_id):
            return Later(attempt.now + FILL_PAUSE, attempt.cursor)
        return super().take_step(attempt)

    def queries(self, attempt: Attempt) -> Sequence[ReportQuery]:
        query = _query(attempt)
        if attempt.position.door == Door.TEXT:
            return [query]
        return list(quarters(query, attempt.position.began_at.date()))

    def store(self, attempt: Attempt, records: Sequence[msgspec.Raw]) -> int:
        return self._store(attempt, records)

    def end(self, attempt: Attempt) -> Outcome:
        position, product_id = attempt.position, attempt.connection.product_id
        if position.has_several:
            history_writes.mark_complete(product_id, position.began_at)
        ReportReading.objects.filter(pk=attempt.reading.pk).update(
            requested_at=None,
            read_at=position.began_at,
            full_at=position.began_at,
            rows=position.rows,
            problem="",
            note="" if position.has_several else texts.NO_HISTORY,
        )
        return Done()

    def refuse(self, attempt: Attempt) -> Outcome:
        ReportReading.objects.filter(pk=attempt.reading.pk).update(requested_at=None)
        return Done()

    def next_door(self, position: Position) -> bool:
        is_open = super().next_door(position)
        if is_open:
            position.open(position.door, 0)
        return is_open

    def read_part(self, attempt: Attempt, query: ReportQuery) -> Outcome | None:
        position = attempt.position
        if position.door == Door.TEXT:
            return self._read_licenses(attempt)
        outcome = super().read_part(attempt, query)
        is_over = position.part == len(self.queries(attempt))
        if (is_over or position.rows >= MIN_ROWS) and not position.brings_history:
            self.next_door(position)
        return outcome

    def _read_licenses(self, attempt: Attempt) -> Outcome | None:
        """Read the histories of some licenses, those with the latest ends first."""
        position, product_id = attempt.position, attempt.connection.product_id
        if position.hour_at is None or attempt.now - position.hour_at >= HOUR:
            position.hour_at, position.requests = attempt.now, 0
        out_of_time = time_limit(STEP_SECONDS)
        batch = history_writes.next_licenses(product_id, position.after, LICENSES_AT_ONCE)
        is_in_vain = position.licenses >= MIN_LICENSES and not position.shows_history
        if not batch or is_in_vain:
            position.begin_part(1)
            return None
        for place in batch:
            if position.requests >= REQUESTS_PER_HOUR:
                return Later(position.hour_at + HOUR, attempt.cursor)
            self._read_license(attempt, place[1])
            position.after, position.licenses = place, position.licenses + 1
            if out_of_time():
                break
        return More(attempt.cursor, position.licenses, history_writes.count_licenses(product_id))

    def _read_license(self, attempt: Attempt, key: str) -> None:
        """Read the pages of one license, of which others may have the text somewhere, too. Raises
        EndlessList."""
        position, query = attempt.position, replace(_query(attempt), text=key)
        position.begin_part(0)
        for _ in range(MAX_PAGES_OF_LICENSE):
            position.requests += 1
            page = attempt.client.page(attempt.connection.developer_id, query, position.offset)
            if page.records:
                with attempt.writing():
                    position.rows += self._store(attempt, page.records, key)
            position.pass_page(page)
            if position.part:
                break
        position.begin_part(0)

    def _store(
        self, attempt: Attempt, records: Sequence[msgspec.Raw], key: str | None = None
    ) -> int:
        position, connection = attempt.position, attempt.connection
        rows = [
            row
            for row in history_writes.read_rows(records, connection)
            if key is None or row.license.key == key
        ]
        position.has_days |= any(row.has_day for row in rows)
        history_writes.write_rows(connection.product_id, rows, attempt.now)
        position.has_several = position.has_several or history_writes.has_several(
            connection.product_id, {row.license.key for row in rows}
        )
        return len(rows)


def _query(attempt: Attempt) -> LicenseQuery:
    connection = attempt.connection
    return LicenseQuery(
        str(connection.app_product_id),
        includes_staff=connection.includes_staff_licenses,
        # A marketplace may reject requests for them without a start date.
        with_insights=not connection.splits_insights,
        with_history=True,
    )
