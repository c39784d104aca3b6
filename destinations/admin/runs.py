"""The admin pages of the runs of record destinations."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone

from access.pages.listing import LargeTableAdmin
from access.pages.pages import ExtraView, PageAction, RowPageAdmin
from access.pages.scoping import ProductFilter, ProductSet, request_access
from access.pages.subject_urls import subject_url
from core.models import Job
from destinations import runs, tasks
from destinations.models import RecordDestination, RecordLink, RecordRun
from engagement.metric_names import Scope
from engagement.scopes import get_kind

LISTED_ROWS = 100
LEVELS = {"done": "good", "failed": "bad", "stopped": "warning"}
# The rows that a run lists, by their number's name.
ROWS = {"rejected": "rejected", "ambiguous": "ambiguous", "skipped": "unmatched"}


@admin.register(RecordRun)
class RecordRunAdmin(LargeTableAdmin, RowPageAdmin):
    empty_text = "There are no runs yet. Each run of a CRM is listed here."
    list_display = ["destination", "kind", "requested_at", "state", "updated", "rejected", "error"]
    list_filter = [("product", ProductFilter), "state", "kind"]
    list_select_related = ["destination__workspace__product"]
    ordering = ["-id"]
    extra_views = (ExtraView("retry", permission="retry", methods=("POST",)),)

    def changeable_products(self, request: HttpRequest) -> ProductSet:
        return request_access(request).connectable

    def has_retry_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_change(request, obj)

    def row_page(self, request: HttpRequest, obj: RecordRun) -> HttpResponse:
        tab = request.GET.get("rows", "")
        counts = {name: getattr(obj, name) for name in ROWS if getattr(obj, name)}
        tab = tab if tab in counts else next(iter(counts), "")
        end = obj.finished_at or timezone.now()
        return self.render_page(
            request,
            "admin/destinations/run.html",
            str(obj),
            original=obj,
            page_actions=self._actions(request, obj),
            job=Job.objects.filter(kind=runs.KIND, key=obj.pk).first(),
            level=LEVELS.get(obj.state, "quiet"),
            numbers=[(name.capitalize(), getattr(obj, name)) for name in RecordRun.COUNTERS],
            seconds=(end - obj.started_at).total_seconds() if obj.started_at else None,
            tabs=[(name, count, name == tab) for name, count in counts.items()],
            rows=self._rows(obj, ROWS[tab]) if tab else [],
            listed=LISTED_ROWS,
        )

    def _rows(self, run: RecordRun, state: str) -> list[tuple[str, RecordLink]]:
        """Links that the run decided like that, as they are now, with the pages of the subjects."""
        destination = run.destination
        links = destination.links.filter(state=state, run=run.pk).order_by("subject_id")
        scope: Scope = "account" if destination.scope == "account" else "user"
        model = get_kind(scope).model
        return [
            (subject_url(model(pk=link.subject_id), scope, destination.workspace_id), link)
            for link in links[:LISTED_ROWS]
        ]

    def _actions(self, request: HttpRequest, obj: RecordRun) -> Sequence[PageAction]:
        if not obj.rejected or not self.may_change(request, obj):
            return []
        return [PageAction("Retry rejected rows", self.view_url("retry", obj), post=True)]

    def retry_view(self, request: HttpRequest, run: RecordRun) -> HttpResponseBase:
        destination, now = run.destination, timezone.now()
        if destination.state != RecordDestination.State.ACTIVE:
            self.message_user(request, "Start the destination first.", messages.ERROR)
        elif runs.request_run(destination, RecordRun.Kind.RETRY, now, str(request.user)):
            tasks.request_run()
            text = "All rows that are rejected now are sent again. The retry is a run of its own."
            self.message_user(request, text, messages.SUCCESS)
        else:
            text = "A run is already under way. Wait until it ends."
            self.message_user(request, text, messages.WARNING)
        return redirect(self.view_url("change", run))
