"""Pages of a ranked list, found by position: page 10,000 costs what page 1 costs.

A cursor holds the ordering columns of the row that a page begins after (or ends before). The
database goes straight to that row in the index, and a row that did not move neither repeats nor
disappears when others do. A cursor is valid for one score set: an edited workspace has other
scores, so the same position is another row there.

DRF's CursorPagination cannot do this. It keeps the first ordering column and an offset among equal
values, up to 1,000, and most users share the score 0: past the cutoff it repeats rows.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec
from django.db.models import F, Model, QuerySet
from django.db.models.fields.tuple_lookups import Tuple, TupleGreaterThan, TupleLessThan

from readapi import codec, parameters
from readapi.errors import InvalidRequest
from readapi.parameters import MAX_INTEGER, Parameters
from readapi.records import Pagination

CURSOR_VERSION = 2
_Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]

Row = TypeVar("Row", bound=Model)


class Cursor(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A position in one list: after the row at ``position`` or, backwards, before it.

    ``list_name`` identifies the list, because a cursor is invalid in any other. ``score_set`` is
    the set that ranks the list, or 0 if none does. ``offset`` is the number of rows before the
    position when the cursor was made; it is only displayed.
    """

    list_name: str
    score_set: _Number
    position: tuple[_Number, ...]
    backwards: bool
    offset: _Number

    def encode(self) -> str:
        return codec.pack(self, CURSOR_VERSION)

    @classmethod
    def decode(cls, text: str, list_name: str, columns: int, field: str = "cursor") -> "Cursor":
        """The cursor that ``encode`` turned into *text*; raises InvalidRequest for other texts."""
        cursor = codec.unpack(text, cls, CURSOR_VERSION)
        if cursor is None or cursor.list_name != list_name or len(cursor.position) != columns:
            raise InvalidRequest(
                "invalid_cursor",
                f"{field} is invalid for this list, or from before an upgrade. Start at the first "
                "page, and use its links unchanged.",
                field,
            )
        return cursor


@dataclass(frozen=True)
class Order:
    """A total order that an index provides. All columns ascend, or all descend."""

    columns: tuple[str, ...]
    descending: bool = False

    def sort(self, rows: QuerySet[Row], *, backwards: bool = False) -> QuerySet[Row]:
        sign = "-" if self.descending != backwards else ""
        return rows.order_by(*(sign + column for column in self.columns))

    def rows_after(
        self, rows: QuerySet[Row], position: tuple[int, ...], *, backwards: bool
    ) -> QuerySet[Row]:
        """The rows after *position*, or before it if *backwards*, as one range of the index."""
        compare = TupleLessThan if self.descending != backwards else TupleGreaterThan
        return rows.filter(compare(Tuple(*(F(column) for column in self.columns)), position))

    def position(self, row: Model) -> tuple[int, ...]:
        return tuple(getattr(row, column) for column in self.columns)


@dataclass(frozen=True)
class ComputedOrder(Order):
    """The order of a list that is computed as a whole; *place* is the position of a row."""

    place: Callable[[Any], tuple[int, ...]] = attrgetter("position")

    def sort(self, rows: Any, *, backwards: bool = False) -> Any:
        return rows[::-1] if backwards else rows

    def rows_after(self, rows: Any, position: tuple[int, ...], *, backwards: bool) -> Any:
        follows = operator.lt if self.descending != backwards else operator.gt
        return [row for row in rows if follows(self.place(row), position)]

    def position(self, row: Any) -> tuple[int, ...]:
        return self.place(row)


@dataclass(frozen=True)
class PageRequest:
    """The page that a request asks for, by cursor or by offset."""

    list_name: str
    limit: int
    offset: int
    cursor: Cursor | None
    score_set: int = 0

    def with_score_set(self, score_set: int | None) -> "PageRequest":
        """The same page of a list that this score set ranks."""
        return replace(self, score_set=score_set or 0)

    def cursor_at(self, position: tuple[int, ...], offset: int, *, backwards: bool) -> str:
        """A cursor for this list."""
        return Cursor(self.list_name, self.score_set, position, backwards, offset).encode()


