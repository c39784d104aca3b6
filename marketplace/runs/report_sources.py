"""The reports that are read for the ledger, and the jobs that read them.

They are jobs of their own, because they take turns of seconds and none of them is urgent: a lease
that rests for minutes after a crash does no harm, unlike with a sync.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Final, TypeVar

import msgspec

from core.database import clocks
from core.jobs import kinds
from core.jobs import run as jobs
from core.jobs.backoff import Backoff
from core.jobs.kinds import Done, Later, Outcome
from core.models import Job
from marketplace.ledger import monthly
from marketplace.licenses import report_rows
from marketplace.models import Connection, ReportReading
from marketplace.runs import report_reading, report_writes
from marketplace.runs.history import History
from marketplace.runs.report_positions import Door, Position
from marketplace.runs.report_reading import LEASE, REFUSAL_PAUSE, Attempt, Source
from marketplace.source.client import ReportQuery, RowsQuery
from marketplace.source.errors import MarketplaceError

Report = ReportReading.Report
Row = TypeVar("Row")

QUEUE: Final = "marketplace reports"
# What the marketplace counts itself.
METRICS: Final = (Report.CHURN, Report.CONVERSION, Report.RENEWAL)
KINDS: Final = {
    Report.TRANSACTIONS: "read transactions",
    Report.FEEDBACK: "read feedback",
    Report.CHURN: "read counts of churn",
    Report.CONVERSION: "read counts of conversions",
    Report.RENEWAL: "read counts of renewals",
    Report.HISTORY: "read the history of licenses",
}
CHECK_KIND: Final = "check reports"
_LABELS: Final = {
    Report.TRANSACTIONS: "Reads the transactions of marketplace connections.",
    Report.FEEDBACK: "Reads why customers left, for marketplace connections.",
    **{
        report: f"Reads what the marketplace counts as {report}, to compare it with the ledger."
        for report in METRICS
    },
    Report.HISTORY: "Reads the history of the licenses of a marketplace connection.",
}
BACKOFF: Final = Backoff(timedelta(minutes=10), 2, timedelta(hours=6))
# The reports of the marketplace are made once a day.
INTERVAL: Final = timedelta(hours=12)
CHECK_INTERVAL: Final = timedelta(days=1)
FULL_INTERVAL: Final = timedelta(days=30)
# Lines change later, and reports lag behind.
UPDATED_WINDOW: Final = timedelta(days=5)
FIRST_YEAR: Final = 2018
FEEDBACK_WINDOW, FIRST_FEEDBACK_WINDOW = timedelta(days=14), timedelta(days=400)
# Months before the present one whose counts are read, and how long after its month one may change.
METRIC_MONTHS: Final = 12
METRIC_WINDOW: Final = timedelta(days=31)
# A part of each report's address, by which the marketplace's list of reports is searched.
_ADDRESSES: Final = {
    Report.TRANSACTIONS: "/sales/transactions",
    Report.FEEDBACK: "/feedback",
    **{report: f"/sales/metrics/{report}" for report in METRICS},
}


class Transactions(Source):
    """The lines of orders: all of them once a month, and those that changed in between."""

    report = Report.TRANSACTIONS

    def begin(self, reading: ReportReading, connection: Connection, now: datetime) -> Position:
        is_full = _is_full_due(reading, now)
        door = Door.EXPORT if is_full else Door.PAGES
        return Position(connection.generation, now, is_full, door)

    def queries(self, attempt: Attempt) -> Sequence[ReportQuery]:
        position, connection = attempt.position, attempt.connection
        make_query = partial(
            RowsQuery, "sales/transactions", "transactions", str(connection.app_product_id)
        )
        if not position.is_full:
            read_at = attempt.reading.read_at or position.began_at
            return [make_query(updated_since=_utc_day(read_at - UPDATED_WINDOW))]
        return [
            make_query(first_day=first, last_day=last)
            for first, last in _years(_utc_day(position.began_at))
        ]

    def store(self, attempt: Attempt, records: Sequence[msgspec.Raw]) -> int:
        return _store(
            attempt, records, report_rows.read_transaction, report_writes.write_transactions
        )

    def end(self, attempt: Attempt) -> Outcome:
        return note_success(attempt)


class Feedback(Source):
    """Why customers left, as they chose from a list; without what they wrote."""

    report = Report.FEEDBACK
    doors = (Door.PAGES,)

    def begin(self, reading: ReportReading, connection: Connection, now: datetime) -> Position:
        return Position(connection.generation, now, reading.read_at is None, Door.PAGES)

    def queries(self, attempt: Attempt) -> Sequence[ReportQuery]:
        read_at, began_at = attempt.reading.read_at, attempt.position.began_at
        first = read_at - FEEDBACK_WINDOW if read_at else began_at - FIRST_FEEDBACK_WINDOW
        app = str(attempt.connection.app_product_id)
        return [RowsQuery("feedback/details", "feedback", app, first_day=_utc_day(first))]

    def store(self, attempt: Attempt, records: Sequence[msgspec.Raw]) -> int:
        return _store(attempt, records, report_rows.read_feedback, report_writes.write_feedback)

    def end(self, attempt: Attempt) -> Outcome:
        return note_success(attempt)


class Metric(Source):
    """What the marketplace counts as a churn, a conversion, or a renewal: a year of it once a
    month, and the months that may still change in between. Nothing but the page that compares it
    with the ledger reads it."""

    doors = (Door.PAGES,)

    def __init__(self, report: Report) -> None:
        self.report = report

    def begin(self, reading: ReportReading, connection: Connection, now: datetime) -> Position:
        return Position(connection.generation, now, _is_full_due(reading, now), door=Door.PAGES)

    def queries(self, attempt: Attempt) -> Sequence[ReportQuery]:
        path, app = f"sales/metrics/{self.report}/details", str(attempt.connection.app_product_id)
        return [
            RowsQuery(path, "events", app, first_day=first, last_day=last)
            for first, last in self._months(attempt)
        ]

    def store(self, attempt: Attempt, records: Sequence[msgspec.Raw]) -> int:
        connection, position = attempt.connection, attempt.position
        first, last = self._months(attempt)[position.part]
        app = str(connection.app_product_id)
        rows = (report_rows.read_metric(record, app) for record in records)
        # The marketplace's own filters are not relied on.
        usable = [row for row in rows if row is not None and first <= row.day <= last]
        report_writes.write_metric(
            connection.product_id, self.report.value, usable, position.began_at
        )
        return len(usable)

    def end(self, attempt: Attempt) -> Outcome:
        (first, _), position = self._months(attempt)[0], attempt.position
        product_id, metric = attempt.connection.product_id, self.report.value
        report_writes.drop_uncounted(product_id, metric, first, position.is_full, position.began_at)
        return note_success(attempt)

    @staticmethod
    def _months(attempt: Attempt) -> list[tuple[date, date]]:
        """The first and last days of the months that are read."""
        position, read_at = attempt.position, attempt.reading.read_at
        this_month = _utc_day(position.began_at).replace(day=1)
        if position.is_full or read_at is None:
            number = METRIC_MONTHS
        else:
            since = _utc_day(read_at - METRIC_WINDOW)
            number = 12 * (this_month.year - since.year) + this_month.month - since.month
        firsts = (monthly.months_before(this_month, back) for back in range(number, -2, -1))
        return [(first, until - timedelta(days=1)) for first, until in pairwise(firsts)]


def _is_full_due(reading: ReportReading, now: datetime) -> bool:
    return reading.full_at is None or now - reading.full_at >= FULL_INTERVAL


def _store(
    attempt: Attempt,
    records: Sequence[msgspec.Raw],
    read: Callable[[msgspec.Raw, str], Row | None],
    write: Callable[[int, Sequence[Row], datetime], None],
) -> int:
    """Write the records of the connection's app; return how many are usable."""
    app = str(attempt.connection.app_product_id)
    rows = [row for record in records if (row := read(record, app))]
    write(attempt.connection.product_id, rows, attempt.now)
    return len(rows)


