"""What a list does besides showing a page: export, save a view, delete one."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, QueryDict, StreamingHttpResponse
from django.utils.safestring import SafeString
from django.utils.text import slugify

from access.pages.csv_file import csv_response
from access.pages.lookups import INVALID_FILTER_MESSAGE
from access.pages.scoping import request_access, visible_products
from access.trail import entries
from access.work import accounts
from console.lists import filters, views
from console.lists.columns import RowContext, export_heads, export_values
from console.lists.page import SubjectList
from console.lists.state import GoTo, InvalidAddress, ListState, parse_state
from core.charts import spark
from core.ids import parse_id
from engagement.metric_names import Scope
from engagement.models import Workspace
from engagement.scopes import get_kind
from engagement.scores.histories import recent_scores

# The owner that the form sends to change none.
KEEP = ":keep"


def export_list(page: SubjectList) -> StreamingHttpResponse:
    """A download of all rows of the list, in its order and with its columns.

    The name and a column of the file say which insight the list is filtered by.
    """
    segment = page.segment(page.segments())
    query = page.query(segment)
    columns = page.columns()
    heads, insight = export_heads(columns, page.state.scope), filters.insight_label(page.state)
    if insight:
        heads.append("insight")
    lines: Iterator[list[Any]] = iter(())
    if query is not None:
        context = RowContext(query.score_set, query.kind, page.now)
        end = [insight] if insight else []
        lines = (export_values(columns, row, context) + end for row in query.all_rows())
    subject = segment.name if segment else get_kind(page.state.scope).plural
    names = [page.product.name, page.workspace.name if page.workspace else "", subject, insight]
    return csv_response(file_name(names, page.now), heads, lines)


def subject_line(workspace: Workspace, scope: Scope, subject_id: int) -> SafeString:
    """The line of the last 30 days of a subject; empty if it has no scores in the workspace."""
    kind, score_set = get_kind(scope), workspace.scores
    if score_set is None or score_set.scored_day is None:
        return SafeString()
    rows = kind.engagement_rows(score_set).filter(**{kind.id_column: subject_id})
    histories = recent_scores(score_set, kind, list(rows))
    return spark(histories[subject_id], top=100) if histories else SafeString()


def file_name(names: list[str], now: datetime) -> str:
    """A name like board-lens_default_ice-cold_2026-11-21."""
    parts = [slugify(name)[:50] for name in names]
    return "_".join([*filter(None, parts), now.astimezone(UTC).date().isoformat()])


def save_posted_view(request: HttpRequest, scope: Scope) -> GoTo:
    """Save the list whose query is posted; return where it is then."""
    state, workspace = _posted_list(request, scope)
    is_shared = "is_shared" in request.POST
    if is_shared and workspace.product_id not in request_access(request).managed:
        raise PermissionDenied
    try:
        view = views.save_view(
            request,
            workspace,
            state,
            name=request.POST.get("name", ""),
            is_shared=is_shared,
            is_default="is_default" in request.POST,
        )
    except views.CannotSave as error:
        return GoTo(state.query(), str(error))
    return GoTo(
        views.view_state(view).query(), f"The view “{view.name}” is saved.", is_problem=False
    )


def delete_posted_view(request: HttpRequest, scope: Scope) -> GoTo:
    """Delete the posted view; return where the list is then."""
    visible = views.visible_views(request, scope)
    view = visible.filter(pk=parse_id(request.POST.get("view", "")) or 0).first()
    if view is None:
        raise Http404
    if not views.may_edit(request, view):
        raise PermissionDenied
    view.delete()
    query = ListState(scope, view.workspace_id, view="all").query()
    return GoTo(query, f"The view “{view.name}” is deleted.", is_problem=False)


def change_posted_accounts(request: HttpRequest, scope: Scope, now: datetime) -> GoTo:
    """Choose an owner and tags for accounts of the posted list; return where it is then."""
    state, workspace = _posted_list(request, scope)
    if workspace.product_id not in request_access(request).workable:
        raise PermissionDenied
    page = SubjectList(request, state, workspace.product, workspace, now)
    try:
        text = _change(request, workspace.product_id, _posted_accounts(request, page))
    except accounts.CannotWork as problem:
        return GoTo(state.query(page=state.page), str(problem))
    return GoTo(state.query(page=state.page), text, is_problem=False)


def _posted_accounts(request: HttpRequest, page: SubjectList) -> list[int]:
    """The chosen accounts, or all of the list."""
    if request.POST.get("which") != "all":
        posted = (parse_id(text) for text in request.POST.getlist("account"))
        return [id for id in posted if id is not None]
    query = page.query(page.segment(page.segments()))
    return query.first_ids(accounts.MAX_AT_ONCE + 1) if query else []


def _change(request: HttpRequest, product_id: int, account_ids: list[int]) -> str:
    posted, actor, parts = request.POST, entries.actor_of(request), []
    if not account_ids:
        raise accounts.CannotWork("Choose accounts first: the boxes are beside their names.")
    with transaction.atomic():
        if (owner := posted.get("owner", KEEP)) != KEEP:
            changed = accounts.choose_owner(product_id, account_ids, owner, actor)
            parts.append(f"{changed:,} have another owner")
        if tag := posted.get("add_tag", "").strip():
            parts.append(f"{accounts.add_tag(product_id, account_ids, tag, actor):,} got the tag")
        if tag := posted.get("remove_tag", "").strip():
            removed = accounts.remove_tag(product_id, account_ids, tag, actor)
            parts.append(f"{removed:,} lost the tag")
    if not parts:
        raise accounts.CannotWork("Choose an owner, or enter a tag.")
    return f"Of {len(account_ids):,} accounts, {', '.join(parts)}."


def _posted_list(request: HttpRequest, scope: Scope) -> tuple[ListState, Workspace]:
    try:
        state = parse_state(QueryDict(request.POST.get("query", "")), scope)
        filters.check(state)
    except InvalidAddress as error:
        raise GoTo("", INVALID_FILTER_MESSAGE) from error
    visible = Workspace.objects.filter(product__in=visible_products(request.user))
    workspace = visible.filter(pk=state.workspace_id or 0).first()
    if workspace is None:
        raise Http404
    return state, workspace
