"""The admin pages of a marketplace connection: its status and history, and its details form."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_post_parameters

from engagement.admin.pages import PageAction, PageAdmin
from engagement.admin.products import LinkedInline, ProductAdmin
from engagement.admin.scoping import ProductFilter, ProductSet, request_access
from marketplace import client, connecting, scheduling, status
from marketplace.admin.forms import ConnectionForm
from marketplace.models import Connection, SyncRun

State = Connection.State
View = Callable[..., HttpResponseBase]


class ConnectionInline(LinkedInline):
    """The connection on its product's page."""

    model = Connection
    fields = readonly_fields = ("app_name", "state", "last_success_at", "last_error_at")

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        formset = super().get_formset(request, obj, **kwargs)
        formset.may_add = formset.may_add and not Connection.objects.filter(product=obj).exists()
        return formset


ProductAdmin.add_inline(ConnectionInline)


@admin.register(Connection)
class ConnectionAdmin(PageAdmin):
    form = ConnectionForm
    fields = ["product", "user_name", "api_token", "vendor_id", "product_id"]
    add_form_template = change_form_template = "admin/marketplace/details.html"
    list_display = ["product", "app_name", "state", "last_success_at", "last_error_at"]
    list_display_links = ["product", "app_name"]
    list_filter = ["state", ("product", ProductFilter)]
    list_select_related = ["product"]
    ordering = ["product__name", "product_id"]
    actions = None

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
        # The form declares the four values itself; only the product comes from the model.
        return super().get_form(request, obj, change, **{**kwargs, "fields": ["product"]})

    @method_decorator(sensitive_post_parameters("api_token"))
    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        # Without the admin's transaction: the marketplace may take long to respond.
        return self._changeform_view(  # type: ignore[attr-defined]
            request, object_id, form_url, extra_context
        )

    def details_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        self._manageable(request, object_id)
        page: HttpResponseBase = self.changeform_view(request, object_id)
        return page

    def save_model(
        self, request: HttpRequest, obj: Connection, form: "ModelForm[Any]", change: bool
    ) -> None:
        assert isinstance(form, ConnectionForm)
        saved = connecting.save_connection(obj.product, form.verified_details, timezone.now())
        obj.pk, obj.app_name = saved.pk, saved.app_name

    def response_add(
        self, request: HttpRequest, obj: Connection, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self.response_change(request, obj)

    def response_change(self, request: HttpRequest, obj: Connection) -> HttpResponse:
        message = f"{obj.product} is connected to {obj.app_name}. A sync is starting."
        self.message_user(request, message, messages.SUCCESS)
        return redirect(self._url("change", obj))

    # --- Status -------------------------------------------------------------------------------

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        connection = self.get_object(request, object_id)
        if connection is None:
            not_found: HttpResponse = self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]
                request, self.opts, object_id
            )
            return not_found
        context = {
            **self._page(request, connection, str(connection)),
            "page_actions": self.page_actions(request, connection),
            "status": status.connection_status(connection, timezone.now()),
            "status_url": self._url("status", connection),
            "may_manage": self.has_change_permission(request, connection),
            "details_url": self._url("details", connection),
        }
        return TemplateResponse(request, "admin/marketplace/connection.html", context)

    def status_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """The part of the page that a running sync changes."""
        connection = self._visible(request, object_id)
        context = {
            "status": status.connection_status(connection, timezone.now()),
            "may_manage": self.has_change_permission(request, connection),
            "details_url": self._url("details", connection),
        }
        return TemplateResponse(request, "admin/marketplace/status.html", context)

    def page_actions(self, request: HttpRequest, obj: Connection) -> Sequence[PageAction]:
        if not self.has_change_permission(request, obj):
            return []
        details = PageAction(
            "Replace details" if obj.state == State.ACTIVE else "Enter details",
            self._url("details", obj),
        )
        disconnect = PageAction("Disconnect", self._url("disconnect", obj))
        match State(obj.state):
            case State.ACTIVE:
                return [
                    PageAction("Test connection", self._url("test", obj), post=True),
                    PageAction("Sync now", self._url("sync", obj), post=True),
                    PageAction("Full sync", self._url("full_sync", obj), post=True),
                    details,
                    disconnect,
                ]
            case State.REQUIRES_AUTHENTICATION:
                return [details, disconnect]
        return [details]

    # --- Buttons ------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        views: dict[str, View] = {
            "details": self.details_view,
            "status": self.status_view,
            "test": self.verify_view,
            "sync": self.sync_view,
            "full_sync": self.full_sync_view,
            "disconnect": self.disconnect_view,
        }
        own = [
            path(
                f"<path:object_id>/{name.replace('_', '-')}/",
                self.admin_site.admin_view(view),
                name=f"{self.opts.app_label}_{self.opts.model_name}_{name}",
            )
            for name, view in views.items()
        ]
        return own + super().get_urls()

    def verify_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        connection = self._manageable(request, object_id)
        try:
            message = connecting.verify_stored_details(connection, client.create_client)
        except connecting.DetailsRejected as rejected:
            self.message_user(request, rejected.message, messages.ERROR)
        else:
            self.message_user(request, message, messages.SUCCESS)
        return redirect(self._url("change", connection))

    def sync_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        return self._sync(request, object_id, SyncRun.Kind.RECENT)

    def full_sync_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        return self._sync(request, object_id, SyncRun.Kind.FULL)

    def _sync(self, request: HttpRequest, object_id: str, kind: SyncRun.Kind) -> HttpResponseBase:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        connection = self._manageable(request, object_id)
        try:
            run = scheduling.request_sync(connection, kind, timezone.now())
        except scheduling.ConnectionInactive as inactive:
            self.message_user(request, str(inactive), messages.ERROR)
        else:
            kind_name = run.get_kind_display().lower()
            self.log_change(request, connection, f"Requested a sync ({kind_name}).")
            self.message_user(request, "A sync is starting. This page shows its progress.")
        return redirect(self._url("change", connection))

    def disconnect_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        connection = self._manageable(request, object_id)
        if request.method != "POST":
            context = self._page(request, connection, "Disconnect")
            return TemplateResponse(request, "admin/marketplace/disconnect.html", context)
        connecting.disconnect(connection, timezone.now())
        self.log_change(request, connection, "Disconnected.")
        message = f"{connection.product} is disconnected. Imported traits stay."
        self.message_user(request, message, messages.SUCCESS)
        return redirect(self._url("change", connection))

    # --- Helpers ------------------------------------------------------------------------------

    def _visible(self, request: HttpRequest, object_id: str) -> Connection:
        connection: Connection | None = self.get_object(request, object_id)
        if connection is None:
            raise Http404
        if not self.has_view_permission(request, connection):
            raise PermissionDenied
        return connection

    def _manageable(self, request: HttpRequest, object_id: str) -> Connection:
        connection = self._visible(request, object_id)
        if not self.has_change_permission(request, connection):
            raise PermissionDenied
        return connection

    def _page(self, request: HttpRequest, connection: Connection, title: str) -> dict[str, Any]:
        return {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "original": connection,
            "media": self.media,
            "back": self._url("change", connection),
        }

    def _url(self, name: str, connection: Connection) -> str:
        return reverse(
            f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_{name}",
            args=[connection.pk],
        )