def note_success(attempt: Attempt) -> Outcome:
    """Note that the report was read, in the caller's transaction."""
    position, reading = attempt.position, attempt.reading
    values = {"read_at": position.began_at, "rows": position.rows, "problem": "", "note": ""}
    if position.is_full:
        values["full_at"] = position.began_at
    ReportReading.objects.filter(pk=reading.pk).update(**values)
    return Later(position.began_at + INTERVAL)


def _years(today: date) -> Iterable[tuple[date | None, date | None]]:
    """The years of sales. Those of the last one may lie in the future, because they may be due
    dates."""
    yield None, date(FIRST_YEAR - 1, 12, 31)
    for year in range(FIRST_YEAR, today.year):
        yield date(year, 1, 1), date(year, 12, 31)
    yield date(today.year, 1, 1), None


def _utc_day(at: datetime) -> date:
    return at.astimezone(UTC).date()


# --- What the account may read --------------------------------------------------------------


def check_reports(job: Job, now: datetime) -> Outcome:
    """Note which reports the marketplace lists for the connection's account.

    It may list what it refuses, and the other way round, so nothing depends on it but a sentence.
    """
    connection = report_reading.find_active(int(job.key))
    if connection is None:
        return Done()
    try:
        client = report_reading.client_of(connection)
        addresses = client.listed_reports(connection.developer_id)
    except MarketplaceError:
        return Later(now + REFUSAL_PAUSE)
    for report, part in _ADDRESSES.items():
        is_listed = any(part in address for address in addresses) if addresses else None
        ReportReading.objects.update_or_create(
            {"is_listed": is_listed}, connection=connection, report=report
        )
    return Later(now + CHECK_INTERVAL)


