"""Has the admin's pages write the trail in place of Django's log, and shows it as a row's history.

A page that changes a row loads it by ``get_object``, whose state is then kept for the request. The
entry has what differs from it afterwards.
"""

import json
from collections.abc import Iterable
from typing import Any, TypeAlias

from django.contrib import messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import capfirst

from access.models import TrailEntry
from access.pages.lookups import ModelAdmin
from access.trail import entries
from access.trail.entries import Action
from access.trail.models_followed import RowState, compare, find_followed, read_state
from access.trail.sentences import describe, display, label

_STATES, _CHANGES = "eds.trail", "eds.changes"
# A message after saving has as many.
MAX_SENTENCES = 3
# The history shows the last ones. The trail has all of them.
MAX_HISTORY = 200
_Key: TypeAlias = tuple[type[Model], Any]


class TrailingAdmin(ModelAdmin):
    """An admin whose changes are in the trail."""

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None and request.method == "POST":
            remember(request, row)
        return row

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        # Django's own message says no more than the action.
        record_row(request, Action.ADDED, obj, message if isinstance(message, str) else "")

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        record_row(request, Action.CHANGED, obj, _text(message))

    def log_deletions(self, request: HttpRequest, queryset: Iterable[Any]) -> Any:
        for row in queryset:
            record_row(request, Action.DELETED, row)

    def log_secret_read(self, request: HttpRequest, obj: Any, message: str) -> None:
        record_row(request, Action.SECRET_READ, obj, message)

    def saved_text(self, request: HttpRequest, obj: Any) -> str:
        """What the page says that follows after *obj* was saved."""
        return say_changes(request, obj)

    def after_saving(self, request: HttpRequest, obj: Any) -> str:
        """The URL of the page that follows."""
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        self.message_user(request, self.saved_text(request, obj), messages.SUCCESS)
        return redirect(self.after_saving(request, obj))

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        self.message_user(request, f"{obj} is added.", messages.SUCCESS)
        return redirect(self.after_saving(request, obj))

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        if row is None:
            return redirect("admin:index")
        if not self.has_view_or_change_permission(request, row):
            raise PermissionDenied
        rows = TrailEntry.objects.filter(kind=kind_of(row), object_id=str(row.pk))
        context = {
            **self.admin_site.each_context(request),
            "title": f"History of {getattr(row, 'name', None) or row}",
            "opts": self.opts,
            "original": row,
            "entries": [(entry, describe(entry)) for entry in rows[:MAX_HISTORY]],
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/engagement/history.html", context)


def remember(request: HttpRequest, row: Any) -> None:
    """Keep the row's state from before the request changes it."""
    states: dict[_Key, RowState | None] = request.META.setdefault(_STATES, {})
    key = (type(row), row.pk)
    if key not in states and find_followed(type(row)):
        states[key] = read_state(type(row), row.pk)


def record_row(request: HttpRequest, action: TrailEntry.Action, row: Any, note: str = "") -> None:
    """Add an entry about the row, with what changed in it since ``remember``."""
    model, now = type(row), read_state(type(row), row.pk)
    states: dict[_Key, RowState | None] = request.META.setdefault(_STATES, {})
    before = states.get((model, row.pk))
    changes: entries.Changes = {}
    if now is not None and action == Action.ADDED:
        changes = compare({}, now.values)
    elif now is not None and action == Action.DELETED:
        changes = compare(now.values, {})
    elif now is not None and before is not None:
        changes = compare(before.values, now.values)
    if now is not None:
        # A second change of the request starts from here.
        states[model, row.pk] = now
    request.META[_CHANGES] = changes
    entries.record(
        entries.actor_of(request),
        action,
        kind_of(row),
        product_id=now.product_id if now else None,
        object_id=row.pk,
        name=str(row),
        note=note,
        changes=changes,
    )


def kind_of(row: Any) -> str:
    followed = find_followed(type(row))
    return followed.kind if followed else str(row._meta.verbose_name)


def say_changes(request: HttpRequest, row: Any) -> str:
    """What the request changed in the row, in sentences: "Weight of Report_Shared is 5 now."."""
    changes: entries.Changes = request.META.get(_CHANGES, {})
    sentences = [
        f"{capfirst(label(name))} is {display(after).replace('–', 'not set')} now."
        for name, (_, after) in changes.items()
    ]
    if not sentences:
        return f"{row} is saved. Nothing was different."
    if more := len(sentences) - MAX_SENTENCES:
        sentences[MAX_SENTENCES:] = [f"{more} more changed."] if more > 0 else []
    return " ".join(sentences)


def _text(message: Any) -> str:
    """Django's message, a text or a list that says which fields a form changed, as text."""
    if isinstance(message, str):
        return message
    return str(LogEntry(change_message=json.dumps(message)).get_change_message())
