"""Lists in another order than that of the scores."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from django.db.models import QuerySet

from core.database import sql
from engagement.metric_names import Scope
from engagement.models import ScoreSet
from engagement.orders import pages
from engagement.orders.columns import sorted_rows, standard_columns
from engagement.scopes import get_kind
from readapi import parameters
from readapi.errors import NotReady
from readapi.pagination import Order, PageRequest
from readapi.parameters import MAX_INTEGER, Parameters

# Narrows engagement rows of the workspace to those that the request is about.
Narrow: TypeAlias = Callable[[QuerySet[Any]], QuerySet[Any]]
# Of a cursor: the place in the order, and the version of the order.
POSITION = Order(("place", "version"))
# A filtered list that takes longer to sort is refused.
TIMEOUT_SECONDS = 5.0
NOT_READY = (
    "This order is being computed for the first time. Try again in a minute, or sort by score."
)
TOO_SLOW = (
    "Sorting these records takes too long. Add a filter that leaves fewer of them, or sort by "
    "score."
)


@dataclass(frozen=True)
class Sort:
    """The requested order."""

    column: str
    descending: bool

    @property
    def is_by_score(self) -> bool:
        return self.column == "score"


@dataclass(frozen=True)
class SortedPage:
    """IDs in the requested order. ``as_of`` is the time of a stored order. ``next`` and ``prev``
    are cursors."""

    ids: list[int]
    offset: int
    as_of: datetime | None = None
    next: str | None = None
    prev: str | None = None


def choices(scope: Scope) -> list[str]:
    """The values of ``sort``."""
    return [text for column in standard_columns(scope) for text in (f"-{column}", column)]


def parse(query: Parameters, scope: Scope) -> Sort:
    text = parameters.choice(query, "sort", choices(scope)) or parameters.DEFAULTS["sort"]
    return Sort(text.removeprefix("-"), descending=text.startswith("-"))


def read_page(
    score_set: ScoreSet | None,
    scope: Scope,
    sort: Sort,
    request: PageRequest,
    now: datetime,
    narrow: Narrow | None,
) -> SortedPage:
    """The page; without *narrow*, of all rows, in any number. Raises NotReady."""
    place, version = request.cursor.position if request.cursor else (request.offset, 0)
    if score_set is None:
        return SortedPage([], place)
    if narrow is not None:
        ids = _sort_narrowed(score_set, scope, sort, place, request.limit + 1, narrow)
        has_next, as_of = len(ids) > request.limit, None
    else:
        page = _read_order(score_set, scope, sort, place, request.limit + 1, now, version)
        ids, as_of, version = list(page.ids), page.as_of, page.version or 0
        # In a stored order, forgotten subjects left gaps.
        end = min(place + request.limit, MAX_INTEGER)
        has_next = len(ids) > request.limit if page.row_count is None else end < page.row_count
    following = min(place + request.limit, MAX_INTEGER)
    before = max(0, place - request.limit)
    return SortedPage(
        ids[: request.limit],
        place,
        as_of,
        next=request.cursor_at((following, version), following, backwards=False)
        if has_next
        else None,
        prev=request.cursor_at((before, version), before, backwards=False) if place else None,
    )


def _read_order(
    score_set: ScoreSet,
    scope: Scope,
    sort: Sort,
    place: int,
    limit: int,
    now: datetime,
    version: int,
) -> pages.OrderPage:
    try:
        return pages.read_page(
            score_set,
            get_kind(scope),
            sort.column,
            descending=sort.descending,
            offset=place,
            limit=limit,
            now=now,
            version=version or None,
        )
    except pages.OrderNotReady as error:
        raise NotReady(NOT_READY) from error


def _sort_narrowed(
    score_set: ScoreSet, scope: Scope, sort: Sort, place: int, limit: int, narrow: Narrow
) -> list[int]:
    kind = get_kind(scope)
    rows = narrow(sorted_rows(score_set, kind, sort.column, descending=sort.descending))
    try:
        with sql.statement_timeout(TIMEOUT_SECONDS):
            return list(rows.values_list(kind.id_column, flat=True)[place : place + limit])
    except sql.StatementTimeout as error:
        raise NotReady(TOO_SLOW) from error
