"""The page of a list: finds out what its address asks for, and gives its template what to show."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, QueryDict
from django.urls import reverse
from django.utils.html import conditional_escape, escape
from django.utils.safestring import SafeString, mark_safe

from access.pages.lookups import INVALID_FILTER_MESSAGE
from access.pages.scoping import request_access, visible_products
from access.pages.subject_urls import SEGMENT_PARAM, WORKSPACE_PARAM
from access.work import accounts, owners
from console.lists import columns as list_columns
from console.lists import filters, views
from console.lists.columns import ListColumn, RowContext
from console.lists.rows import Listing, ListQuery
from console.lists.state import (
    MAX_COLUMNS,
    ME,
    TRAIT_FILTER,
    GoTo,
    InvalidAddress,
    ListState,
    TooLong,
    parse_state,
    requested_columns,
)
from console.suggestions import trait_names
from core.ids import parse_id
from core.time_format import format_ago
from engagement.activity.reading import NO_ALARMS, alarms_by_account
from engagement.insight_kinds import InsightKind
from engagement.metric_names import Scope
from engagement.models import Feature, Product, SavedView, ScoreSet, Segment, Workspace
from engagement.orders.columns import CHANCE_COLUMNS, TRAIT_PREFIX
from engagement.rules.rules import ChanceName, rule_to_json
from engagement.rules.steps import parse_steps
from engagement.scopes import ACCOUNTS, SubjectKind, get_kind
from engagement.scores.activation import current
from engagement.scores.histories import quick_rows, recent_scores
from engagement.scores.insights import account_facts, apply_rules
from engagement.segments import chances
from engagement.segments.members import usable_segments

# The fields of the forms above the table, which become filters and columns.
_TRAIT_NAME, _TRAIT_VALUE, _TRAIT_COLUMN = "trait_name", "trait_value", "trait_column"
HALF_A_FILTER = (
    "A filter by a trait needs the trait and its value, so the list is not filtered by one. Enter "
    "both."
)
TOO_LONG = "These filters are too long, so the list is not filtered. Filter by shorter values."
TOO_MANY_COLUMNS = (
    f"A list has room for {{count}} of these columns, and for at most {MAX_COLUMNS}. Remove one to "
    "add another."
)
# The trait names that the forms suggest.
MAX_TRAIT_NAMES = 100
UNKNOWN_COLUMN = "The column “{name}” is not available, so the list does not show it."
UNKNOWN_VIEW = "This view is not available, so the list does not use it."
LOST_SEGMENT = "The segment of this view was deleted. The other filters apply."


@dataclass(frozen=True)
class SubjectList:
    """A list of the users or accounts of a workspace, which may have no scores yet.

    *workspace* is None if the product has none.
    """

    request: HttpRequest
    state: ListState
    product: Product
    workspace: Workspace | None
    now: datetime

    @property
    def score_set(self) -> ScoreSet | None:
        scores = self.workspace.scores if self.workspace else None
        return scores if scores and scores.scored_day else None

    @cached_property
    def features(self) -> list[str]:
        """The names of the product's features."""
        names = Feature.objects.filter(product=self.product.pk).values_list("name", flat=True)
        return list(names)

    @cached_property
    def owners(self) -> dict[str, str]:
        """What people call the possible owners of accounts, by login."""
        return owners.names(self.product.pk) if self.state.scope == "account" else {}

    @cached_property
    def tags(self) -> list[str]:
        return accounts.known_tags(self.product.pk) if self.state.scope == "account" else []

    @cached_property
    def steps(self) -> list[str]:
        """The names of the workspace's steps."""
        activation = current(self.workspace.pk, self.state.scope) if self.workspace else None
        return [step.name for step in parse_steps(activation.steps)] if activation else []

    def segments(self) -> list[Segment]:
        return usable_segments(self.workspace, self.state.scope) if self.workspace else []

    def segment(self, segments: Sequence[Segment]) -> Segment | None:
        """The segment in the address. Raises Http404 if the workspace does not have it."""
        pk = self.state.filters.get(SEGMENT_PARAM)
        if pk is None:
            return None
        for segment in segments:
            if str(segment.pk) == pk:
                return segment
        raise Http404

    def query(self, segment: Segment | None) -> ListQuery | None:
        if self.score_set is None:
            return None
        return ListQuery(self.score_set, self.state, segment, self.now)

    def columns(self) -> list[ListColumn]:
        of_activity = "activity" in self.state.filters
        return list_columns.list_columns(
            self.state.columns, self.state.scope, of_activity=of_activity
        )


