"""The inbox, the quarantine, and dropped messages in the admin."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.utils import timezone

from access.admin.products import ProductAdmin
from access.pages.listing import LargeTableAdmin
from access.pages.pages import NOTHING, ExtraView, PageAction, PageAdmin
from access.pages.scoping import (
    ProductFilter,
    ProductScopedAdmin,
    ReadOnly,
    sees_all_products,
    visible_products,
)
from core.time_format import format_exact
from ingestion.admin.keys import (
    ForgetKeyAdmin,
    ForgetKeyInline,
    IngestionKeyAdmin,
    IngestionKeyInline,
    create_first_key,
    first_event_section,
)
from ingestion.admin.log import IngestionLogAdmin
from ingestion.drain import quarantine
from ingestion.log.texts import REMEDIES, MessageSummary, format_age, short_reason, summarize
from ingestion.models import (
    DropCount,
    DroppedMessage,
    DropReason,
    ForgetKey,
    InboxMessage,
    IngestionKey,
    IngestionLog,
    QuarantinedMessage,
)

admin.site.register(IngestionKey, IngestionKeyAdmin)
admin.site.register(ForgetKey, ForgetKeyAdmin)
admin.site.register(IngestionLog, IngestionLogAdmin)
ProductAdmin.add_inline(IngestionKeyInline)
ProductAdmin.add_inline(ForgetKeyInline)
ProductAdmin.add_first_step(create_first_key)
ProductAdmin.add_section(first_event_section)


class StoredMessageAdmin(PageAdmin):
    """Columns from a message's payload."""

    DETAILS: ClassVar[list[str]] = ["kind", "user", "account", "event", "message_id", "timestamp"]

    @admin.display(description="arrival", ordering="id")
    def arrival(self, row: Any) -> int:
        number: int = row.pk
        return number

    @admin.display(description="message")
    def about(self, row: Any) -> str:
        return str(summarize(row.payload))

    @admin.display(description="kind")
    def kind(self, row: Any) -> str:
        return summarize(row.payload).kind

    @admin.display(description="user id")
    def user(self, row: Any) -> str:
        return summarize(row.payload).user or NOTHING

    @admin.display(description="account id")
    def account(self, row: Any) -> str:
        return summarize(row.payload).account or NOTHING

    @admin.display(description="event")
    def event(self, row: Any) -> str:
        return summarize(row.payload).event or NOTHING

    @admin.display(description="message id")
    def message_id(self, row: Any) -> str:
        return summarize(row.payload).message_id or NOTHING

    @admin.display(description="timestamp")
    def timestamp(self, row: Any) -> str:
        at = summarize(row.payload).timestamp
        return format_exact(at) if at else NOTHING


