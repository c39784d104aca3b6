"""The ingestion log: a page for each product, and a list of unknown senders for superusers."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from access.pages.lookups import INVALID_FILTER_MESSAGE
from access.pages.pages import ExtraView, RowPageAdmin
from access.pages.scoping import ReadOnly, deferred_script, sees_all_products
from core import charts
from engagement.models import Product
from ingestion.log import last_24h, newest, search, status
from ingestion.log.newest import Outcome
from ingestion.log.texts import (
    QUARANTINED_TONE,
    RECORDED_TONE,
    REMEDIES,
    WAITING_TONE,
    format_age,
    short_reason,
    tone,
)
from ingestion.models import DropReason, IngestionKey

CHART_TITLE = "Messages dropped per day"
HOURS_TITLE = f"Messages of the last {last_24h.HOURS} hours"
OUTCOMES = {outcome.name.lower(): outcome for outcome in Outcome}
# What the parameters of the page's URL may say.
CHOICES: dict[str, Collection[str]] = {
    "outcome": OUTCOMES,
    "kind": search.KINDS,
    "reason": DropReason.values,
}


@dataclass(frozen=True)
class Link:
    label: str
    query: str
    is_current: bool


@dataclass(frozen=True)
class Choice:
    """Which of the newest messages a person wants to see: those with an outcome, of a kind."""

    outcome: Outcome | None = None
    kind: str = ""

    @classmethod
    def of(cls, request: HttpRequest) -> "Choice":
        """The choice in the URL. An unknown value chooses nothing."""
        kind = request.GET.get("kind", "")
        return cls(
            OUTCOMES.get(request.GET.get("outcome", "")), kind if kind in search.KINDS else ""
        )

    def query(self) -> str:
        choices = {"outcome": self.outcome.name.lower() if self.outcome else "", "kind": self.kind}
        return urlencode({name: value for name, value in choices.items() if value})

    def outcomes(self) -> list[Link]:
        options = [(None, "All"), *((outcome, outcome.value) for outcome in Outcome)]
        return [self._link(label, replace(self, outcome=outcome)) for outcome, label in options]

    def kinds(self) -> list[Link]:
        options = [("", "All"), *((kind, kind.capitalize()) for kind in search.KINDS)]
        return [self._link(label, replace(self, kind=kind)) for kind, label in options]

    def _link(self, label: str, other: "Choice") -> Link:
        return Link(label, other.query(), other == self)


class IngestionLogAdmin(ReadOnly, RowPageAdmin):
    """A log page for each product. It answers "Why did my event not arrive?"."""

    product_path = "pk"
    list_display = ["name"]
    search_fields = ["name"]
    ordering = ["name", "id"]
    actions = None
    change_list_template = "admin/ingestion/logs.html"
    extra_views = (ExtraView("messages", permission="view", methods=("GET", "HEAD")),)

    class Media:
        css: ClassVar[dict[str, list[str]]] = {"all": ["ingestion/log.css"]}
        js: ClassVar[list[Any]] = [deferred_script("ingestion/live.js")]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        context = self._unknown_senders() if sees_all_products(request.user) else {}
        return super().changelist_view(request, {**context, "title": "Ingestion log"})

    def row_page(self, request: HttpRequest, obj: Product) -> HttpResponse:
        if any(request.GET.get(name, "") not in ("", *values) for name, values in CHOICES.items()):
            self.message_user(request, INVALID_FILTER_MESSAGE, messages.WARNING)
            term = urlencode({"q": request.GET.get("q", "")})
            return redirect(f"{self.view_url('change', obj)}?{term}")
        return self.render_page(
            request,
            "admin/ingestion/log.html",
            f"Ingestion log of {obj}",
            **self._log_context(request, obj),
        )

    def messages_view(self, request: HttpRequest, product: Product) -> HttpResponse:
        """The newest messages alone, for a page that refreshes itself."""
        now = timezone.now()
        choice = Choice.of(request)
        context = {
            **self._messages_context(request, product),
            "results": newest.newest_messages(
                product, now, outcome=choice.outcome, kind=choice.kind, is_live=True
            ),
            "recorded_count": last_24h.count_recorded(product.pk, now),
            "choice": choice,
        }
        return TemplateResponse(request, "admin/ingestion/messages.html", context)

    def _messages_context(self, request: HttpRequest, product: Product) -> dict[str, Any]:
        return {
            "original": product,
            "quarantined": search.MessageState.QUARANTINED,
            "may_try_again": self.may_change(request, product),
            "hours": last_24h.HOURS,
            "shown": search.MAX_RESULTS,
        }

    def _log_context(self, request: HttpRequest, product: Product) -> dict[str, Any]:
        now = timezone.now()
        # PostgreSQL cannot store this character, so no id has it.
        term = request.GET.get("q", "").strip().replace("\0", "")
        value = request.GET.get("reason", "")
        reason = DropReason(value) if value in DropReason.values else None
        choice = Choice.of(request)
        is_newest = not (term or reason)
        product_status = status.for_product(product.pk, now)
        return {
            **self._messages_context(request, product),
            "term": term,
            "reason": reason and short_reason(reason),
            "reason_value": reason or "",
            "is_newest": is_newest,
            "choice": choice,
            "live_url": f"{self.view_url('messages', product)}?{choice.query()}",
            "results": newest.newest_messages(
                product, now, outcome=choice.outcome, kind=choice.kind
            )
            if is_newest
            else search.find_messages(product, term, now, reason=reason or ""),
            "status": product_status,
            "refused": last_24h.count_refused(product.pk, now),
            "oldest_age": product_status.oldest
            and format_age((now - product_status.oldest).total_seconds()),
            "messages_chart": messages_chart(product, now) if is_newest else "",
            "chart": drops_chart(product_status.drops, {"q": term} if term else {}),
            "keys": IngestionKey.objects.filter(product=product).defer("secret"),
            "may_add_key": self.may_change(request, product),
            "recorded_count": last_24h.count_recorded(product.pk, now),
            "kept_days": settings.DROPPED_RETENTION_DAYS,
        }

    def _unknown_senders(self) -> dict[str, Any]:
        senders = [
            {
                "sender": sender,
                "reason": short_reason(sender.reason),
                "remedy": REMEDIES[sender.reason],
                "url": self._sender_url(sender),
            }
            for sender in status.unknown_senders()
        ]
        unknown = status.daily_drops(None, timezone.now())
        return {"senders": senders, "chart": drops_chart(unknown, None), "unknown": unknown}

    def _sender_url(self, sender: status.UnknownSender) -> str:
        listing = reverse("admin:ingestion_droppedmessage_changelist")
        filters = {"product__isnull": "True", "reason__exact": sender.reason.value}
        if sender.key_hint:
            filters["q"] = sender.key_hint
        return f"{listing}?{urlencode(filters)}"


def messages_chart(product: Product, now: datetime) -> str:
    """What became of the messages of each of the last hours; empty without any."""
    totals = last_24h.for_products([product.pk], now)[product.pk]
    dropped = [
        charts.Series(short_reason(reason), counts, tone(reason), f"?reason={reason.value}")
        for reason, counts in totals.dropped.items()
    ]
    series = [
        charts.Series("Recorded", totals.recorded, RECORDED_TONE),
        *dropped,
        charts.Series("In quarantine", totals.in_quarantine, QUARANTINED_TONE),
        charts.Series("Waiting", totals.in_inbox, WAITING_TONE),
    ]
    if not totals.accepted:
        return ""
    labels = [f"{timezone.localtime(hour):%H:%M}" for hour in totals.hours]
    return charts.bars(HOURS_TITLE, labels, [each for each in series if any(each.values)])


def drops_chart(drops: status.DailyDrops, query: dict[str, str] | None) -> str:
    """The drops per day, by reason. Unless *query* is None, each reason links to its messages, with
    the *query* of the page."""
    return charts.bars(
        CHART_TITLE,
        [charts.day_label(day) for day in drops.days],
        [
            charts.Series(
                short_reason(reason),
                counts,
                tone(reason),
                url="" if query is None else f"?{urlencode({**query, 'reason': reason.value})}",
            )
            for reason, counts in drops.by_reason.items()
        ],
    )
