"""The admin pages of scheduled exports."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.utils import flatten
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone

from access.pages.pages import ExtraView, OutboundFormAdmin, PageAction
from access.pages.place import find_place
from access.pages.scoping import ProductFilter
from access.trail.models_followed import follow
from core.fields import DecryptionError
from exports import runs, schedule, tables, tasks
from exports.admin.forms import SECRETS, STORE_FIELDS, ScheduledExportForm
from exports.models import ExportRun, ScheduledExport, Table
from exports.stores import StoreError, verify

Kind, State = ScheduledExport.StoreKind, ExportRun.State
LISTED_RUNS = 20
_NO_FILE = "The test file could not be written."
LEVELS = {
    State.WAITING: "quiet",
    State.RUNNING: "quiet",
    State.DONE: "good",
    State.FAILED: "bad",
    State.STOPPED: "warning",
}

# Of the store only what is no secret.
follow(
    ScheduledExport,
    "scheduled export",
    (
        *("name", "segment__name", "view__name", "tables", "extent", "format"),
        *("schedule", "weekday", "hour", "is_enabled"),
        *("store_kind", "endpoint", "region", "bucket", "folder"),
        *("host", "port", "database", "schema", "user_name", "tls", "ca"),
    ),
)


@admin.register(ScheduledExport)
class ScheduledExportAdmin(OutboundFormAdmin):
    empty_text = (
        "There are no scheduled exports yet. One writes accounts, users, and "
        "scores to files or to a database, every day or every week."
    )
    credential_fields = SECRETS
    form = ScheduledExportForm
    list_display = ["name", "tables_label", "schedule_label", "store_label", "state_label"]
    list_filter = [("product", ProductFilter), "is_enabled"]
    list_select_related = ["product", "workspace"]
    search_fields = ["name"]
    ordering = ["product__name", "product_id", "name", "id"]
    sortable_by = ()
    actions = None
    change_form_template = "admin/exports/export.html"
    extra_views = (
        ExtraView("run_now", permission="change", methods=("POST",)),
        ExtraView("write_everything", permission="change", methods=("POST",)),
        ExtraView("verify", permission="change", methods=("POST",)),
        ExtraView("stop", permission="change", methods=("POST",)),
    )

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["exports/exports.css"]}

    # --- The list -----------------------------------------------------------------------------

    @admin.display(description="tables")
    def tables_label(self, export: ScheduledExport) -> str:
        names = ", ".join(Table(table).label for table in export.tables)
        source = tables.describe_source(export)
        return f"{names}: {source}" if source else names

    @admin.display(description="runs")
    def schedule_label(self, export: ScheduledExport) -> str:
        return schedule.describe(export)

    @admin.display(description="to")
    def store_label(self, export: ScheduledExport) -> str:
        return describe_store(export)

    @admin.display(description="last run")
    def state_label(self, export: ScheduledExport) -> str:
        if export.verified_at is None:
            return "Not verified"
        last = export.runs.order_by("-id").first()
        return last.get_state_display() if last else "None yet"

    # --- The form -----------------------------------------------------------------------------

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        kind = Kind(obj.store_kind) if obj else _chosen_kind(request)
        store = STORE_FIELDS[kind]
        how: Any = "extent" if kind == Kind.POSTGRES else ("extent", "format")
        what = ["name", "source", "tables", how, ("schedule", "weekday", "hour")]
        if obj and not self.has_change_permission(request, obj):
            # Django shows the stored names of the tables.
            what[1:3] = ["tables_label"]
            return [*what, "is_enabled", *(each for each in store if each not in SECRETS)]
        return [*([] if obj else [("workspace", "store_kind")]), *what, "is_enabled", *store]

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        # The form declares the keys itself.
        names = flatten(self.get_fields(request, obj))
        kwargs["fields"] = [name for name in names if name not in SECRETS]
        form: Any = super().get_form(request, obj, change, **kwargs)
        product, workspaces = find_place(request).product_id, form.base_fields.get("workspace")
        if obj is None and product is not None and workspaces:
            workspaces.queryset = workspaces.queryset.filter(product=product)
        return form

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {
            "store_kind": _chosen_kind(request),
            "workspace": find_place(request).workspace_id,
            "source": request.GET.get("source", ""),
        }

    def save_model(
        self, request: HttpRequest, obj: ScheduledExport, form: Any, change: bool
    ) -> None:
        assert isinstance(form, ScheduledExportForm)
        now, values = timezone.now(), form.new_values()
        has_new_store = form.has_new_store
        if change and form.is_another_export:
            runs.stop_unfinished(obj, "Somebody edited the export.", now)
            values["cursor"] = {}
        if has_new_store:
            values["verified_at"] = None
        if change:
            ScheduledExport.objects.filter(pk=obj.pk).update(**values)
        else:
            obj.product_id = obj.workspace.product_id
            for name in SECRETS:
                setattr(obj, name, values.get(name, ""))
            obj.save()
        if has_new_store:
            self._verify(request, obj)
        _plan(obj.pk)

    def response_add(
        self, request: HttpRequest, obj: ScheduledExport, post_url_continue: str | None = None
    ) -> HttpResponse:
        return redirect(self.view_url("change", obj))

    def response_change(self, request: HttpRequest, obj: ScheduledExport) -> HttpResponse:
        return redirect(self.view_url("change", obj))

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Its runs go with the export, although nobody may delete one alone. Its files stay."""
        lines = [f"{export}, with the list of its runs" for export in objs]
        return self.summarize_deletion(request, lines, len(lines))

    # --- The page -----------------------------------------------------------------------------

    def page_actions(self, request: HttpRequest, obj: ScheduledExport) -> Sequence[PageAction]:
        if not self.has_change_permission(request, obj):
            return []
        label = "Try the connection" if obj.store_kind == Kind.POSTGRES else "Verify"
        verify_action = PageAction(label, self.view_url("verify", obj), post=True)
        if obj.verified_at is None:
            return [verify_action]
        if _unfinished(obj):
            return [PageAction("Stop", self.view_url("stop", obj), post=True)]
        run_now = PageAction("Run now", self.view_url("run_now", obj), post=True)
        if not obj.cursor:
            return [run_now, verify_action]
        everything = PageAction(
            "Write everything", self.view_url("write_everything", obj), post=True
        )
        return [run_now, everything, verify_action]

    def page_context(self, request: HttpRequest, obj: ScheduledExport) -> dict[str, Any]:
        latest = list(obj.runs.order_by("-id")[:LISTED_RUNS])
        last = next((run for run in latest if run.state not in ExportRun.UNFINISHED), None)
        return {
            "export": obj,
            "store_label": describe_store(obj),
            "schedule_label": schedule.describe(obj),
            "runs": latest,
            "last": last,
            "level": _level(obj, last),
        }

    def form_context(
        self, request: HttpRequest, context: dict[str, Any], obj: Any
    ) -> dict[str, Any]:
        context_of_row = super().form_context(request, context, obj)
        export = context["adminform"].form.instance
        return context_of_row | (_preview(request, export) if export.workspace_id else {})

    # --- Buttons ------------------------------------------------------------------------------

    def run_now_view(self, request: HttpRequest, export: ScheduledExport) -> HttpResponseBase:
        if export.verified_at is None:
            self.message_user(request, "Verify the store first.", messages.ERROR)
        elif runs.request_run(export, timezone.now(), str(request.user)):
            self.log_change(request, export, "Requested a run.")
            tasks.request_run()
            text = "The run begins in a moment. Reload the page to see how far it is."
            self.message_user(request, text, messages.SUCCESS)
        else:
            text = "A run is already under way. Wait until it ends, or stop it."
            self.message_user(request, text, messages.WARNING)
        return redirect(self.view_url("change", export))

    def write_everything_view(
        self, request: HttpRequest, export: ScheduledExport
    ) -> HttpResponseBase:
        if export.verified_at is None:
            self.message_user(request, "Verify the store first.", messages.ERROR)
            return redirect(self.view_url("change", export))
        runs.write_everything(export, timezone.now(), str(request.user))
        self.log_change(request, export, "Requested a complete run.")
        tasks.request_run()
        self.message_user(request, "A complete run begins in a moment.", messages.SUCCESS)
        return redirect(self.view_url("change", export))

    def stop_view(self, request: HttpRequest, export: ScheduledExport) -> HttpResponseBase:
        runs.stop_unfinished(export, f"Stopped by {request.user}.", timezone.now())
        self.log_change(request, export, "Stopped the run.")
        text = "The run is stopped. Its folder has no manifest."
        self.message_user(request, text, messages.SUCCESS)
        return redirect(self.view_url("change", export))

    def verify_view(self, request: HttpRequest, export: ScheduledExport) -> HttpResponseBase:
        self._verify(request, export)
        is_database = export.store_kind == Kind.POSTGRES
        note = "Tried the connection." if is_database else "Wrote a test file."
        self.log_change(request, export, note)
        _plan(export.pk)
        return redirect(self.view_url("change", export))

    def _verify(self, request: HttpRequest, export: ScheduledExport) -> None:
        is_database = export.store_kind == Kind.POSTGRES
        try:
            verify(ScheduledExport.objects.defer(None).get(pk=export.pk))
        except (StoreError, DecryptionError) as error:
            text = "The database cannot be used." if is_database else _NO_FILE
            self.message_user(request, f"{text} {error}", messages.ERROR)
            return
        ScheduledExport.objects.filter(pk=export.pk).update(verified_at=timezone.now())
        works = "The connection works." if is_database else "A test file was written and deleted."
        self.message_user(request, f"{works} The export can run.", messages.SUCCESS)


