"""The admin pages of destinations."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.html import format_html

from access.admin.products import ProductAdmin, Section
from access.pages.pages import ExtraView, OutboundFormAdmin, PageAction, ProductColumnAdmin
from access.pages.place import requested_product
from access.pages.scoping import ProductFilter
from access.trail.models_followed import follow
from core.fields import DecryptionError
from core.page_secrets import mark_secret
from engagement.models import Product
from notifications import verification
from notifications.admin.forms import DestinationForm
from notifications.delivery import outcomes, signing
from notifications.models import Destination, OutboxMessage, Subscription
from notifications.texts import describe_subscription

State, Kind = Destination.State, Destination.Kind
# The session says whose secret the next page shows, never the secret.
# The hint, because an address may have a secret.
follow(Destination, "destination", ("kind", "name", "address_hint", "digest", "state"))

SESSION_KEY = "destination_secret_to_be_shown"
LISTED_MESSAGES = 10
STATE_LEVELS = {State.UNVERIFIED: "warning", State.ACTIVE: "good", State.PAUSED: "bad"}


def _level(destination: Destination) -> str:
    """An active destination whose last attempts failed is not well."""
    if destination.state == State.ACTIVE and destination.failures:
        return "warning"
    return STATE_LEVELS[State(destination.state)]


def _has_two_secrets(destination: Destination) -> bool:
    try:
        return len(destination.secret_list()) > 1
    except DecryptionError:
        # The page must open, so that somebody can enter the destination again.
        return False


@admin.register(Destination)
class DestinationAdmin(OutboundFormAdmin, ProductColumnAdmin):
    empty_text = (
        "There are no destinations yet. A webhook, a channel of a chat, or an "
        "email address gets the notifications."
    )
    credential_fields = ("address",)
    form = DestinationForm
    list_display = ["name", "kind", "address_hint", "state_label", "product"]
    list_filter = [("product", ProductFilter), "kind", "state"]
    list_select_related = ["product"]
    search_fields = ["name"]
    ordering = ["product__name", "product_id", "name", "id"]
    sortable_by = ()
    actions = None
    change_form_template = "admin/notifications/destination.html"
    extra_views = (
        ExtraView("test", permission="change", methods=("POST",)),
        ExtraView("rotate", permission="change", methods=("POST",)),
        ExtraView("end_rotation", permission="change", methods=("POST",)),
        ExtraView("pause", permission="change", methods=("POST",)),
    )

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["notifications/notifications.css"]}

    # --- The list and the form ----------------------------------------------------------------

    @admin.display(description="state")
    def state_label(self, destination: Destination) -> str:
        return destination.get_state_display()

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        if obj is None:
            return ["product", "kind", "name", "address", "digest"]
        fields = ["name", "kind", "address_hint"]
        if not self.has_change_permission(request, obj):
            return [*fields, "digest"] if obj.kind == Kind.EMAIL else fields
        return ["name", "kind", "address", *(["digest"] if obj.kind == Kind.EMAIL else [])]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return ["kind", "address_hint"] if obj else []

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        # The form declares the address itself.
        fields = ["name", "digest"] if change else ["product", "kind", "name", "digest"]
        return super().get_form(request, obj, change, **{**kwargs, "fields": fields})

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        initial = super().get_changeform_initial_data(request)
        return {"product": requested_product(request), **initial}

    def form_context(
        self, request: HttpRequest, context: dict[str, Any], obj: Any
    ) -> dict[str, Any]:
        context = context | super().form_context(request, context, obj)
        return context if obj else context | {"form": context["adminform"].form}

    def add(self, request: HttpRequest, form: DestinationForm) -> Destination:
        """Add the destination of a valid form, and test it."""
        destination: Destination = form.instance
        self.save_model(request, destination, form, change=False)
        self.log_addition(request, destination, "")
        return destination

    def save_model(self, request: HttpRequest, obj: Destination, form: Any, change: bool) -> None:
        assert isinstance(form, DestinationForm)
        fields = form.apply(request.build_absolute_uri("/").rstrip("/"))
        if change:
            obj.save(update_fields=[*fields, *set(form.changed_data) - {"address"}])
        else:
            obj.save()
            if obj.kind == Kind.WEBHOOK:
                request.session[SESSION_KEY] = obj.pk
        if form.has_new_address:
            self._test(request, obj)

    def response_add(
        self, request: HttpRequest, obj: Destination, post_url_continue: str | None = None
    ) -> HttpResponse:
        return redirect(self.view_url("change", obj))

    def response_change(self, request: HttpRequest, obj: Destination) -> HttpResponse:
        return redirect(self.view_url("change", obj))

    def delete_model(self, request: HttpRequest, obj: Destination) -> None:
        # Its messages go with the next maintenance.
        Destination.objects.filter(pk=obj.pk).delete()

    # --- The page -----------------------------------------------------------------------------

    def _show_secret(self, request: HttpRequest, destination: Destination) -> None:
        try:
            secret = destination.secret_list()[0]
        except DecryptionError as error:
            self.message_user(request, str(error), messages.ERROR)
            return
        mark_secret(request)
        text = format_html(
            "The signing secret: <code class='secret' data-copy>{}</code> It is shown only now. "
            "Your endpoint needs it to verify requests.",
            secret,
        )
        self.message_user(request, text, messages.SUCCESS)

    def page_actions(self, request: HttpRequest, obj: Destination) -> Sequence[PageAction]:
        if not self.has_change_permission(request, obj):
            return []
        label = {
            State.UNVERIFIED: "Verify",
            State.ACTIVE: "Send a test",
            State.PAUSED: "Test and resume",
        }[State(obj.state)]
        actions = [PageAction(label, self.view_url("test", obj), post=True)]
        if obj.kind == Kind.WEBHOOK:
            name, text = ("rotate", "Rotate secret")
            if _has_two_secrets(obj):
                name, text = ("end_rotation", "Remove old secret")
            actions.append(PageAction(text, self.view_url(name, obj), post=True))
        if obj.state == State.ACTIVE:
            actions.append(PageAction("Pause", self.view_url("pause", obj), post=True))
        return actions

    def page_context(self, request: HttpRequest, obj: Destination) -> dict[str, Any]:
        if request.method == "GET" and request.session.get(SESSION_KEY) == obj.pk:
            del request.session[SESSION_KEY]
            if self.has_change_permission(request, obj):
                self._show_secret(request, obj)
        related = ("segment", "filter_segment", "workspace")
        subscriptions = Subscription.objects.filter(destination=obj).select_related(*related)
        log = OutboxMessage.objects.filter(destination=obj)
        return {
            "destination": obj,
            "level": _level(obj),
            "subscriptions": [(each, describe_subscription(each)) for each in subscriptions],
            "log": log.order_by("-id")[:LISTED_MESSAGES],
            "waiting": log.filter(state=OutboxMessage.State.WAITING).count(),
            "has_two_secrets": obj.kind == Kind.WEBHOOK and _has_two_secrets(obj),
        }

    # --- Buttons ------------------------------------------------------------------------------

    def test_view(self, request: HttpRequest, destination: Destination) -> HttpResponseBase:
        self._test(request, destination)
        self.log_change(request, destination, "Sent a test.")
        return redirect(self.view_url("change", destination))

    def _test(self, request: HttpRequest, destination: Destination) -> None:
        is_confirmed_by_link = destination.kind == Kind.EMAIL and destination.state != State.ACTIVE
        result = verification.send_test(destination.pk, timezone.now())
        if not result.is_delivered:
            text = f"The test failed. {outcomes.describe(result)}"
            self.message_user(request, text, messages.ERROR)
        elif is_confirmed_by_link:
            text = f"A link was sent to {destination.address_hint}. It is valid for seven days."
            self.message_user(request, text, messages.SUCCESS)
        else:
            text = f"{destination} accepted the test in {result.seconds:.1f} seconds."
            self.message_user(request, text, messages.SUCCESS)

    def rotate_view(self, request: HttpRequest, destination: Destination) -> HttpResponseBase:
        """Sign with a new secret, too."""
        secrets = [signing.generate_secret(), *destination.secret_list()]
        destination.signing_secrets = " ".join(secrets[: signing.MAX_SECRETS])
        destination.save(update_fields=["signing_secrets"])
        self.log_change(request, destination, "Rotated the signing secret.")
        request.session[SESSION_KEY] = destination.pk
        text = "Requests are now signed with both secrets, until you remove the old one."
        self.message_user(request, text, messages.WARNING)
        return redirect(self.view_url("change", destination))

    def end_rotation_view(self, request: HttpRequest, destination: Destination) -> HttpResponseBase:
        destination.signing_secrets = destination.secret_list()[0]
        destination.save(update_fields=["signing_secrets"])
        self.log_change(request, destination, "Removed the old signing secret.")
        self.message_user(request, "The old secret is removed.", messages.SUCCESS)
        return redirect(self.view_url("change", destination))

    def pause_view(self, request: HttpRequest, destination: Destination) -> HttpResponseBase:
        active = Destination.objects.filter(pk=destination.pk, state=State.ACTIVE)
        if active.update(state=State.PAUSED, pause_reason=f"Paused by {request.user}."):
            self.log_change(request, destination, "Paused.")
            text = "Nothing is sent until you resume it. Messages wait."
            self.message_user(request, text, messages.SUCCESS)
        return redirect(self.view_url("change", destination))


def paused_section(request: HttpRequest, product: Product) -> Section:
    """Says on the product's page which destinations get nothing."""
    paused = Destination.objects.filter(product=product, state=State.PAUSED)
    return Section("admin/notifications/pause.html", {"paused": paused})


ProductAdmin.add_section(paused_section)