@dataclass(frozen=True)
class ResultPage(Generic[Row]):
    """One page. ``next`` and ``prev`` hold the parameters of the adjacent pages, if any."""

    rows: list[Row]
    limit: int
    offset: int
    next: Mapping[str, str] | None = None
    prev: Mapping[str, str] | None = None


class Total(NamedTuple):
    """The number of records of a list, or None if counting takes too long. ``counted_at`` is the
    time of a cached number."""

    number: int | None
    counted_at: str | None = None


def parse_page_request(
    query: Parameters, list_name: str, order: Order, max_limit: int = parameters.MAX_LIMIT
) -> PageRequest:
    """The page of the list *list_name* that the parameters ask for."""
    limit = parameters.limit(query, max_limit)
    if "cursor" not in query:
        return PageRequest(list_name, limit, parameters.offset(query), None)
    if "offset" in query:
        raise InvalidRequest("invalid_offset", "Use either offset or cursor, not both.", "offset")
    cursor = Cursor.decode(query["cursor"], list_name, len(order.columns))
    return PageRequest(list_name, limit, cursor.offset, cursor)


def paginate(rows: QuerySet[Row], order: Order, request: PageRequest) -> ResultPage[Row]:
    """The requested page of *rows* in *order*, by one query that does not count."""
    if request.cursor is None:
        return _forward(order.sort(rows)[request.offset :], order, request)
    require_current(request)
    rows = order.rows_after(rows, request.cursor.position, backwards=request.cursor.backwards)
    if request.cursor.backwards:
        return _backward(order.sort(rows, backwards=True), order, request)
    return _forward(order.sort(rows), order, request)


def require_current(request: PageRequest) -> None:
    """Raise InvalidRequest for a cursor from before an edit of the workspace."""
    if request.cursor is not None and request.cursor.score_set != request.score_set:
        raise InvalidRequest(
            "invalid_cursor",
            "The workspace was edited and rescored after this cursor was made. "
            "Start again from the first page, without a cursor.",
            "cursor",
        )


def _forward(rows: QuerySet[Row], order: Order, request: PageRequest) -> ResultPage[Row]:
    # One row more than the page holds tells whether there is a next page.
    window = list(rows[: request.limit + 1])
    page_rows = window[: request.limit]
    has_next = len(window) > request.limit
    has_prev = request.cursor is not None or request.offset > 0
    return ResultPage(
        page_rows,
        request.limit,
        request.offset,
        next=_after(page_rows, order, request, request.offset) if has_next else None,
        prev=_before(page_rows, order, request, request.offset) if has_prev else None,
    )


def _backward(rows: QuerySet[Row], order: Order, request: PageRequest) -> ResultPage[Row]:
    window = list(rows[: request.limit + 1])
    page_rows = window[: request.limit][::-1]
    has_prev = len(window) > request.limit
    offset = max(0, request.offset - len(page_rows)) if has_prev else 0
    return ResultPage(
        page_rows,
        request.limit,
        offset,
        # The cursor's own row comes after all of these.
        next=_after(page_rows, order, request, offset),
        prev=_before(page_rows, order, request, offset) if has_prev else None,
    )


def _after(
    page_rows: list[Row], order: Order, request: PageRequest, offset: int
) -> Mapping[str, str]:
    if not page_rows:
        # All rows before the cursor's row have moved, so that row is now the first.
        return {}
    position = order.position(page_rows[-1])
    offset = min(offset + len(page_rows), MAX_INTEGER)
    return {"cursor": request.cursor_at(position, offset, backwards=False)}


def _before(
    page_rows: list[Row], order: Order, request: PageRequest, offset: int
) -> Mapping[str, str]:
    if not page_rows:
        # Past the end there is no row to name.
        return {"offset": str(max(0, offset - request.limit))}
    position = order.position(page_rows[0])
    return {"cursor": request.cursor_at(position, offset, backwards=True)}


def pagination_record(page: ResultPage[Any], total: Total | None = None) -> Pagination:
    record: Pagination = {
        "limit": page.limit,
        "offset": page.offset,
        "has_more": page.next is not None,
    }
    if total is not None:
        record["total"] = total.number
        record["total_counted_at"] = total.counted_at
    return record