def find_list(
    request: HttpRequest, scope: Scope, now: datetime, *, opens_views: bool = True
) -> SubjectList:
    """The list that the request is for.

    Raises GoTo for an address that leads to another one, and Http404 for a workspace that the login
    may not see.
    """
    query = _apply_forms(request)
    try:
        state = parse_state(query, scope)
        filters.check(state)
    except InvalidAddress as error:
        raise GoTo(
            "", TOO_LONG if isinstance(error, TooLong) else INVALID_FILTER_MESSAGE
        ) from error
    if state.filters.get("owner") == ME:
        own = {**state.filters, "owner": request.user.get_username()}
        raise GoTo(state.query(filters=own))
    is_cut = len(state.columns) < len(requested_columns(query))
    if query is not request.GET or is_cut:
        message = TOO_MANY_COLUMNS.format(count=len(state.columns)) if is_cut else ""
        if _has_half_a_filter(request):
            message = HALF_A_FILTER
        raise GoTo(state.query(), message)
    if names := list_columns.unknown_columns(state.columns, scope):
        columns = tuple(name for name in state.columns if name not in names)
        raise GoTo(state.query(columns=columns), UNKNOWN_COLUMN.format(name=names[0]))
    product, workspace = _find_place(request)
    view = _requested_view(request, scope, state)
    if workspace is not None and state.workspace_id is None:
        if view is not None:
            raise _open_view(view)
        state = replace(state, workspace_id=workspace.pk)
        raise GoTo(state.query(page=state.page))
    if opens_views and workspace is not None and set(request.GET) == {WORKSPACE_PARAM}:
        saved = list(views.visible_views(request, scope).filter(product=product))
        if view := views.default_view(saved, workspace.pk):
            raise _open_view(view)
    return SubjectList(request, state, product, workspace, now)


def _apply_forms(request: HttpRequest) -> QueryDict:
    """The query with the fields of a form as parameters, or the request's own without a form."""
    if not request.GET.keys() & {_TRAIT_NAME, _TRAIT_VALUE, _TRAIT_COLUMN}:
        return request.GET
    query = request.GET.copy()
    name, value, column = (
        "".join(query.pop(field, [""])[-1:]).strip()
        for field in (_TRAIT_NAME, _TRAIT_VALUE, _TRAIT_COLUMN)
    )
    if name and value:
        query[f"{TRAIT_FILTER}{name}"] = value
    if column:
        query.appendlist("column", f"{TRAIT_PREFIX}{column}")
    return query


def _has_half_a_filter(request: HttpRequest) -> bool:
    fields = (request.GET.get(field, "").strip() for field in (_TRAIT_NAME, _TRAIT_VALUE))
    return sum(map(bool, fields)) == 1


def _requested_view(request: HttpRequest, scope: Scope, state: ListState) -> SavedView | None:
    """The view that the address names. Raises GoTo for one that the login does not see."""
    pk = parse_id(state.view)
    if pk is None:
        return None
    view = views.visible_views(request, scope).filter(pk=pk).first()
    if view is None:
        raise GoTo(state.query(view=""), UNKNOWN_VIEW)
    return view


def _open_view(view: SavedView) -> GoTo:
    state = views.view_state(view)
    if not views.lost_segment(view):
        return GoTo(state.query())
    return GoTo(state.without_filter(SEGMENT_PARAM), LOST_SEGMENT)