@admin.register(InboxMessage)
class InboxMessageAdmin(StoredMessageAdmin, LargeTableAdmin):
    """The inbox in order of arrival. Only a message's key says which product it belongs to."""

    empty_text = "No message waits. Each one is recorded a second or two after it arrived."
    list_display = ["arrival", "received_at", "age", "about", "product", "key_hint", "attempts"]
    fields = ["arrival", "received_at", "age", "product", "key_hint"]
    fields += [*StoredMessageAdmin.DETAILS, "attempts", "not_before"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # Not the scoped queryset: these rows have no product column.
        rows: QuerySet[Any] = super(ProductScopedAdmin, self).get_queryset(request)
        if not sees_all_products(request.user):
            keys = IngestionKey.objects.filter(product__in=visible_products(request.user))
            rows = rows.filter(key_digest__in=keys.values("digest"))
        key = IngestionKey.objects.filter(digest=OuterRef("key_digest"))
        annotated: QuerySet[Any] = rows.annotate(
            # The navigation of a message's page needs the id.
            product_id=Subquery(key.values("product_id")[:1]),
            product_name=Subquery(key.values("product__name")[:1]),
        )
        return annotated

    @admin.display(description="product", empty_value="unknown")
    def product(self, message: Any) -> str | None:
        name: str | None = message.product_name
        return name

    @admin.display(description="waiting for")
    def age(self, message: InboxMessage) -> str:
        return format_age((timezone.now() - message.received_at).total_seconds())


@admin.register(QuarantinedMessage)
class QuarantinedMessageAdmin(ReadOnly, StoredMessageAdmin):
    empty_text = (
        "No message is in quarantine. One that fails repeatedly stays here until you try it again."
    )
    list_display = ["arrival", "quarantined_at", "about", "error_line", "attempts", "product"]
    list_filter = [("product", ProductFilter)]
    list_select_related = ["product"]
    fields = ["arrival", "error", "attempts", "quarantined_at", "received_at"]
    fields += ["product", "key_hint", "request_id", *StoredMessageAdmin.DETAILS]
    actions = ["try_again_selected"]
    extra_views = (ExtraView("try_again", permission="try_again", methods=("POST",)),)

    def has_try_again_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.may_change(request, obj)

    def page_actions(self, request: HttpRequest, obj: Any) -> Sequence[PageAction]:
        if not self.has_try_again_permission(request, obj):
            return []
        return [PageAction("Try again", self.view_url("try_again", obj), post=True)]

    def try_again_view(self, request: HttpRequest, message: QuarantinedMessage) -> HttpResponseBase:
        self._try_again(request, [message.pk])
        return redirect(self.view_url("changelist"))

    @admin.action(description="Try again", permissions=["try_again"])
    def try_again_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._try_again(request, list(queryset.values_list("pk", flat=True)))

    def _try_again(self, request: HttpRequest, ids: list[int]) -> None:
        count = quarantine.retry(ids)
        if not count:
            text = "Nothing to do. Someone has already moved this back to the inbox."
            self.message_user(request, text, messages.WARNING)
            return
        text = "1 message is" if count == 1 else f"{count} messages are"
        self.message_user(request, f"{text} back in the inbox and will be retried.")

    @admin.display(description="error")
    def error_line(self, message: QuarantinedMessage) -> str:
        first = message.error.strip().split("\n", 1)[0]
        return first if len(first) <= 100 else f"{first[:99]}…"


@admin.register(DroppedMessage)
class DroppedMessageAdmin(ReadOnly, PageAdmin):
    """Messages that were not recorded, with the reason. Retention bounds the table."""

    empty_text = "No dropped messages. Each one is listed here with the reason."
    SUMMARY: ClassVar[list[str]] = ["kind", "user", "account", "event", "message_id"]
    list_display = ["arrival", "dropped_at", "short_reason", "about", "product", "key_hint"]
    list_filter = ["reason", ("product", ProductFilter)]
    list_select_related = ["product"]
    date_hierarchy = "dropped_at"
    search_fields = ["user_external_id", "account_external_id", "event", "message_id", "key_hint"]
    search_help_text = (
        "Search by the exact user id, account id, event name, message id, or key prefix."
    )
    fields = ["reason", "detail", "remedy", "arrival", "product", "key_hint", *SUMMARY]
    fields += ["request_id", "received_at", "dropped_at"]
    show_full_result_count = False
    actions = None

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if not search_term.strip():
            return queryset, False
        term = search_term.strip()
        matches = Q()
        for field in self.search_fields:
            matches |= Q(**{field: term})
        return queryset.filter(matches), False

    @admin.display(description="arrival", ordering="id")
    def arrival(self, message: DroppedMessage) -> int:
        return message.pk

    @admin.display(description="reason", ordering="reason")
    def short_reason(self, message: DroppedMessage) -> str:
        return short_reason(message.reason, message.detail)

    @admin.display(description="message")
    def about(self, message: DroppedMessage) -> str:
        return str(
            MessageSummary(
                message.kind,
                message.user_external_id,
                message.account_external_id,
                message.event,
            )
        )

    @admin.display(description="user id")
    def user(self, message: DroppedMessage) -> str:
        return message.user_external_id or NOTHING

    @admin.display(description="account id")
    def account(self, message: DroppedMessage) -> str:
        return message.account_external_id or NOTHING

    @admin.display(description="what to do")
    def remedy(self, message: DroppedMessage) -> str:
        return REMEDIES[DropReason(message.reason)]


@admin.register(DropCount)
class DropCountAdmin(ReadOnly, ProductScopedAdmin):
    empty_text = "No dropped messages."
    list_display = ["day", "product", "reason", "count"]
    list_filter = ["reason", ("product", ProductFilter)]
    list_select_related = ["product"]
    actions = None
