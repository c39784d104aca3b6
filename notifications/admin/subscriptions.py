"""The admin pages of subscriptions."""

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode

from access.pages.pages import OutboundFormAdmin, ProductColumnAdmin
from access.pages.place import requested_product, requested_workspace
from access.pages.scoping import ProductFilter
from access.trail.models_followed import follow
from notifications.admin.destinations import SESSION_KEY, DestinationAdmin
from notifications.admin.forms import SubscriptionForm
from notifications.models import Destination, OutboxMessage, Subscription
from notifications.texts import describe_subscription
from notifications.watching.watches import assign_watch

follow(
    Subscription,
    "subscription",
    (
        *("trigger", "workspace__name", "scope", "segment__name", "insight", "threshold"),
        *("direction", "filter_segment__name", "destination__name", "to_owner"),
        *("quiet_hours", "tells_changed_rules", "traits", "is_enabled"),
    ),
)

LISTED_MESSAGES = 10


@admin.register(Subscription)
class SubscriptionAdmin(OutboundFormAdmin, ProductColumnAdmin):
    empty_text = (
        "There are no subscriptions yet. One tells people or programs of a "
        "change: for example, that an account enters a segment."
    )
    # Of a destination that is made with it.
    credential_fields = ("new-address",)
    form = SubscriptionForm
    list_display = ["text", "destination", "state_label", "workspace", "product"]
    list_display_links = ["text"]
    list_filter = [("product", ProductFilter), "trigger", "is_enabled"]
    list_select_related = ["product", "workspace", "segment", "filter_segment", "destination"]
    ordering = ["product__name", "product_id", "id"]
    sortable_by = ()
    actions = None
    change_form_template = "admin/notifications/subscription.html"

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["notifications/notifications.css"]}

    # --- The list -----------------------------------------------------------------------------

    @admin.display(description="notifies when")
    def text(self, subscription: Subscription) -> str:
        return describe_subscription(subscription)

    @admin.display(description="state")
    def state_label(self, subscription: Subscription) -> str:
        if not subscription.is_enabled:
            return "Disabled"
        state = Destination.State(subscription.destination.state)
        if state == Destination.State.ACTIVE:
            return "On" if subscription.started_at else "Starting"
        return f"Destination is {state.label.lower()}"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related(*self.list_select_related)

    # --- The form -----------------------------------------------------------------------------

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        if obj and not self.has_change_permission(request, obj):
            return ["text", "destination", *SubscriptionForm.Meta.fields]
        return [*SubscriptionForm.base_fields]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return ["text"]

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        initial = super().get_changeform_initial_data(request)
        return {**initial, "workspace": requested_workspace(request)}

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        # The form declares the parts of the sentence itself.
        kwargs["fields"] = SubscriptionForm.Meta.fields
        form: Any = super().get_form(request, obj, change, **kwargs)
        # Of the product that the page is about, if it is about one.
        product = requested_product(request)
        workspaces: Any = form.base_fields.get("workspace")
        if obj is None and product is not None and workspaces:
            workspaces.queryset = workspaces.queryset.filter(product=product)
        return form

    def form_context(
        self, request: HttpRequest, context: dict[str, Any], obj: Any
    ) -> dict[str, Any]:
        form = context["adminform"].form
        return {
            **super().form_context(request, context, obj),
            "form": form if "workspace" in form.fields else None,
            "title": describe_subscription(obj) if obj else "Add notification",
        }

    def page_context(self, request: HttpRequest, obj: Subscription) -> dict[str, Any]:
        log = OutboxMessage.objects.filter(subscription=obj).order_by("-id")
        return {"log": log[:LISTED_MESSAGES], "state_label": self.state_label(obj)}

    def save_model(self, request: HttpRequest, obj: Subscription, form: Any, change: bool) -> None:
        assert isinstance(form, SubscriptionForm)
        if form.is_new and form.new is not None:
            obj.destination = self._destinations.add(request, form.new)
        obj.save()
        if form.is_about_something_else:
            assign_watch(obj)

    @property
    def _destinations(self) -> DestinationAdmin:
        admin = self.admin_site.get_model_admin(Destination)
        assert isinstance(admin, DestinationAdmin)
        return admin

    def saved_text(self, request: HttpRequest, obj: Subscription) -> str:
        whom = f"The owners of accounts, or else {obj.destination}" if obj.to_owner else ""
        return f"{whom or obj.destination} is told: {describe_subscription(obj)}."

    def response_add(
        self, request: HttpRequest, obj: Subscription, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self.response_change(request, obj)

    def after_saving(self, request: HttpRequest, obj: Subscription) -> str:
        """The subscriptions of the product, or the secret of a new webhook."""
        if request.session.get(SESSION_KEY) == obj.destination_id:
            return self._destinations.view_url("change", obj.destination)
        return f"{self.view_url('changelist')}?{urlencode({'product__id__exact': obj.product_id})}"
