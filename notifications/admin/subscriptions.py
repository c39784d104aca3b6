"""The admin pages of subscriptions."""

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import urlencode

from access.pages.pages import ChoosingAdmin
from access.pages.place import requested_product
from access.pages.scoping import ProductFilter
from access.trail.models_followed import follow
from core.ids import parse_id
from engagement.models import Workspace
from notifications.admin.forms import SubscriptionForm
from notifications.models import Destination, OutboxMessage, Subscription
from notifications.texts import describe_subscription
from notifications.triggers import TRIGGERS, Trigger
from notifications.watching import conditions
from notifications.watching.insights import insight_choices
from notifications.watching.watches import assign_watch

follow(
    Subscription,
    "subscription",
    (
        *("trigger", "workspace__name", "scope", "segment__name", "insight", "threshold"),
        *("direction", "filter_segment__name", "destination__name", "quiet_hours"),
        *("tells_changed_rules", "traits", "is_enabled"),
    ),
)

LISTED_MESSAGES = 10


@admin.register(Subscription)
class SubscriptionAdmin(ChoosingAdmin):
    empty_text = (
        "There are no subscriptions yet. One tells people or programs of a "
        "change: for example, that an account enters a segment."
    )
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

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        columns = list(super().get_list_display(request))
        if "product__id__exact" in request.GET:
            columns.remove("product")
        return columns

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related(*self.list_select_related)

    # --- The form -----------------------------------------------------------------------------

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        trigger = obj.trigger if obj else _chosen_trigger(request)
        parameters = TRIGGERS[Trigger(trigger)].parameters if trigger in TRIGGERS else ()
        names = [name for name in SubscriptionForm.Meta.fields if name not in _CONDITIONAL]
        names[2:2] = [name for name in _CONDITIONAL if name in parameters]
        if obj is None:
            return names
        return [name for name in names if name not in ("workspace", "trigger")]

    def is_chosen(self, request: HttpRequest) -> bool:
        return bool(request.GET.get("workspace") and _chosen_trigger(request))

    def choose_page(self, request: HttpRequest) -> HttpResponse:
        """Ask for the trigger and the workspace of a new subscription."""
        field = Subscription._meta.get_field("workspace")
        choices: Any = self.formfield_for_foreignkey(field, request)
        workspaces: QuerySet[Workspace] = choices.queryset.select_related("product")
        product = requested_product(request)
        if product is not None:
            workspaces = workspaces.filter(product=product)
        return self.render_page(
            request,
            "admin/notifications/choose_subscription.html",
            "Add subscription",
            workspaces=workspaces,
            groups=_trigger_groups(),
            destination=parse_id(request.GET.get("destination", "")),
        )

    def form_context(
        self, request: HttpRequest, context: dict[str, Any], obj: Any
    ) -> dict[str, Any]:
        form = context["adminform"].form
        if obj is None and not form.is_chosen:
            # Only a made-up URL lacks a valid workspace.
            raise Http404
        return {
            **super().form_context(request, context, obj),
            "subscription": form.instance,
            "is_about_product": TRIGGERS[Trigger(form.instance.trigger)].is_about_product,
        }

    def page_context(self, request: HttpRequest, obj: Subscription) -> dict[str, Any]:
        log = OutboxMessage.objects.filter(subscription=obj).order_by("-id")
        return {
            "title": describe_subscription(obj),
            "log": log[:LISTED_MESSAGES],
            "state_label": self.state_label(obj),
        }

    def save_model(self, request: HttpRequest, obj: Subscription, form: Any, change: bool) -> None:
        obj.save()
        if form.is_about_something_else:
            assign_watch(obj)

    def response_add(
        self, request: HttpRequest, obj: Subscription, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self._to_list(request, obj)

    def response_change(self, request: HttpRequest, obj: Subscription) -> HttpResponse:
        return self._to_list(request, obj)

    def _to_list(self, request: HttpRequest, obj: Subscription) -> HttpResponse:
        """Redirect to the subscriptions of the product."""
        text = f"{obj.destination} is told: {describe_subscription(obj)}."
        self.message_user(request, text, messages.SUCCESS)
        query = urlencode({"product__id__exact": obj.product_id})
        return redirect(f"{self.view_url('changelist')}?{query}")


_CONDITIONAL = ["scope", "segment", "insight", "direction", "threshold"]
_CONDITIONAL += ["filter_segment", "tells_changed_rules", "traits"]


def _chosen_trigger(request: HttpRequest) -> str:
    trigger = request.POST.get("trigger") or request.GET.get("trigger", "")
    return trigger if trigger in Trigger.values else ""


def _trigger_groups() -> list[tuple[str, list[tuple[str, str]]]]:
    """The triggers to choose from, in groups."""
    needs_insights = {Trigger.INSIGHT_STARTED, Trigger.INSIGHT_ENDED}
    triggers = [each for each in Trigger if each not in needs_insights or insight_choices()]
    subjects = [each for each in triggers if not TRIGGERS[each].is_about_product]
    sources = [each for each in triggers if conditions.has_source(each)]
    licenses = [each for each in sources if TRIGGERS[each].is_news]
    products = [each for each in sources if not TRIGGERS[each].is_news]
    return [
        ("Users and accounts", [(each.value, each.label) for each in subjects]),
        ("Licenses", [(each.value, each.label) for each in licenses]),
        ("Data and connections", [(each.value, each.label) for each in products]),
    ]
