"""Where the reading of a report is, and how the marketplace is asked for it."""

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from marketplace.licenses.conversion import fingerprint
from marketplace.source.client import PAGE_SIZE
from marketplace.source.errors import EndlessList
from marketplace.source.pages import ReportPage

# More than any report has: a longer list does not end.
MAX_ROWS: Final = 3_000_000
# Empty pages in a row, though a link leads on, after which a list is over.
MAX_EMPTY_PAGES: Final = 3
# How often a page may come again before the list is taken for a circle.
MAX_PAGE_REPEATS: Final = 2


class Door(StrEnum):
    """How a report is requested: as an export, page by page, or license by license."""

    EXPORT = "export"
    PAGES = "pages"
    TEXT = "text"


class Marker(msgspec.Struct):
    """A page, to recognize it if it comes again. After ``limit`` others, the next one is marked for
    twice as long (Brent's algorithm)."""

    fingerprint: str
    limit: int = 1
    pages: int = 0
    repeats: int = 0


class Position(msgspec.Struct):
    """A reading's position, as its job's cursor. It began at ``began_at`` with the connection's
    details of this ``generation``.

    The next rows are at ``offset`` of the list ``part``, or in its export. ``rows`` counts those
    that were usable.
    """

    generation: int
    began_at: datetime
    is_full: bool = True
    door: Door = Door.EXPORT
    part: int = 0
    offset: int = 0
    export_id: str = ""
    exported_at: datetime | None = None
    rows: int = 0
    empty_pages: int = 0
    marker: Marker | None = None
    # Of a history: whether its rows have a day of their own, and some license has several states.
    has_days: bool = False
    has_several: bool = False
    # License by license: after which one, how many, and the requests since a time.
    after: tuple[str, str] | None = None
    licenses: int = 0
    hour_at: datetime | None = None
    requests: int = 0

    def begin_part(self, part: int) -> None:
        self.part, self.offset, self.empty_pages, self.marker = part, 0, 0, None
        self.export_id, self.exported_at = "", None

    def open(self, door: Door, part: int) -> None:
        """Go on at the beginning of the part in another way, which counts its own rows."""
        self.door = door
        self.begin_part(part)
        self.rows, self.has_days, self.has_several = 0, False, False

    @property
    def shows_history(self) -> bool:
        """Whether something in the rows is more than the present states."""
        return self.has_days or self.has_several

    @property
    def brings_history(self) -> bool:
        return self.has_days and self.has_several

    def pass_page(self, page: ReportPage) -> None:
        """Go on after the page. Raises EndlessList."""
        self._mark(page)
        self.empty_pages = 0 if page.records else self.empty_pages + 1
        if not page.has_more or self.empty_pages >= MAX_EMPTY_PAGES:
            self.begin_part(self.part + 1)
            return
        # A page may be shorter than requested, and an empty one may precede others.
        self.offset += len(page.records) or PAGE_SIZE
        if self.offset > MAX_ROWS:
            raise EndlessList

    def _mark(self, page: ReportPage) -> None:
        """Raise EndlessList if the list goes round in a circle."""
        if not page.records:
            return
        own = fingerprint(b"".join(bytes(record) for record in page.records))
        marker = self.marker = self.marker or Marker("")
        marker.repeats += own == marker.fingerprint
        marker.pages += 1
        if marker.repeats > MAX_PAGE_REPEATS:
            raise EndlessList
        if marker.pages >= marker.limit:
            self.marker = Marker(own, 2 * marker.limit)
