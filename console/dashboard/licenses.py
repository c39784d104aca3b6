"""The page of a product's licenses: their events by month, and the accounts behind each number.

Each is a CSV file, too.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.http import Http404, HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.text import slugify

from access.pages.csv_file import csv_response
from access.pages.place import find_place
from access.pages.subject_urls import subject_url
from engagement.models import Account, Product
from marketplace.ledger import event_texts, monthly
from marketplace.ledger.monthly import ANNUAL, MONTHLY, OTHER, Count, months_before
from marketplace.ledger.vocabulary import EventType
from marketplace.models import Ledger

MONTHS_SHOWN = 12
MAX_ROWS = 500
TERMS = {MONTHLY: "monthly", ANNUAL: "annual", OTHER: "other or unknown term"}
# The rows of the table: a type, and of which terms.
_GROUPS: dict[str, list[tuple[EventType, str]]] = {
    "Evaluations": [
        (EventType.EVALUATION_STARTED, ""),
        (EventType.EVALUATION_BOUGHT, ""),
        (EventType.EVALUATION_EXPIRED, ""),
    ],
    "Paid terms": [
        (EventType.PURCHASED, ""),
        *((EventType.RENEWED, term) for term in TERMS),
        (EventType.CANCELLED, ""),
        *((EventType.CHURNED, term) for term in TERMS),
        (EventType.WON_BACK, ""),
    ],
    "Seats": [(EventType.SEATS_UP, ""), (EventType.SEATS_DOWN, "")],
    "Sites": [(EventType.MOVED_SITE, "")],
}
_TYPES = list(dict.fromkeys(type.value for rows in _GROUPS.values() for type, _ in rows))


@dataclass(frozen=True)
class Cell:
    """A number with the accounts behind it. ``seats`` is their change of seats, if any."""

    number: int
    url: str
    seats: str
    label: str


@dataclass(frozen=True)
class TableRow:
    title: str
    cells: Sequence[Cell]
    total: int


@dataclass(frozen=True)
class EventRow:
    """An event behind a number. ``url`` is empty if no account has its site."""

    name: str
    url: str
    date: date
    details: str
    license: str


def licenses_view(request: HttpRequest, site_context: dict[str, Any]) -> HttpResponseBase:
    """The table, or with ``type`` the events behind one of its numbers.

    With ``file``, as CSV: ``months`` are the table, and ``events`` those behind the number, or all.
    """
    product_id = find_place(request).product_id
    file = request.GET.get("file", "")
    if product_id is None or file not in ("", "months", "events"):
        raise Http404
    today = timezone.now().date()
    context: dict[str, Any] = {**site_context, "title": "Licenses", "subtitle": None}
    if file == "events" or "type" in request.GET:
        events = _parse(request.GET, today)
        if file:
            return _csv(
                product_id, "license-events", _EVENT_HEADS, _event_lines(product_id, events)
            )
        context |= _events_context(product_id, events)
        context["file_url"] = f"?{request.GET.urlencode()}&file=events"
        return TemplateResponse(request, "config/license_events.html", context)
    months = [months_before(today.replace(day=1), number) for number in range(MONTHS_SHOWN)]
    counts = monthly.count_by_month(product_id, _TYPES, months[-1], months_before(months[0], -1))
    if file:
        return _csv(product_id, "licenses-by-month", _MONTH_HEADS, _month_lines(counts))
    context |= {
        "months": months,
        "groups": list(_groups(product_id, counts, months)),
        "reasons": list(_reasons(product_id, counts, months)),
        "files_url": f"?{urlencode({'product': product_id})}&file=",
        "is_empty": not counts,
        "query": urlencode({"product": product_id}),
        "is_first_import": not Ledger.objects.filter(
            product=product_id, filled_at__isnull=False
        ).exists(),
    }
    return TemplateResponse(request, "config/licenses.html", context)


# --- The table ------------------------------------------------------------------------------


def _groups(
    product_id: int, counts: Sequence[Count], months: Sequence[date]
) -> Iterator[tuple[str, list[TableRow]]]:
    numbers: Counter[tuple[str, str, date]] = Counter()
    seats: Counter[tuple[str, date]] = Counter()
    for count in counts:
        numbers[count.type, count.term, count.month] += count.events
        seats[count.type, count.month] += count.seats
    for group, types in _GROUPS.items():
        rows = []
        for type, term in types:
            title = event_texts.title(type) + (f", {TERMS[term]}" if term else "")
            cells = [
                _cell(product_id, type, term, month, title, numbers, seats) for month in months
            ]
            total = sum(cell.number for cell in cells)
            # Terms that are neither monthly nor annual are rare.
            if total or term != OTHER:
                rows.append(TableRow(title, cells, total))
        yield group, rows


def _cell(
    product_id: int,
    type: EventType,
    term: str,
    month: date,
    title: str,
    numbers: Counter[tuple[str, str, date]],
    seats: Counter[tuple[str, date]],
) -> Cell:
    query: dict[str, str | int]
    query = {"product": product_id, "type": type.value, "month": f"{month:%Y-%m}"}
    if term:
        query["term"] = term
    number, change = numbers[type, term, month], seats[type, month]
    return Cell(
        number,
        f"?{urlencode(query)}",
        f"{change:+,}".replace("-", "\N{MINUS SIGN}") if change else "",
        f"{title}, {month:%B %Y}: {number:,}" + (f" ({change:+,} seats)" if change else ""),
    )


def _reasons(
    product_id: int, counts: Sequence[Count], months: Sequence[date]
) -> Iterator[tuple[str, str, list[tuple[str, int]]]]:
    """Why customers churned in these months: the reason, its page, and numbers by term."""
    numbers: Counter[tuple[str, str]] = Counter()
    for count in counts:
        if count.type == EventType.CHURNED:
            numbers[count.reason, count.term] += count.events
    totals = Counter[str]()
    for (reason, _), number in numbers.items():
        totals[reason] += number
    for reason, _ in sorted(totals.items(), key=lambda item: (-item[1], item[0])):
        query: dict[str, str | int]
        query = {"product": product_id, "type": EventType.CHURNED.value, "reason": reason}
        label = event_texts.reason_text(reason).capitalize() or "No reason given"
        by_term = [(TERMS[term], numbers[reason, term]) for term in TERMS]
        yield label, f"?{urlencode(query)}", by_term


# --- Behind a number ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Events:
    """Events from *since* to the day before *until*; a *reason* of None stands for all."""

    types: list[str]
    since: date
    until: date
    term: str
    reason: str | None
    title: str

    def rows(self, product_id: int, limit: int) -> list[monthly.Row]:
        """The latest of them."""
        return self._between(product_id, self.since, self.until, limit)

    def all_rows(self, product_id: int) -> Iterator[list[monthly.Row]]:
        """All of them, those of each month at once, the latest first."""
        until = self.until
        while until > self.since:
            since = months_before(until, 1)
            yield self._between(product_id, since, until, None)
            until = since

    def _between(
        self, product_id: int, since: date, until: date, limit: int | None
    ) -> list[monthly.Row]:
        return monthly.rows_behind(
            product_id, self.types, since, until, limit, term=self.term, reason=self.reason
        )


def _parse(query: QueryDict, today: date) -> _Events:
    """The events that the address asks for. Raises Http404 for what no link asks for."""
    type, term, reason = query.get("type", ""), query.get("term", ""), query.get("reason")
    if (type and type not in _TYPES) or (term and term not in TERMS):
        raise Http404
    if "month" in query:
        try:
            since = date.fromisoformat(f"{query['month']}-01")
            until = months_before(since, -1)
        except ValueError:
            raise Http404 from None
        period = f"{since:%B %Y}"
    else:
        since = months_before(today.replace(day=1), MONTHS_SHOWN - 1)
        until, period = months_before(today.replace(day=1), -1), f"since {since:%B %Y}"
    title = event_texts.title(type) + (f", {TERMS[term]}" if term else "")
    if reason is not None:
        title += f": {event_texts.reason_text(reason) or 'no reason given'}"
    types = [type] if type else [each.value for each in EventType]
    return _Events(types, since, until, term, reason, f"{title}, {period}")


def _events_context(product_id: int, events: _Events) -> dict[str, Any]:
    rows = events.rows(product_id, MAX_ROWS + 1)
    return {
        "title": events.title,
        "rows": list(_event_rows(product_id, rows[:MAX_ROWS])),
        "is_cut": len(rows) > MAX_ROWS,
        "max_rows": MAX_ROWS,
        "back_url": f"?{urlencode({'product': product_id})}",
    }


def _event_rows(product_id: int, rows: Sequence[monthly.Row]) -> Iterator[EventRow]:
    names = account_names(product_id, {row.cloud_id for row in rows})
    for row in rows:
        details = event_texts.details_text(row.details)
        yield EventRow(*names[row.cloud_id], row.date, details, row.license)


def account_names(product_id: int, cloud_ids: Collection[str]) -> dict[str, tuple[str, str]]:
    """The name and the page of the account of each site; no page if there is no account."""
    names = {cloud_id: (cloud_id or "No site", "") for cloud_id in cloud_ids}
    for cloud_id, account in _accounts(product_id, cloud_ids).items():
        url = subject_url(account, "account", None) if account.is_identified else ""
        names[cloud_id] = (account.name or cloud_id, url)
    return names


def _accounts(product_id: int, cloud_ids: Collection[str]) -> dict[str, Account]:
    """The accounts of the sites by their Cloud IDs."""
    accounts = Account.objects.filter(product=product_id, external_id__in=cloud_ids).only(
        "external_id", "traits", "is_identified", "product_id"
    )
    return {account.external_id: account for account in accounts}


# --- Files ----------------------------------------------------------------------------------

_MONTH_HEADS = ("month", "event", "term", "reason", "events", "seats")
_EVENT_HEADS = ("date", "event", "term", "details", "license", "tracking_id", "name")


def _csv(
    product_id: int, name: str, heads: Sequence[str], lines: Iterator[Sequence[Any]]
) -> HttpResponseBase:
    product = Product.objects.get(pk=product_id)
    return csv_response(f"{slugify(product.name)[:50]}_{name}", heads, lines)


def _month_lines(counts: Sequence[Count]) -> Iterator[Sequence[Any]]:
    for count in counts:
        month = f"{count.month:%Y-%m}"
        yield month, count.type, count.term, count.reason, count.events, count.seats


def _event_lines(product_id: int, events: _Events) -> Iterator[Sequence[Any]]:
    for rows in events.all_rows(product_id):
        accounts = _accounts(product_id, {row.cloud_id for row in rows})
        for row in rows:
            account = accounts.get(row.cloud_id)
            details = event_texts.details_text(row.details)
            name = account.name if account else ""
            yield row.date, row.type, row.term, details, row.license, row.cloud_id, name