def _preview(request: HttpRequest, export: ScheduledExport) -> dict[str, Any]:
    """The first rows of a file, also before the export is saved."""
    names = [table for table in request.POST.getlist("tables") if table in Table.values]
    export.tables = names or export.tables or [Table.ACCOUNTS]
    try:
        preview = runs.preview(export, request.GET.get("table", ""), timezone.now())
    except tables.SourceLost as error:
        return {"no_preview": str(error)}
    return {"preview": preview, "tables": [(each, Table(each).label) for each in export.tables]}


def describe_store(export: ScheduledExport) -> str:
    """Where the rows go, in one line."""
    if export.store_kind == Kind.FOLDER:
        return f"Folder {store_path(export)}"
    if export.store_kind == Kind.POSTGRES:
        return f"PostgreSQL {store_path(export)}"
    return store_path(export)


def store_path(export: ScheduledExport) -> str:
    """What the paths of all files begin with, or the schema of a database."""
    if export.store_kind == Kind.POSTGRES:
        return f"{export.host}/{export.database}/{export.schema}"
    if export.store_kind == Kind.FOLDER:
        return "/".join(part for part in (f"product-{export.product_id}", export.folder) if part)
    place = export.endpoint.partition("://")[2] if export.endpoint else "AWS S3"
    return "/".join(part for part in (place, export.bucket, export.folder) if part)


def _plan(pk: int) -> None:
    """Set the time of the export's next run, as its schedule and state say."""
    export = ScheduledExport.objects.get(pk=pk)
    at = schedule.next_run_at(export, timezone.now())
    ScheduledExport.objects.filter(pk=pk).update(next_run_at=at)


def _level(export: ScheduledExport, last: ExportRun | None) -> str:
    if export.verified_at is None:
        return "warning"
    return LEVELS[State(last.state)] if last else "quiet"


def _unfinished(export: ScheduledExport) -> bool:
    return export.runs.filter(state__in=ExportRun.UNFINISHED).exists()


def _chosen_kind(request: HttpRequest) -> ScheduledExport.StoreKind:
    """The store whose fields the form of a new export has."""
    kind = request.POST.get("store_kind") or request.GET.get("store_kind", "")
    return Kind(kind) if kind in Kind.values else Kind.S3