def _find_place(request: HttpRequest) -> tuple[Product, Workspace | None]:
    """The workspace in the address, or else the first one of the product, or of the first
    product."""
    workspaces = Workspace.objects.filter(product__in=visible_products(request.user))
    workspaces = workspaces.select_related("product", "scores__cached_counts")
    if requested_id := request.GET.get(WORKSPACE_PARAM):
        workspace = workspaces.filter(pk=parse_id(requested_id) or 0).first()
        if workspace is None or str(workspace.pk) != requested_id:
            raise Http404
        return workspace.product, workspace
    products = visible_products(request.user)
    if product_id := request.GET.get("product__id__exact"):
        products = products.filter(pk=parse_id(product_id) or 0)
    product = products.first()
    if product is None:
        raise Http404
    return product, workspaces.filter(product=product).order_by("id").first()


# --- What the template shows ----------------------------------------------------------------


@dataclass(frozen=True)
class Head:
    """*sort* is the order that it leads to, and *query* that of the list in this order."""

    label: str
    css: str
    sort: str = ""
    query: str = ""
    aria_sort: str = ""


def page_context(page: SubjectList) -> dict[str, Any]:
    """What the list's template shows."""
    segments = page.segments()
    segment = page.segment(segments)
    query = page.query(segment)
    listing = query.read_page() if query else Listing([], 0, has_more=False)
    columns = page.columns()
    heads = [_head(column, page.state) for column in columns]
    kind = get_kind(page.state.scope)
    saved = list(views.visible_views(page.request, page.state.scope).filter(product=page.product))
    links = views.links(page.request, saved, page.state)
    chance_names = _chance_names(page)
    return {
        "title": kind.plural.capitalize(),
        "list": page,
        "state": page.state,
        "listing": listing,
        "plural": kind.plural,
        "heads": heads,
        "table": _table(page, listing, columns),
        "subjects": [getattr(row, kind.scope) for row in listing.rows],
        "chips": filters.chips(page.state, segment),
        "menus": filters.menus(
            page.state,
            segments,
            chance_names,
            page.features,
            page.owners,
            page.tags,
            page.steps,
        ),
        "count": _count_text(listing, kind),
        "as_of": listing.as_of and format_ago(listing.as_of, page.now),
        "first_query": page.state.query(),
        "previous_query": page.state.query(page=page.state.page - 1) if page.state.page > 1 else "",
        "next_query": page.state.query(page=page.state.page + 1) if listing.has_more else "",
        "clear_query": page.state.query(filters={}, search="", view="all"),
        "views": links,
        "current_view": next((link for link in links if link.is_current), None),
        "all_query": ListState(page.state.scope, page.state.workspace_id, view="all").query(),
        "may_share": page.product.pk in request_access(page.request).managed,
        "segment_url": _segment_url(page, segment),
        "trait_names": trait_names(page.product.pk, page.state.scope, MAX_TRAIT_NAMES),
        "hidden": _hidden_fields(page.state, "q"),
        "hidden_for_columns": _hidden_fields(page.state, "column", "columns"),
        "query": page.state.query(page=page.state.page),
        "may_work": bool(listing.rows) and _may_work(page),
        "choices": _column_choices(page.state, columns, chance_names),
        "pages": _pages(page.state, listing),
        "sorts": [head for head in heads if head.query],
    }


def _chance_names(page: SubjectList) -> list[ChanceName]:
    """The chances that accounts of the workspace have."""
    if page.score_set is None or page.state.scope == "user":
        return []
    return chances.names_of(page.score_set)


def _segment_url(page: SubjectList, segment: Segment | None) -> str:
    """The URL of a new segment with the rows of the list; empty if there can be none."""
    rule = filters.segment_rule_of(page.state, segment)
    is_manager = page.product.pk in request_access(page.request).managed
    if rule is None or page.workspace is None or not is_manager:
        return ""
    query = {
        "workspace": page.workspace.pk,
        "scope": page.state.scope,
        "rule": json.dumps(rule_to_json(rule), separators=(",", ":")),
    }
    return f"{reverse('admin:engagement_segment_add')}?{urlencode(query)}"


def _count_text(listing: Listing, kind: SubjectKind) -> str:
    if listing.total is not None:
        return f"{listing.total:,} {kind.scope if listing.total == 1 else kind.plural}"
    return f"More than {len(listing.rows)} {kind.plural}" if listing.rows else ""


