"""The admin pages of the runs of scheduled exports."""

from typing import ClassVar

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from access.pages.listing import LargeTableAdmin
from access.pages.pages import RowPageAdmin
from access.pages.scoping import ProductFilter
from core.models import Job
from exports.admin.exports import LEVELS, store_path
from exports.models import ExportRun
from exports.runs import KIND

LISTED_FILES = 500


@admin.register(ExportRun)
class ExportRunAdmin(LargeTableAdmin, RowPageAdmin):
    empty_text = "There are no runs yet. Each run of a scheduled export is listed here."
    list_display = ["export", "requested_at", "state", "row_count", "error"]
    list_filter = [("product", ProductFilter), "state"]
    list_select_related = ["export"]
    ordering = ["-id"]

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["exports/exports.css"]}

    @admin.display(description="rows")
    def row_count(self, run: ExportRun) -> str:
        return f"{run.rows:,}"

    def row_page(self, request: HttpRequest, obj: ExportRun) -> HttpResponse:
        end = obj.finished_at or timezone.now()
        return self.render_page(
            request,
            "admin/exports/run.html",
            f"{obj.export}, run {obj.pk}",
            original=obj,
            job=Job.objects.filter(kind=KIND, key=obj.pk).first(),
            export=obj.export,
            level=LEVELS[ExportRun.State(obj.state)],
            seconds=(end - obj.started_at).total_seconds() if obj.started_at else None,
            place=f"{store_path(obj.export)}/{obj.folder}" if obj.folder else "",
            percent=_percent(obj),
            files=obj.files.order_by("id")[:LISTED_FILES],
        )


def _percent(run: ExportRun) -> int | None:
    """About how far an unfinished run is."""
    if run.state not in ExportRun.UNFINISHED or not run.expected_rows:
        return None
    return min(99, 100 * run.rows // run.expected_rows)
