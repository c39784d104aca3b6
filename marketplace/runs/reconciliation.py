"""Compares the ledger's events with those that the marketplace counts.

The marketplace counts by definitions of its own, which differ between its reports, so its numbers
are shown beside ours and never change the ledger.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum
from typing import Final, NamedTuple

from marketplace.licenses.report_rows import MetricRow, read_metric
from marketplace.models import Connection
from marketplace.runs.report_positions import Door, Position
from marketplace.source.client import MarketplaceClient, RowsQuery

# Days between our date and theirs: the same event, first if it is near, then if it may be.
WINDOWS: Final = (3, 31)


class Metric(StrEnum):
    """A report of the marketplace that counts events."""

    CHURN = "churn"
    CONVERSION = "conversion"
    RENEWAL = "renewal"


class CountedEvent(NamedTuple):
    """An event of a license on a day, as either side counts it."""

    license: str
    date: date


class Matching(NamedTuple):
    """The events that both sides have, ours first, and those that only one has."""

    pairs: list[tuple[CountedEvent, CountedEvent]]
    only_ours: list[CountedEvent]
    only_theirs: list[CountedEvent]


class MonthCounts(NamedTuple):
    """The events of a month, by its first day. Each side's are in the months of its own dates."""

    month: date
    ours: int
    theirs: int

    @property
    def difference(self) -> int:
        return self.ours - self.theirs


def read_metric_events(
    client: MarketplaceClient, connection: Connection, metric: Metric, first: date, last: date
) -> Iterator[MetricRow]:
    """The marketplace's events between two days, both included. Raises a MarketplaceError."""
    app = str(connection.app_product_id)
    query = RowsQuery(f"sales/metrics/{metric}/details", "events", app, first, last)
    position = Position(connection.generation, connection.created_at, door=Door.PAGES)
    while position.part == 0:
        page = client.page(connection.developer_id, query, position.offset)
        rows = (read_metric(record, app) for record in page.records)
        # The marketplace's own filters are not relied on.
        yield from (row for row in rows if row is not None and first <= row.day <= last)
        position.pass_page(page)


def count_theirs(rows: Sequence[MetricRow], licenses: Mapping[str, str]) -> list[CountedEvent]:
    """The marketplace's events, each once. *licenses* are the ledger's by their names; a license
    that it does not know goes by the first name of the row."""
    events = {
        CountedEvent(
            next((licenses[name] for name in row.names if name in licenses), row.names[0]),
            row.day,
        )
        for row in rows
    }
    return sorted(events)


def match(ours: Sequence[CountedEvent], theirs: Sequence[CountedEvent]) -> Matching:
    """Match the events of the same license whose dates are close, the closest first."""
    unmatched: list[set[int]] = [set(range(len(ours))), set(range(len(theirs)))]
    pairs = []
    for window in WINDOWS:
        for own, other in _close(ours, theirs, window):
            if own in unmatched[0] and other in unmatched[1]:
                unmatched[0].remove(own)
                unmatched[1].remove(other)
                pairs.append((ours[own], theirs[other]))
    return Matching(
        sorted(pairs),
        sorted(ours[place] for place in unmatched[0]),
        sorted(theirs[place] for place in unmatched[1]),
    )


def _close(
    ours: Sequence[CountedEvent], theirs: Sequence[CountedEvent], window: int
) -> list[tuple[int, int]]:
    """The places of each two events that may be the same, the closest first."""
    by_license: dict[str, list[int]] = defaultdict(list)
    for place, event in enumerate(theirs):
        by_license[event.license].append(place)
    distances = (
        (abs((event.date - theirs[other].date).days), own, other)
        for own, event in enumerate(ours)
        for other in by_license[event.license]
    )
    return [(own, other) for days, own, other in sorted(distances) if days <= window]


def count_by_month(
    ours: Sequence[CountedEvent], theirs: Sequence[CountedEvent]
) -> list[MonthCounts]:
    """The counts of each month in which either side has events, in their order."""
    own, other = (
        Counter(event.date.replace(day=1) for event in events) for events in (ours, theirs)
    )
    return [MonthCounts(month, own[month], other[month]) for month in sorted(own | other)]
