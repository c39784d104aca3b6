"""Pages of a ranked list, found by position: page 10,000 costs what page 1 costs.

A cursor names the row that a page begins after (or ends before) by what the list is ordered by,
so that the database goes straight to it in the index, and rows neither repeat nor vanish because
others moved. It holds for the score set that it was made in: an edited workspace has other scores,
where the same position is another place.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from django.db.models import F, Model, QuerySet
from django.db.models.fields.tuple_lookups import Tuple, TupleGreaterThan, TupleLessThan

from readapi import parameters
from readapi.errors import InvalidRequest
from readapi.parameters import MAX_INTEGER, Parameters

CURSOR_VERSION = 2
_CURSOR_TEXT = re.compile(r"[A-Za-z0-9_-]{1,200}", re.ASCII)
_Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]

Row = TypeVar("Row", bound=Model)


class Cursor(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A place in one list: after the row at ``position`` or, backwards, before it.

    ``list_name`` says which list, so that a cursor of one is refused by another. ``score_set`` is
    the set whose scores rank the list, 0 where none do. ``offset`` is the number of rows before
    the place when the cursor was made; it is shown, never searched by.
    """

    list_name: str
    score_set: _Number
    position: tuple[_Number, ...]
    backwards: bool
    offset: _Number

    def encode(self) -> str:
        packed = bytes([CURSOR_VERSION]) + msgspec.msgpack.encode(self)
        return urlsafe_b64encode(packed).rstrip(b"=").decode()

    @classmethod
    def decode(cls, text: str, list_name: str, columns: int) -> "Cursor":
        """The cursor that ``encode`` made *text* of; Refused for any other text."""
        cursor = cls._decoded(text)
        if (
            cursor is None
            or cursor.list_name != list_name
            or len(cursor.position) != columns
            # One place has one spelling.
            or cursor.encode() != text
        ):
            raise InvalidRequest(
                "invalid_cursor",
                "cursor must come unchanged from a link of this same list.",
                "cursor",
            )
        return cursor

    @classmethod
    def _decoded(cls, text: str) -> "Cursor | None":
        if not _CURSOR_TEXT.fullmatch(text):
            return None
        try:
            packed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            return msgspec.msgpack.decode(packed[1:], type=cls)
        except (ValueError, msgspec.DecodeError):
            return None


@dataclass(frozen=True)
class Order:
    """A total order that an index holds: the columns all ascend or all descend."""

    columns: tuple[str, ...]
    descending: bool = False

    def sort(self, rows: QuerySet[Row], *, backwards: bool = False) -> QuerySet[Row]:
        sign = "-" if self.descending != backwards else ""
        return rows.order_by(*(sign + column for column in self.columns))

    def rows_after(
        self, rows: QuerySet[Row], position: tuple[int, ...], *, backwards: bool
    ) -> QuerySet[Row]:
        """The rows after *position* (backwards: before it), as one range of the index."""
        compare = TupleLessThan if self.descending != backwards else TupleGreaterThan
        return rows.filter(compare(Tuple(*(F(column) for column in self.columns)), position))

    def position(self, row: Model) -> tuple[int, ...]:
        return tuple(getattr(row, column) for column in self.columns)


@dataclass(frozen=True)
class PageRequest:
    """The page that a request asks for: by cursor, or by offset."""

    list_name: str
    limit: int
    offset: int
    cursor: Cursor | None
    score_set: int = 0

    def with_score_set(self, score_set: int | None) -> "PageRequest":
        """The same page of a list that the scores of this set rank."""
        return replace(self, score_set=score_set or 0)

    def cursor_at(self, position: tuple[int, ...], offset: int, *, backwards: bool) -> str:
        """A cursor of this same list."""
        return Cursor(self.list_name, self.score_set, position, backwards, offset).encode()


@dataclass(frozen=True)
class ResultPage(Generic[Row]):
    """One page. ``next`` and ``prev`` are the parameters that lead on, where there is more."""

    rows: list[Row]
    limit: int
    offset: int
    next: Mapping[str, str] | None = field(default=None)
    prev: Mapping[str, str] | None = field(default=None)


def parse_page_request(given: Parameters, list_name: str, order: Order) -> PageRequest:
    """What *given* asks of the list *list_name*."""
    limit = parameters.limit(given)
    if "cursor" not in given:
        return PageRequest(list_name, limit, parameters.offset(given), None)
    if "offset" in given:
        raise InvalidRequest("invalid_offset", "offset and cursor exclude each other.", "offset")
    cursor = Cursor.decode(given["cursor"], list_name, len(order.columns))
    return PageRequest(list_name, limit, cursor.offset, cursor)


def paginate(rows: QuerySet[Row], order: Order, asked: PageRequest) -> ResultPage[Row]:
    """The page of *rows* in *order*, with one query and without counting."""
    if asked.cursor is None:
        return _forward(order.sort(rows)[asked.offset :], order, asked)
    if asked.cursor.score_set != asked.score_set:
        raise InvalidRequest(
            "invalid_cursor",
            "The workspace was edited and scored again after this cursor was made. "
            "Start again from the first page, without a cursor.",
            "cursor",
        )
    beyond = order.rows_after(rows, asked.cursor.position, backwards=asked.cursor.backwards)
    if asked.cursor.backwards:
        return _backward(order.sort(beyond, backwards=True), order, asked)
    return _forward(order.sort(beyond), order, asked)


def _forward(rows: QuerySet[Row], order: Order, asked: PageRequest) -> ResultPage[Row]:
    # One row more than shown tells whether there is a next page.
    found = list(rows[: asked.limit + 1])
    shown = found[: asked.limit]
    has_next = len(found) > asked.limit
    has_prev = asked.cursor is not None or asked.offset > 0
    return ResultPage(
        shown,
        asked.limit,
        asked.offset,
        next=_after(shown, order, asked, asked.offset) if has_next else None,
        prev=_before(shown, order, asked, asked.offset) if has_prev else None,
    )


def _backward(rows: QuerySet[Row], order: Order, asked: PageRequest) -> ResultPage[Row]:
    found = list(rows[: asked.limit + 1])
    shown = found[: asked.limit][::-1]
    has_prev = len(found) > asked.limit
    offset = max(0, asked.offset - len(shown)) if has_prev else 0
    return ResultPage(
        shown,
        asked.limit,
        offset,
        # The row that the cursor names comes after all of these.
        next=_after(shown, order, asked, offset),
        prev=_before(shown, order, asked, offset) if has_prev else None,
    )


def _after(shown: list[Row], order: Order, asked: PageRequest, offset: int) -> Mapping[str, str]:
    if not shown:
        # All that was before the cursor's row has moved: it is now the first.
        return {}
    position = order.position(shown[-1])
    offset = min(offset + len(shown), MAX_INTEGER)
    return {"cursor": asked.cursor_at(position, offset, backwards=False)}


def _before(shown: list[Row], order: Order, asked: PageRequest, offset: int) -> Mapping[str, str]:
    if not shown:
        # Beyond the end there is no row to stand before.
        return {"offset": str(max(0, offset - asked.limit))}
    position = order.position(shown[0])
    return {"cursor": asked.cursor_at(position, offset, backwards=True)}


def pagination_record(page: ResultPage[Any]) -> dict[str, Any]:
    return {"limit": page.limit, "offset": page.offset, "has_more": page.next is not None}
