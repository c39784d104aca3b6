"""The admin pages of record destinations."""

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
from access.pages.scoping import ProductFilter, ProductSet, request_access
from access.trail.models_followed import follow
from destinations import runs, tasks, uploads
from destinations.admin.forms import APP, OPTIONS, DestinationForm, UploadForm, read_fields_again
from destinations.models import RecordDestination, RecordRun, Vendor
from destinations.vendors.base import VendorError
from engagement.models import Workspace

State, Kind = RecordDestination.State, RecordRun.Kind
LISTED_RUNS = 20
LEVELS = {State.DRAFT: "quiet", State.ACTIVE: "good", State.PAUSED: "bad"}
# What another look at all subjects follows from.
WHAT = ("match", "mapping", "id_field", "mode", "points")

follow(
    RecordDestination,
    "CRM",
    ("vendor", "scope", "state", "match", "mapping", *APP, *OPTIONS),
)


@admin.register(RecordDestination)
class RecordDestinationAdmin(OutboundFormAdmin):
    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["destinations/destinations.css"]}

    empty_text = (
        "There are no CRMs yet. One gets the scores and other facts of accounts or users into "
        "fields of its records."
    )
    credential_fields = ("key",)
    form = DestinationForm
    list_display = ["name", "mode", "state", "last_run"]
    list_filter = [("product", ProductFilter), "state"]
    list_select_related = ["product", "workspace__product"]
    ordering = ["product__name", "product_id", "id"]
    sortable_by = ()
    actions = None
    change_form_template = "admin/destinations/destination.html"
    extra_views = (
        ExtraView("start", permission="change", methods=("POST",)),
        ExtraView("pause", permission="change", methods=("POST",)),
        ExtraView("dry_run", permission="change", methods=("POST",)),
        ExtraView("send_now", permission="change", methods=("POST",)),
        ExtraView("read_fields", permission="change", methods=("POST",)),
        ExtraView("links", permission="change"),
    )

    def changeable_products(self, request: HttpRequest) -> ProductSet:
        return request_access(request).connectable

    @admin.display(description="CRM")
    def name(self, destination: RecordDestination) -> str:
        return str(destination)

    @admin.display(description="last run")
    def last_run(self, destination: RecordDestination) -> str:
        last = destination.runs.first()
        return last.get_state_display() if last else "None yet"

    # --- The form -----------------------------------------------------------------------------

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return [(None, {"fields": [("workspace", "vendor", "scope"), APP, "key"]})]
        if not self.has_change_permission(request, obj):
            return [(None, {"fields": list(OPTIONS)})]
        rows = DestinationForm(request.POST or None, instance=obj).row_names()
        app = [APP] if obj.vendor == Vendor.SALESFORCE else []
        return [
            ("Which record is whose", {"fields": [("match_source", "match_field")]}),
            ("What it gets", {"fields": rows}),
            (
                "More",
                {
                    "classes": ["collapse"],
                    "fields": [("mode", "id_field"), *OPTIONS[2:], *app, "key"],
                },
            ),
        ]

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        # The form adds the others itself.
        names = flatten([each[1]["fields"] for each in self.get_fieldsets(request, obj)])
        own = {field.name for field in self.opts.fields} - {"key"}
        kwargs["fields"] = [name for name in flatten(names) if name in own]
        form: Any = super().get_form(request, obj, change, **kwargs)
        if workspaces := form.base_fields.get("workspace"):
            # Who may connect a product need not manage it.
            rows = Workspace.objects.select_related("product").order_by("product__name", "id")
            rows = self.changeable_products(request).filter_rows(rows, "product")
            product = find_place(request).product_id
            workspaces.queryset = rows if product is None else rows.filter(product=product)
            workspaces.empty_label = None
        return form

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        return {"workspace": find_place(request).workspace_id, "vendor": "hubspot"}

    def save_model(
        self, request: HttpRequest, obj: RecordDestination, form: Any, change: bool
    ) -> None:
        assert isinstance(form, DestinationForm)
        now, values = timezone.now(), form.new_values()
        if not change:
            obj.product_id = obj.workspace.product_id
            obj.base_url = request.build_absolute_uri("/").rstrip("/")
            for name, value in values.items():
                setattr(obj, name, value)
            obj.save()
            text = f"{obj.get_vendor_display()} accepts the key. Choose what its records get."
            self.message_user(request, text, messages.SUCCESS)
            return
        before = RecordDestination.objects.get(pk=obj.pk)
        if any(name in values and getattr(before, name) != values[name] for name in WHAT):
            runs.stop_unfinished(before, "Somebody edited what is sent.", now)
            values |= {"cursor": {}, "next_run_at": now if before.state == State.ACTIVE else None}
        RecordDestination.objects.filter(pk=obj.pk).update(**values)
        obj.match, obj.mapping = values["match"], values["mapping"]
        if before.state == State.DRAFT:
            self._request(request, obj, Kind.DRY)

    def response_add(
        self, request: HttpRequest, obj: RecordDestination, post_url_continue: str | None = None
    ) -> HttpResponse:
        return redirect(self.view_url("change", obj))

    def response_change(self, request: HttpRequest, obj: RecordDestination) -> HttpResponse:
        return redirect(self.view_url("change", obj))

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """Its runs and links go with it, although nobody may delete one alone."""
        lines = [f"{each}, with its runs and links; records stay as they are" for each in objs]
        return self.summarize_deletion(request, lines, len(lines))

    # --- The page -----------------------------------------------------------------------------

    def page_actions(self, request: HttpRequest, obj: RecordDestination) -> Sequence[PageAction]:
        if not self.has_change_permission(request, obj):
            return []
        names = [("Read fields again", "read_fields")]
        if obj.mapping:
            more = [("Dry run", "dry_run")]
            if obj.state == State.ACTIVE:
                more = [("Send now", "send_now"), ("Pause", "pause"), *more]
            else:
                more = [("Start", "start"), *more]
            names = [*more, *names]
        actions = [PageAction(label, self.view_url(name, obj), post=True) for label, name in names]
        return [*actions, PageAction("Upload links", self.view_url("links", obj))]

    def page_context(self, request: HttpRequest, obj: RecordDestination) -> dict[str, Any]:
        latest = list(obj.runs.all()[:LISTED_RUNS])
        dry = next((run for run in latest if run.kind == Kind.DRY and run.finished_at), None)
        return {
            "destination": obj,
            "level": "warning" if runs.problem(obj) else LEVELS[State(obj.state)],
            "problem": runs.problem(obj),
            "runs": latest,
            "is_running": bool(latest) and latest[0].state in RecordRun.UNFINISHED,
            "dry": dry if dry and dry.state == RecordRun.State.DONE else None,
            "linked": obj.links.filter(state="linked").count(),
            "links_url": self.view_url("links", obj),
        }

    # --- Buttons ------------------------------------------------------------------------------

    def start_view(self, request: HttpRequest, obj: RecordDestination) -> HttpResponseBase:
        if obj.mapping:
            runs.start(obj, timezone.now())
            self.log_change(request, obj, "Started.")
            tasks.request_run()
            text = "Started. Reload the page to see the first run."
            self.message_user(request, text, messages.SUCCESS)
        else:
            self.message_user(request, "Choose first what the records get.", messages.ERROR)
        return redirect(self.view_url("change", obj))

    def pause_view(self, request: HttpRequest, obj: RecordDestination) -> HttpResponseBase:
        runs.pause(obj, f"Paused by {request.user}.", timezone.now())
        self.log_change(request, obj, "Paused.")
        self.message_user(request, "Paused. Nothing more is sent.", messages.SUCCESS)
        return redirect(self.view_url("change", obj))

    def dry_run_view(self, request: HttpRequest, obj: RecordDestination) -> HttpResponseBase:
        return self._requested(request, obj, Kind.DRY)

    def send_now_view(self, request: HttpRequest, obj: RecordDestination) -> HttpResponseBase:
        return self._requested(request, obj, runs.due_kind(obj, timezone.now()))

    def _requested(
        self, request: HttpRequest, obj: RecordDestination, kind: RecordRun.Kind
    ) -> HttpResponseBase:
        if kind != Kind.DRY and obj.state != State.ACTIVE:
            self.message_user(request, "Start it first.", messages.ERROR)
        elif not obj.mapping:
            self.message_user(request, "Choose first what the records get.", messages.ERROR)
        else:
            self._request(request, obj, kind)
        return redirect(self.view_url("change", obj))

    def _request(self, request: HttpRequest, obj: RecordDestination, kind: RecordRun.Kind) -> None:
        if runs.request_run(obj, kind, timezone.now(), str(request.user)):
            self.log_change(request, obj, f"Requested a run ({kind.label.lower()}).")
            tasks.request_run()
            text = f"{kind.label}: it begins in a moment. Reload the page to see how far it is."
            self.message_user(request, text, messages.SUCCESS)
        else:
            text = "A run is already under way. Wait until it ends."
            self.message_user(request, text, messages.WARNING)

    def read_fields_view(self, request: HttpRequest, obj: RecordDestination) -> HttpResponseBase:
        try:
            count = read_fields_again(obj)
        except VendorError as error:
            self.message_user(request, str(error), messages.ERROR)
        else:
            self.message_user(request, f"{count:,} fields are offered.", messages.SUCCESS)
        return redirect(self.view_url("change", obj))

    def links_view(self, request: HttpRequest, obj: RecordDestination) -> HttpResponseBase:
        """Ask for a file of links, and store it."""
        form = UploadForm(request.POST or None, request.FILES or None)
        if request.method == "POST" and form.is_valid():
            try:
                count = uploads.store_pairs(obj, form.cleaned_data["file"].read())
            except uploads.UploadRefused as error:
                form.add_error("file", f"Nothing was stored. {error}")
            else:
                self.log_change(request, obj, f"Uploaded {count:,} links.")
                self.message_user(request, f"{count:,} links are stored.", messages.SUCCESS)
                return redirect(self.view_url("change", obj))
        return self.render_page(
            request,
            "admin/destinations/links.html",
            "Upload links",
            original=obj,
            form=form,
            back=self.view_url("change", obj),
        )