def _head(column: ListColumn, state: ListState) -> Head:
    css = f"column-{column.css}"
    if not column.sort:
        return Head(column.label, css)
    is_sorted = column.sort == state.sort_column
    descends = not state.is_descending if is_sorted else column.first_descends
    order = "descending" if state.is_descending else "ascending"
    sort = f"-{column.sort}" if descends else column.sort
    return Head(column.label, css, sort, state.query(sort=sort), order if is_sorted else "")


def _table(page: SubjectList, listing: Listing, columns: Sequence[ListColumn]) -> list[SafeString]:
    if page.score_set is None:
        return []
    kind = get_kind(page.state.scope)
    histories = {}
    if any(column.name == "history" for column in columns):
        histories = recent_scores(page.score_set, kind, quick_rows(page.score_set, listing.rows))
    back, query = "", page.state.query(page=page.state.page)
    if query != f"{WORKSPACE_PARAM}={page.state.workspace_id}":
        back = "&" + urlencode({"_changelist_filters": query})
    insights = _insights(page.score_set, listing.rows) if kind is ACCOUNTS else {}
    features = len(page.features)
    context = RowContext(
        *(page.score_set, kind, page.now, histories, insights, back, features),
        owners=page.owners,
        may_work=_may_work(page),
    )
    return [_row_html(columns, row, context) for row in listing.rows]


def _may_work(page: SubjectList) -> bool:
    """Whether the login may choose owners and tags for the rows of the list."""
    is_of_accounts = page.state.scope == "account"
    return is_of_accounts and page.product.pk in request_access(page.request).workable


def _insights(score_set: ScoreSet, rows: Sequence[Any]) -> dict[int, list[InsightKind]]:
    """The kinds of the insights about each account, without the names of users. One query."""
    alarms = alarms_by_account(score_set, [row.account_id for row in rows])
    facts = {
        row.account_id: account_facts(score_set, row, alarms=alarms.get(row.account_id, NO_ALARMS))
        for row in rows
    }
    return {id: [insight.kind for insight in apply_rules(of)] for id, of in facts.items()}


def _row_html(columns: Sequence[ListColumn], row: Any, context: RowContext) -> SafeString:
    """A row of the table. A template would take as long as all other work on the page."""
    first, *others = columns
    cells = [f'<th scope="row" class="field-{first.css}">{first.cell(row, context)}</th>']
    cells += [
        # The label is shown where a row is a block.
        f'<td class="field-{column.css}" data-label="{escape(column.label)}">'
        f"{conditional_escape(column.cell(row, context))}</td>"
        for column in others
    ]
    return mark_safe("".join(cells))


def _hidden_fields(state: ListState, *without: str) -> list[tuple[str, str | int]]:
    """The parameters that a form sends along, on the first page of the list."""
    return [pair for pair in replace(state, page=1).parameters() if pair[0] not in without]


def _column_choices(
    state: ListState, columns: Sequence[ListColumn], chance_names: Sequence[ChanceName]
) -> list[tuple[str, str, bool]]:
    """The name and label of each column that can be chosen, and whether it is shown."""
    names = [column.name for column in columns]
    choices = [
        (column.name, column.label)
        for column in list_columns.choosable_columns(state.scope)
        if CHANCE_COLUMNS.get(column.name) in (None, *chance_names) or column.name in names
    ]
    traits = [
        (column.name, column.label) for column in columns if column.name.startswith(TRAIT_PREFIX)
    ]
    return [(name, label, name in names) for name, label in choices + traits]


@dataclass(frozen=True)
class PageLink:
    label: str
    query: str
    is_current: bool = False


def _pages(state: ListState, listing: Listing) -> list[PageLink]:
    """The links to the pages of the list, as far as their number is known."""
    if listing.total is None:
        return []
    pages = Paginator(range(listing.total), state.page_size)
    numbers = pages.get_elided_page_range(
        min(state.page, pages.num_pages), on_each_side=2, on_ends=1
    )
    # A gap is a text.
    return [
        PageLink(
            str(number),
            state.query(page=number) if isinstance(number, int) else "",
            number == state.page,
        )
        for number in numbers
    ]
