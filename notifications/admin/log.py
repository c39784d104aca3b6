"""The delivery log: what was told, to whom, and what became of each attempt."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import Exists, Field, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone

from access.pages.listing import LargeTableAdmin
from access.pages.pages import ExtraView, PageAction, RowPageAdmin
from access.pages.scoping import ProductFilter, visible_products
from core.ids import parse_id
from notifications import tasks
from notifications.delivery import formats
from notifications.delivery.links import link_of
from notifications.models import Delivery, Destination, OutboxMessage, Subscription
from notifications.texts import describe_subscription

State = OutboxMessage.State
LEVELS = {State.WAITING: "quiet", State.DELIVERED: "good", State.FAILED: "bad"}


class DestinationFilter(admin.RelatedFieldListFilter):
    """Filters the log by the destinations that the login may see."""

    def field_choices(
        self, field: "Field[Any, Any]", request: HttpRequest, model_admin: Any
    ) -> list[tuple[str, Any]]:
        rows = Destination.objects.filter(product__in=visible_products(request.user))
        product = parse_id(request.GET.get("product__id__exact", ""))
        if product is not None:
            rows = rows.filter(product=product)
        return [(str(row.pk), row.name) for row in rows.order_by("name")]


@admin.register(OutboxMessage)
class OutboxMessageAdmin(LargeTableAdmin, RowPageAdmin):
    empty_text = (
        "There are no notifications yet. Each one that a subscription sends is listed here."
    )
    list_display = ["time", "text", "destination", "state_label", "attempts"]
    list_display_links = ["text"]
    list_filter = [("product", ProductFilter), ("destination", DestinationFilter), "state"]
    list_select_related = ["destination"]
    ordering = ["-id"]
    extra_views = (ExtraView("send_again", permission="send", methods=("POST",)),)

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["notifications/notifications.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # Messages to a deleted destination wait for the next maintenance.
        exists = Exists(Destination.objects.filter(pk=OuterRef("destination_id")))
        return super().get_queryset(request).filter(exists)

    def has_send_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_change(request, obj)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return super().changelist_view(request, {"title": "Delivery log", **(extra_context or {})})

    @admin.display(description="time")
    def time(self, message: OutboxMessage) -> datetime:
        return message.created_at

    @admin.display(description="message")
    def text(self, message: OutboxMessage) -> str:
        return message.title

    @admin.display(description="state")
    def state_label(self, message: OutboxMessage) -> str:
        return message.get_state_display()

    def row_page(self, request: HttpRequest, obj: OutboxMessage) -> HttpResponse:
        destination = obj.destination
        rows = Subscription.objects.filter(pk=obj.subscription_id or 0)
        subscription = rows.select_related("segment", "filter_segment", "workspace").first()
        return self.render_page(
            request,
            "admin/notifications/message.html",
            obj.title,
            original=obj,
            destination=destination,
            subscription=subscription,
            subscription_text=describe_subscription(subscription) if subscription else "",
            level=LEVELS[State(obj.state)],
            link=link_of(obj),
            content=json.dumps(
                formats.request_content(destination, [obj]), indent=2, ensure_ascii=False
            ),
            deliveries=Delivery.objects.filter(message=obj).order_by("-id"),
            page_actions=self.page_actions(request, obj),
        )

    def page_actions(self, request: HttpRequest, obj: OutboxMessage) -> Sequence[PageAction]:
        if obj.state == State.WAITING or not self.has_send_permission(request, obj):
            return []
        return [PageAction("Send again", self.view_url("send_again", obj), post=True)]

    def send_again_view(self, request: HttpRequest, message: OutboxMessage) -> HttpResponseBase:
        if message.destination.state == Destination.State.UNVERIFIED:
            text = "The destination is not verified. Verify it first."
            self.message_user(request, text, messages.ERROR)
        elif send_again(message, timezone.now()):
            self.log_change(request, message, "Sent again.")
            text = "The message is being sent again, with the same id. Reload the page in a moment."
            self.message_user(request, text, messages.SUCCESS)
        return redirect(self.view_url("change", message))


def send_again(message: OutboxMessage, now: datetime) -> bool:
    """Have the message delivered once more. Returns whether it was not waiting already."""
    over = OutboxMessage.objects.filter(pk=message.pk).exclude(state=State.WAITING)
    is_over = over.update(
        state=State.WAITING,
        attempts=0,
        first_attempt_at=None,
        next_attempt_at=now,
        finished_at=None,
    )
    if is_over:
        tasks.request_delivery()
    return bool(is_over)
