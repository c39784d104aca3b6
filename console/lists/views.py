"""Saved views of a list: who sees which, and how they are saved, opened, and deleted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from access.pages.scoping import request_access, visible_products
from access.pages.subject_urls import SEGMENT_PARAM
from console.lists.filters import list_filter
from console.lists.state import ListState, parse_filters, shown_order
from core.ids import parse_id
from engagement.models import SavedView, ScoreSet, Segment, Workspace
from engagement.models.saved_views import MAX_VIEWS, NAME_LENGTH
from trends.changes.whose import NoChanges, register_view_reader

NAME_MISSING = "Enter a name for the view."
TOO_MANY = f"You can keep {MAX_VIEWS} views of a list. Delete one that you no longer use."


class CannotSave(ValueError):
    """The view was not saved; the message says why."""


@dataclass(frozen=True)
class ViewLink:
    view: SavedView
    query: str
    is_current: bool
    is_changed: bool
    may_edit: bool


def visible_views(request: HttpRequest, scope: str) -> QuerySet[SavedView]:
    """The views that the login sees: own ones and shared ones, of visible products."""
    mine = Q(owner=request.user.pk) | Q(owner=None)
    return SavedView.objects.filter(mine, product__in=visible_products(request.user), scope=scope)


def may_edit(request: HttpRequest, view: SavedView) -> bool:
    """Everybody edits own views, and managers the shared ones."""
    if view.owner_id is None:
        return view.product_id in request_access(request).managed
    return view.owner_id == request.user.pk


def links(request: HttpRequest, views: Sequence[SavedView], state: ListState) -> list[ViewLink]:
    """The views in the order of their names, as links."""
    return [_link(request, view, state) for view in views]


def _link(request: HttpRequest, view: SavedView, state: ListState) -> ViewLink:
    is_current = state.view == str(view.pk)
    stored = view_state(view)
    is_same = (stored.filters, stored.sort, stored.columns) == (
        dict(state.filters),
        state.sort,
        state.columns,
    )
    is_changed = is_current and not (is_same and view.workspace_id == state.workspace_id)
    return ViewLink(view, f"view={view.pk}", is_current, is_changed, may_edit(request, view))


def default_view(views: Sequence[SavedView], workspace_id: int) -> SavedView | None:
    """The person's default view in the workspace, or else the product's."""
    defaults = [view for view in views if view.is_default and view.workspace_id == workspace_id]
    return next(iter(sorted(defaults, key=lambda view: view.owner_id is None)), None)


def view_state(view: SavedView) -> ListState:
    """The list as the view keeps it. A filter that this release does not know is left out."""
    scope: Any = view.scope
    return ListState(
        scope,
        workspace_id=view.workspace_id,
        filters=parse_filters(view.filters, scope),
        sort=shown_order(view.sort),
        columns=tuple(view.columns),
        view=str(view.pk),
    )


def lost_segment(view: SavedView) -> bool:
    """Whether the view keeps the members of a segment that was deleted since."""
    segment_id = view.filters.get(SEGMENT_PARAM)
    return (
        bool(segment_id)
        and not Segment.objects.filter(pk=segment_id, workspace=view.workspace_id).exists()
    )


def view_filter(view: SavedView, score_set: ScoreSet) -> Q | None:
    """The engagement rows that the view keeps; None for all. Raises NoChanges."""
    state = view_state(view)
    if not state.filters:
        return None
    if lost_segment(view):
        raise NoChanges("The view keeps the members of a segment that was deleted.")
    segment_id = parse_id(state.filters.get(SEGMENT_PARAM, ""))
    segment = Segment.objects.filter(pk=segment_id or 0, workspace=view.workspace_id).first()
    return list_filter(state, score_set, segment)


register_view_reader(view_filter)


def save_view(
    request: HttpRequest,
    workspace: Workspace,
    state: ListState,
    *,
    name: str,
    is_shared: bool,
    is_default: bool,
) -> SavedView:
    """Save the list as a view, or change the editable view of that name. Raises CannotSave."""
    name = name.strip()[:NAME_LENGTH]
    if not name or "\0" in name:
        raise CannotSave(NAME_MISSING)
    owner_id = None if is_shared else request.user.pk
    own = SavedView.objects.filter(product=workspace.product_id, scope=state.scope, owner=owner_id)
    with transaction.atomic():
        # One at a time in a workspace, so that one view is the default.
        Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
        if is_default:
            own.filter(workspace=workspace).update(is_default=False)
        view = own.filter(name=name).first()
        if view is None and own.count() >= MAX_VIEWS:
            raise CannotSave(TOO_MANY)
        view = view or SavedView(
            product_id=workspace.product_id, scope=state.scope, owner_id=owner_id, name=name
        )
        view.workspace, view.is_default = workspace, is_default
        view.filters, view.sort = dict(state.filters), state.sort
        view.columns = list(state.columns)
        view.save()
    return view