# --- Jobs -----------------------------------------------------------------------------------


def register() -> None:
    """Have workers read the reports of active connections, after their first sync."""
    kinds.register(
        CHECK_KIND,
        "Checks which reports marketplace connections may read.",
        queue=QUEUE,
        step=check_reports,
        keys=_synced_ids,
        lease=LEASE,
        backoff=BACKOFF,
        title=_title,
    )
    for source in (Transactions(), Feedback(), *map(Metric, METRICS), History()):
        is_on_request = source.report == Report.HISTORY
        kinds.register(
            KINDS[source.report],
            _LABELS[source.report],
            queue=QUEUE,
            step=partial(report_reading.read_next, source),
            keys=_requested_ids if is_on_request else _synced_ids,
            lease=LEASE,
            backoff=BACKOFF,
            title=_title,
        )
    times = dict.fromkeys(("requested_at", "read_at", "full_at", "failed_at"), clocks.NOW)
    clocks.register(ReportReading, times)


def _synced_ids() -> list[int]:
    synced = Connection.objects.filter(
        state=Connection.State.ACTIVE,
        full_synced_at__isnull=False,
        product__deletion_requested_at=None,
    )
    return list(synced.order_by("pk").values_list("pk", flat=True))


def _requested_ids() -> list[int]:
    requested = ReportReading.objects.filter(report=Report.HISTORY, requested_at__isnull=False)
    ids = requested.order_by("requested_at").values_list("connection_id", flat=True)
    synced = set(_synced_ids())
    return [pk for pk in ids if pk in synced]


def _title(connection_id: int) -> str:
    connection = Connection.objects.filter(pk=connection_id).select_related("product").first()
    return str(connection) if connection else f"connection {connection_id}"


def request_history(connection: Connection, now: datetime) -> None:
    """Have the connection's history be read, from its beginning."""
    ReportReading.objects.update_or_create(
        {"requested_at": now}, connection=connection, report=Report.HISTORY
    )
    jobs.request(KINDS[Report.HISTORY], now, connection.pk)
