"""The admin pages of a marketplace connection: its status and history, and its details form."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import transaction
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone

from access.admin.products import LinkedInline, ProductAdmin
from access.pages.pages import ExtraView, OutboundFormAdmin, PageAction, RowPageAdmin
from access.pages.scoping import ProductFilter, ProductSet, request_access
from access.trail.models_followed import follow
from engagement import tasks
from engagement.models import Seats
from engagement.segments import seats
from marketplace import connecting
from marketplace.admin.forms import ConnectionForm, SeatsForm
from marketplace.connecting import VerifiedDetails
from marketplace.models import Connection, SyncRun
from marketplace.runs import report_sources, scheduling
from marketplace.source import client
from marketplace.status import connection_status

follow(
    Connection,
    "connection",
    (
        *("state", "vendor_id", "app_product_id", "app_name", "token_expires_on"),
        "includes_staff_licenses",
    ),
)

State = Connection.State


class ConnectionInline(LinkedInline):
    """The connection on its product's page."""

    model = Connection
    tab = "marketplace"
    fields = readonly_fields = ("app_name", "state", "last_success_at", "last_error_at")

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        formset = super().get_formset(request, obj, **kwargs)
        formset.may_add = formset.may_add and not Connection.objects.filter(product=obj).exists()
        return formset


ProductAdmin.add_inline(ConnectionInline)


