"""Reads a run's lists, page by page or as exports."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from marketplace.licenses import conversion
from marketplace.licenses.conversion import ParsedRecord
from marketplace.models import SyncRun
from marketplace.runs.progress import Position
from marketplace.source.client import PAGE_SIZE, LicenseQuery, MarketplaceClient
from marketplace.source.errors import (
    ExportPending,
    MarketplaceBadRequest,
    MarketplaceError,
    MarketplaceForbidden,
    MarketplaceNotFound,
)
from marketplace.source.pages import ReportPage

# Empty pages in a row, though a link leads on, after which a list is over.
MAX_EMPTY_PAGES: Final = 3
# Requests for the export of one list, if exports disappear.
MAX_EXPORT_REQUESTS: Final = 3
MAX_EXPORT_WAIT: Final = timedelta(hours=2)


class ParsedPage(NamedTuple):
    """A page of a list: each record's fingerprint and content, whether another page follows in the
    list, and the positions of the page and after it.

    ``refusal`` says why the list is left out. ``total`` is the list's length by the marketplace.
    ``is_cut`` means that the list ended although a link leads on.
    """

    list_name: str
    records: list[tuple[str, ParsedRecord]]
    has_more: bool
    at: Position
    after: Position
    refusal: MarketplaceError | None = None
    total: int | None = None
    is_cut: bool = False

    @property
    def ends_list(self) -> bool:
        """Whether the list has been read once to its end."""
        return not self.has_more and not self.at.is_closing and self.refusal is None

    @property
    def end(self) -> int:
        """The number of rows up to the end of this page, without empty pages at the end."""
        empty = (MAX_EMPTY_PAGES - 1) * PAGE_SIZE if self.is_cut else 0
        return max(self.at.offset - empty, 0) + len(self.records)

    @property
    def fingerprint(self) -> str:
        """Identifies the page's content."""
        return conversion.fingerprint("".join(key for key, _ in self.records).encode())


@dataclass(frozen=True)
class RunLists:
    """The lists of a run, and the client to read them with."""

    client: MarketplaceClient
    developer_id: str
    product_id: str
    kind: str
    queries: Sequence[LicenseQuery]

    def is_end(self, position: Position) -> bool:
        return position.pass_number == len(self.queries)

    def parse(self, records: Sequence[msgspec.Raw]) -> list[tuple[str, ParsedRecord]]:
        return conversion.parse_records(records, self.product_id)

    def refused_page(self, position: Position, refusal: MarketplaceError) -> ParsedPage:
        """An empty page that skips the list; raises the refusal if it must not be skipped.

        Only special clouds may be forbidden: they need permissions of their own.
        """
        query = self.queries[position.pass_number]
        is_forbidden = isinstance(refusal, MarketplaceForbidden)
        if query.list_name == "all" or (is_forbidden and query.boundary is None):
            raise refusal
        next_pass = position.pass_number
        while not self.is_end(Position(next_pass, 0)) and (
            self.queries[next_pass].list_name == query.list_name
        ):
            next_pass += 1
        after = Position(next_pass, 0)
        return ParsedPage(query.list_name, [], False, position, after, refusal)


# --- Page by page ---------------------------------------------------------------------------


@dataclass
class PageReader:
    """Reads lists page by page. Raises what its client raises."""

    lists: RunLists
    _empty_pages: int = 0

    def read(self, position: Position) -> ParsedPage:
        query = self.lists.queries[position.pass_number]
        try:
            page = self.lists.client.licenses(self.lists.developer_id, query, position.offset)
        except (MarketplaceBadRequest, MarketplaceForbidden) as refusal:
            return self.lists.refused_page(position, refusal)
        records = self.lists.parse(page.records)
        self._empty_pages = 0 if records else self._empty_pages + 1
        is_cut = page.has_more and self._empty_pages >= MAX_EMPTY_PAGES
        has_more = page.has_more and not is_cut
        after = self._after(position, page, has_more)
        return ParsedPage(
            *(query.list_name, records, has_more, position, after),
            total=page.total,
            is_cut=is_cut,
        )

    def _after(self, position: Position, page: ReportPage, has_more: bool) -> Position:
        if has_more:
            # A page may be shorter than requested. An empty one may precede others.
            return position._replace(offset=position.offset + (len(page.records) or PAGE_SIZE))
        is_full = self.lists.kind != SyncRun.Kind.RECENT
        if is_full and position.offset > 0 and not position.is_closing:
            # Rows that moved forward in the meantime are now on the page before the last.
            return Position(position.pass_number, max(position.offset - PAGE_SIZE, 0), True)
        return Position(position.pass_number + 1, 0)

    def next_position(self, page: ParsedPage) -> Position | None:
        return None if self.lists.is_end(page.after) else page.after

    def close(self) -> None:
        """Nothing is open between two pages."""


# --- Exports --------------------------------------------------------------------------------


@dataclass
class ExportReader:
    """Reads the completed export of one list in portions. Raises what its client raises."""

    lists: RunLists
    export_id: str
    _records: Generator[msgspec.Raw, None, None] | None = field(default=None)

    def read(self, position: Position) -> ParsedPage:
        list_name = self.lists.queries[position.pass_number].list_name
        try:
            portion = list(islice(self._open(position.offset), PAGE_SIZE))
        except MarketplaceNotFound:
            raise ExportPending from None
        has_more = len(portion) == PAGE_SIZE
        after = position._replace(offset=position.offset + len(portion))
        if not has_more:
            after = Position(position.pass_number + 1, 0)
        return ParsedPage(list_name, self.lists.parse(portion), has_more, position, after)

    def _open(self, offset: int) -> Iterator[msgspec.Raw]:
        """The records that were not read yet: all after the first *offset* ones."""
        if self._records is None:
            client, developer_id = self.lists.client, self.lists.developer_id
            self._records = client.export_records(developer_id, self.export_id)
            for _ in islice(self._records, offset):
                pass
        return self._records

    def next_position(self, page: ParsedPage) -> Position | None:
        """None at the end of the list: the next one is another export."""
        return page.after if page.has_more else None

    def close(self) -> None:
        """Stop receiving the export."""
        if self._records is not None:
            self._records.close()
