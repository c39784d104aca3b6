"""What a list shows, as its address says it: filters, search, order, columns, and page."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.html import escape

from engagement.admin.subject_urls import SEGMENT_PARAM, WORKSPACE_PARAM
from engagement.core.ids import parse_id
from engagement.metric_names import Scope
from engagement.orders.columns import UnknownColumn, check_column

# The rows of a page. With many columns it has fewer, so that it stays below 60 KB.
PAGE_SIZE, MIN_PAGE_SIZE = 40, 10
DEFAULT_COLUMNS = 6
# Of the links that repeat the address: heads, chips, and pages. Where they would take more, buttons
# of a form that has the address once take their place.
MAX_LINK_BYTES = 12_000
LINKS_OF_EACH_PAGE = 12
# In the order of the chips above the table. Each trait has a parameter of its own.
FILTERS = (SEGMENT_PARAM, "insight", "license_type", "license_status", "active")
ACCOUNT_FILTERS = {"insight", "license_type", "license_status"}
TRAIT_FILTER = "trait."
ACTIVE_PATTERN = re.compile(r"(within|before)-([1-9][0-9]{0,3})|never")
DEFAULT_SORT = "-score"
MAX_COLUMNS = 20
MAX_LENGTH = 512
# Of a page, for its columns and filters besides the rows. The last columns of more are left out.
MAX_ADDRESS_BYTES = 20_000
# Parameters besides filters and traits.
_OTHERS = {WORKSPACE_PARAM, "product__id__exact", "q", "sort", "column", "columns", "p", "view"}

Filters: TypeAlias = Mapping[str, str]


class InvalidAddress(ValueError):
    """A parameter of the address means nothing to the list."""


class TooLong(InvalidAddress):
    """The filters and the search have more text than a page has room for."""


class GoTo(Exception):
    """The list is at another query string. *message* is shown there, as a problem or a success."""

    def __init__(self, query: str, message: str = "", *, is_problem: bool = True) -> None:
        super().__init__(query)
        self.query, self.message, self.is_problem = query, message, is_problem


@dataclass(frozen=True)
class ListState:
    """*filters* has the values by parameter. *columns* is empty for the default ones. *view* is the
    id of the saved view that the list began with, "all" for none, or empty."""

    scope: Scope
    workspace_id: int | None = None
    filters: Filters = field(default_factory=dict)
    search: str = ""
    sort: str = DEFAULT_SORT
    columns: tuple[str, ...] = ()
    page: int = 1
    view: str = ""

    @property
    def sort_column(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def is_descending(self) -> bool:
        return self.sort.startswith("-")

    @property
    def is_filtered(self) -> bool:
        return bool(self.filters or self.search)

    @property
    def has_links(self) -> bool:
        """Whether what leads to the list with one change is a link, not a button."""
        return self._link_count * len(self.query()) <= MAX_LINK_BYTES

    @property
    def _link_count(self) -> int:
        return LINKS_OF_EACH_PAGE + self._column_count + len(self.filters)

    @property
    def _column_count(self) -> int:
        return len(self.columns) or DEFAULT_COLUMNS

    @property
    def address_bytes(self) -> int:
        """What a page takes, besides its rows, because of its address, as measured."""
        links = self._link_count if self.has_links else 0
        texts = [self.search, *self.columns, *chain(*self.filters.items())]
        length = sum(len(escape(text).encode()) for text in texts)
        return 250 * self._column_count + (4 + links) * len(self.query()) + 9 * length

    @property
    def page_size(self) -> int:
        # In bytes, as measured. A row leads back to the list.
        back = 1.6 * len(self.query()) if self.has_links else 0
        row = 450 + 85 * self._column_count + back
        return min(PAGE_SIZE, max(MIN_PAGE_SIZE, int((42_000 - self.address_bytes) / row)))

    @property
    def offset(self) -> int:
        return (self.page - 1) * self.page_size

    def query(self, **changes: Any) -> str:
        """The query string of this list, or of it with *changes*, then on its first page."""
        state = replace(self, **{"page": 1, **changes})
        return urlencode(list(state.parameters()), safe=",:")

    def without_filter(self, name: str) -> str:
        rest = {key: value for key, value in self.filters.items() if key != name}
        return self.query(filters=rest)

    def parameters(self) -> Iterator[tuple[str, str | int]]:
        """The parameters of the address that differ from their defaults."""
        if self.workspace_id is not None:
            yield WORKSPACE_PARAM, self.workspace_id
        if self.view:
            yield "view", self.view
        yield from self.filters.items()
        if self.search:
            yield "q", self.search
        if self.sort != DEFAULT_SORT:
            yield "sort", self.sort
        # In one parameter, because each link of the page has them.
        if any("," in column for column in self.columns):
            yield from (("column", column) for column in self.columns)
        elif self.columns:
            yield "columns", ",".join(self.columns)
        if self.page > 1:
            yield "p", self.page


def parse_state(query: QueryDict, scope: Scope) -> ListState:
    """The state that the query of an address describes. Raises InvalidAddress."""
    filters = parse_filters(query, scope)
    if set(query) - set(filters) - _OTHERS - {name for name in query if not query[name]}:
        raise InvalidAddress
    sort = query.get("sort") or DEFAULT_SORT
    try:
        check_column(sort.removeprefix("-"), scope)
    except UnknownColumn as error:
        raise InvalidAddress from error
    page, view = parse_id(query.get("p", "1")), query.get("view", "")
    if page is None or (view not in ("", "all") and parse_id(view) is None):
        raise InvalidAddress
    state = ListState(
        scope,
        workspace_id=parse_id(query.get(WORKSPACE_PARAM, "")),
        filters=filters,
        search=query.get("q", "").strip()[:MAX_LENGTH],
        sort=sort,
        columns=requested_columns(query)[:MAX_COLUMNS],
        page=max(1, page),
        view=view,
    )
    while state.address_bytes > MAX_ADDRESS_BYTES:
        if not state.columns:
            raise TooLong
        state = replace(state, columns=state.columns[:-1])
    return state


def requested_columns(query: QueryDict) -> tuple[str, ...]:
    """The columns in the address, which may be more than a list shows."""
    joined = filter(None, query.get("columns", "").split(","))
    return tuple(dict.fromkeys([*joined, *query.getlist("column")]))


def parse_filters(query: Mapping[str, str], scope: Scope) -> dict[str, str]:
    """The filters among the parameters. Raises InvalidAddress for an invalid value."""
    allowed = [name for name in FILTERS if scope == "account" or name not in ACCOUNT_FILTERS]
    filters = {name: query[name] for name in allowed if query.get(name)}
    traits = sorted(name for name in query if name.startswith(TRAIT_FILTER))
    filters |= {name: query[name] for name in traits if query[name] and name != TRAIT_FILTER}
    for name, value in filters.items():
        if "\0" in f"{name}{value}" or max(len(name), len(value)) > MAX_LENGTH:
            raise InvalidAddress
    if not ACTIVE_PATTERN.fullmatch(filters.get("active", "never")):
        raise InvalidAddress
    if parse_id(filters.get(SEGMENT_PARAM, "1")) is None:
        raise InvalidAddress
    return filters