@admin.register(Connection)
class ConnectionAdmin(OutboundFormAdmin, RowPageAdmin):
    credential_fields = ("api_token",)
    form = ConnectionForm
    fields = ["product", "user_name", "api_token", "token_expires_on", "vendor_id", "product_id"]
    fields += ["includes_staff_licenses"]
    add_form_template = change_form_template = "admin/marketplace/details.html"
    list_display = ["product", "app_name", "state", "last_success_at", "last_error_at"]
    list_display_links = ["product", "app_name"]
    list_filter = ["state", ("product", ProductFilter)]
    list_select_related = ["product"]
    ordering = ["product__name", "product_id"]
    actions = None
    extra_views = (
        ExtraView("details", "change"),
        ExtraView("status", "view"),
        ExtraView("test", "change", methods=("POST",)),
        ExtraView("sync", "change", methods=("POST",)),
        ExtraView("full_sync", "change", methods=("POST",)),
        ExtraView("read_history", "change", methods=("POST",)),
        ExtraView("seats", "change"),
        ExtraView("disconnect", "change"),
    )

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["marketplace/connection.css"]}

    # --- Permissions --------------------------------------------------------------------------

    def changeable_products(self, request: HttpRequest) -> ProductSet:
        return request_access(request).connectable

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Connections are disconnected instead: their history stays visible.
        return False

    # --- Entering the details -----------------------------------------------------------------

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        # The form declares the values itself; only the product comes from the model.
        return super().get_form(request, obj, change, **{**kwargs, "fields": ["product"]})

    def details_view(self, request: HttpRequest, connection: Connection) -> HttpResponseBase:
        page: HttpResponseBase = self.changeform_view(request, str(connection.pk))
        return page

    def save_model(
        self, request: HttpRequest, obj: Connection, form: "ModelForm[Any]", change: bool
    ) -> None:
        assert isinstance(form, ConnectionForm)
        saved = connecting.save_connection(
            obj.product, form.verified_details, timezone.now(), form.options()
        )
        obj.pk, obj.app_name = saved.pk, saved.app_name
        self._announce(request, obj, form.verified_details)

    def _announce(
        self, request: HttpRequest, connection: Connection, verified: VerifiedDetails
    ) -> None:
        message = f"{connection.product} is connected to {connection.app_name}."
        if verified.report_problem:
            self.message_user(request, f"{message} {verified.report_problem}", messages.WARNING)
        else:
            self.message_user(request, f"{message} A sync is starting.", messages.SUCCESS)

    def response_add(
        self, request: HttpRequest, obj: Connection, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self.response_change(request, obj)

    def response_change(self, request: HttpRequest, obj: Connection) -> HttpResponse:
        return redirect(self.view_url("change", obj))

    # --- Status -------------------------------------------------------------------------------

    def row_page(self, request: HttpRequest, obj: Connection) -> HttpResponse:
        return self.render_page(
            request,
            "admin/marketplace/connection.html",
            str(obj),
            original=obj,
            page_actions=self.page_actions(request, obj),
            status_url=self.view_url("status", obj),
            **self._status_context(request, obj),
        )

    def status_view(self, request: HttpRequest, connection: Connection) -> HttpResponseBase:
        """The part of the page that a running sync changes."""
        context = self._status_context(request, connection)
        return TemplateResponse(request, "admin/marketplace/status.html", context)

    def _status_context(self, request: HttpRequest, connection: Connection) -> dict[str, Any]:
        may_manage = self.has_change_permission(request, connection)
        return {
            "status": connection_status.connection_status(
                connection, timezone.now(), may_manage=may_manage
            ),
            "may_manage": may_manage,
            "details_url": self.view_url("details", connection),
            "seats": connection.product.seats,
            "seats_url": self.view_url("seats", connection),
        }

    def page_actions(self, request: HttpRequest, obj: Connection) -> Sequence[PageAction]:
        if not self.has_change_permission(request, obj):
            return []
        details = PageAction(
            "Replace details" if obj.state == State.ACTIVE else "Enter details",
            self.view_url("details", obj),
        )
        disconnect = PageAction("Disconnect", self.view_url("disconnect", obj))
        match State(obj.state):
            case State.ACTIVE:
                return [
                    PageAction("Test connection", self.view_url("test", obj), post=True),
                    PageAction("Sync now", self.view_url("sync", obj), post=True),
                    PageAction("Full sync", self.view_url("full_sync", obj), post=True),
                    PageAction("Read history", self.view_url("read_history", obj), post=True),
                    details,
                    disconnect,
                ]
            case State.REQUIRES_AUTHENTICATION:
                return [details, disconnect]
        return [details]

    # --- Buttons ------------------------------------------------------------------------------

    def test_view(self, request: HttpRequest, connection: Connection) -> HttpResponseBase:
        try:
            now = timezone.now()
            message = connecting.verify_stored_details(connection, client.create_client, now)
        except connecting.DetailsRejected as rejected:
            self.message_user(request, rejected.message, messages.ERROR)
        else:
            self.message_user(request, message, messages.SUCCESS)
        return redirect(self.view_url("change", connection))

    def sync_view(self, request: HttpRequest, connection: Connection) -> HttpResponseBase:
        return self._sync(request, connection, SyncRun.Kind.RECENT)

    def full_sync_view(self, request: HttpRequest, connection: Connection) -> HttpResponseBase:
        return self._sync(request, connection, SyncRun.Kind.FULL)

    def _sync(
        self, request: HttpRequest, connection: Connection, kind: SyncRun.Kind
    ) -> HttpResponseBase:
        try:
            run = scheduling.request_sync(connection, kind, timezone.now())
        except scheduling.ConnectionInactive as inactive:
            self.message_user(request, str(inactive), messages.ERROR)
        else:
            kind_name = run.get_kind_display().lower()
            self.log_change(request, connection, f"Requested a sync ({kind_name}).")
            self.message_user(request, "A sync is starting. This page shows its progress.")
        return redirect(self.view_url("change", connection))

    def read_history_view(self, request: HttpRequest, connection: Connection) -> HttpResponseBase:
        report_sources.request_history(connection, timezone.now())
        self.log_change(request, connection, "Requested the history of licenses.")
        self.message_user(request, "The history is read in the background. It may take hours.")
        return redirect(self.view_url("change", connection))

    def seats_view(self, request: HttpRequest, connection: Connection) -> HttpResponseBase:
        """Ask whom the licenses are for, and store the answer."""
        product = connection.product
        stored = {"licensed_for": product.licensed_for, "has_site_users": product.has_site_users}
        form = SeatsForm(request.POST or None, initial=stored)
        back = self.view_url("change", connection)
        if request.method != "POST" or not form.is_valid():
            title, template = "Seats", "admin/marketplace/seats.html"
            return self.render_page(
                request, template, title, original=connection, form=form, back=back
            )
        values = form.cleaned_data
        seats.choose_seats(
            product, Seats(values["licensed_for"]), has_site_users=values["has_site_users"]
        )
        transaction.on_commit(tasks.request_rescore)
        self.log_change(request, connection, f"Changed seats: {product.seats.label}.")
        self.message_user(request, f"Seats: {product.seats.label}.", messages.SUCCESS)
        return redirect(back)

    def disconnect_view(self, request: HttpRequest, connection: Connection) -> HttpResponseBase:
        if request.method != "POST":
            return self.render_page(
                request,
                "admin/marketplace/disconnect.html",
                "Disconnect",
                original=connection,
                back=self.view_url("change", connection),
            )
        connecting.disconnect(connection, timezone.now())
        self.log_change(request, connection, "Disconnected.")
        message = f"{connection.product} is disconnected. Imported traits stay."
        self.message_user(request, message, messages.SUCCESS)
        return redirect(self.view_url("change", connection))
