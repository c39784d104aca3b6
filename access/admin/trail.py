"""The trail in the admin: a product's for its managers, and all of it for superusers."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone

from access.models import TrailEntry
from access.pages.csv_file import csv_response
from access.pages.labels import RenamedOptions
from access.pages.pages import NOTHING, ExtraView, ProductColumnAdmin
from access.pages.scoping import ProductFilter, ReadOnly, request_access
from access.trail import entries, sentences
from access.trail.models_followed import follow_domain, followed_models
from core.time_format import format_ago, format_exact

follow_domain()

# Kinds of entries that are about no row of a followed model.
OTHER_KINDS = ("sign-in", "export", "user", "account")
HEADER = (
    "time",
    "product",
    "person",
    "address",
    "action",
    "kind",
    "id",
    "name",
    "note",
    "changes",
    "sentence",
)


class KindFilter(admin.SimpleListFilter):
    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        kinds = {followed.kind for followed in followed_models().values()} | set(OTHER_KINDS)
        return [(kind, kind.capitalize()) for kind in sorted(kinds)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(kind=self.value()) if self.value() else queryset


class TimeFilter(admin.DateFieldListFilter):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = "time"


class PersonFilter(admin.SimpleListFilter):
    """The people of the last entries."""

    title = "person"
    parameter_name = "person"
    # Of the last entries, so that the list needs no second walk through all.
    ENTRIES = 2_000

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        rows = model_admin.get_queryset(request).order_by("-id").values_list("person", flat=True)
        return [(name, name) for name in sorted(set(rows[: self.ENTRIES])) if name]

    def has_output(self) -> bool:
        return bool(self.lookup_choices) or self.value() is not None

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(person=self.value()) if self.value() else queryset


@admin.register(TrailEntry)
class TrailAdmin(RenamedOptions, ReadOnly, ProductColumnAdmin):
    names = ("entry", "entries")
    list_display = ["ago", "sentence", "product"]
    list_select_related = ["product"]
    list_filter = [
        ("product", ProductFilter),
        "action",
        KindFilter,
        PersonFilter,
        ("at", TimeFilter),
    ]
    search_fields = ["person", "object_name", "note", "address"]
    search_help_text = "Search by person, name, note, or address."
    ordering = ["-id"]
    fields: ClassVar[Any] = [
        *("time", "product", "person", "address", "action", "kind", "row_id", "name"),
        *("sentence", "note", "changed"),
    ]
    readonly_fields = fields
    list_per_page = 50
    empty_text = "Nothing that people did is in the trail yet."
    extra_views: ClassVar[Sequence[ExtraView]] = [
        ExtraView("export", permission="view", methods=("GET",), needs_row=False)
    ]
    change_list_template = "admin/engagement/trail.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        return request_access(request).managed.filter_rows(rows, "product")

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(request_access(request).managed)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request_access(request).managed)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        query = request.GET.urlencode()
        url = self.view_url("export") + (f"?{query}" if query else "")
        context = {"title": "Trail", "export_url": url, **(extra_context or {})}
        return super().changelist_view(request, context)

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Download the entries that the list shows with these filters."""
        try:
            rows = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters:
            return redirect(self.view_url("changelist"))
        entries.record(entries.actor_of(request), entries.Action.EXPORTED, "export", note="Trail.")
        return csv_response("trail", HEADER, _cells(rows.select_related("product")))

    def page_context(self, request: HttpRequest, obj: TrailEntry) -> dict[str, Any]:
        # Nobody changes an entry.
        return {"has_history": False}

    @admin.display(description="time", ordering="at")
    def ago(self, entry: TrailEntry) -> str:
        return format_ago(entry.at, timezone.now())

    @admin.display(description="time")
    def time(self, entry: TrailEntry) -> str:
        return format_exact(entry.at)

    @admin.display(description="id")
    def row_id(self, entry: TrailEntry) -> str:
        return entry.object_id or NOTHING

    @admin.display(description="name", ordering="object_name")
    def name(self, entry: TrailEntry) -> str:
        return entry.object_name or NOTHING

    @admin.display(description="changes")
    def changed(self, entry: TrailEntry) -> str:
        return "\n".join(sentences.describe_changes(entry)) or NOTHING

    @admin.display(description="what")
    def sentence(self, entry: TrailEntry) -> str:
        return sentences.describe(entry)


def _cells(rows: QuerySet[TrailEntry]) -> Iterator[Sequence[Any]]:
    for entry in rows.iterator(chunk_size=1_000):
        yield (
            entry.at.isoformat(),
            entry.product or "",
            entry.person,
            entry.address,
            entry.get_action_display(),
            entry.kind,
            entry.object_id,
            entry.object_name,
            entry.note,
            "\n".join(sentences.describe_changes(entry)),
            sentences.describe(entry),
        )
