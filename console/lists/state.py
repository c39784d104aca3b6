"""What a list shows, as its address says it: filters, search, order, columns, and page."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias
from urllib.parse import urlencode

from django.http import QueryDict

from access.pages.subject_urls import SEGMENT_PARAM, WORKSPACE_PARAM
from core.ids import parse_id
from engagement.metric_names import Scope
from engagement.orders.columns import UnknownColumn, check_column

# In the order of the chips above the table. Each trait has a parameter of its own.
FILTERS = (
    *("owner", "tag", SEGMENT_PARAM, "insight", "activity"),
    *("license_type", "license_status", "license_event"),
    *("chance_to_buy", "chance_to_renew", "chance_to_stay", "mrr"),
    *("feature", "activation", "active"),
)
ACCOUNT_FILTERS = set(FILTERS) - {SEGMENT_PARAM, "feature", "activation", "active"}
TRAIT_FILTER = "trait."
ACTIVE_PATTERN = re.compile(r"(within|before)-([1-9][0-9]{0,3})|never")
# What happened to a license, and within how many days.
LICENSE_EVENT_PATTERN = re.compile(r"([a-z_]+)(?:-([1-9][0-9]{0,3}))?")
CHANCE_PATTERN = re.compile(r"(below|at_least)-([1-9][0-9]?|100)")
# Whether a feature is used, and its name.
FEATURE_PATTERN = re.compile(r"(uses|stopped|never)-(.+)")
# Owners that are no login: none has such a name.
ME, NOBODY = ":me", ":nobody"
# The state, and the name of the step.
ACTIVATION_PATTERN = re.compile(r"(activated|on_the_way|stuck)(?:-(.+))?")
DEFAULT_SORT = "-score"
MAX_COLUMNS = 20
MAX_LENGTH = 512
# The link of a row quotes the query string, at up to three bytes for one, and must fit into a
# request line of 8,190 bytes. The last columns of a longer one are left out.
MAX_QUERY_LENGTH = 2_500
# Parameters besides filters and traits.
_OTHERS = {WORKSPACE_PARAM, "product__id__exact", "q", "sort", "column", "columns", "p", "view"}

Filters: TypeAlias = Mapping[str, str]


class InvalidAddress(ValueError):
    """A parameter of the address means nothing to the list."""


class TooLong(InvalidAddress):
    """The filters and the search have more text than an address has room for."""


class GoTo(Exception):
    """The list is at another query string. *message* is shown there, as a problem or a success."""

    def __init__(self, query: str, message: str = "", *, is_problem: bool = True) -> None:
        super().__init__(query)
        self.query, self.message, self.is_problem = query, message, is_problem


@dataclass(frozen=True)
class ListState:
    """*filters* has the values by parameter. *columns* is empty for the default ones. *view* is the
    id of the saved view that the list began with, "all" for none, or empty."""

    page_size: ClassVar[int] = 40

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
    sort = shown_order(query.get("sort") or DEFAULT_SORT)
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
    while len(state.query()) > MAX_QUERY_LENGTH:
        if not state.columns:
            raise TooLong
        state = replace(state, columns=state.columns[:-1])
    return state


def shown_order(sort: str) -> str:
    """The order, by the change that lists show: bookmarks and views of the release before name the
    one that only the read API has now."""
    return f"{sort}_complete_days" if sort.removeprefix("-") == "change" else sort


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
