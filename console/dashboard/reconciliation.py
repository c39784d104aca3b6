"""The page that compares a product's license events with what the marketplace counts itself."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from access.pages.place import find_place
from console.dashboard.licenses import MAX_ROWS, MONTHS_SHOWN, TERMS, account_names
from marketplace.ledger import reconciliation
from marketplace.ledger.monthly import OTHER, months_before
from marketplace.ledger.reconciliation import Difference, Matching, Metric, MonthCounts
from marketplace.models import Connection
from marketplace.status.report_status import ReportStatus, report_statuses


@dataclass(frozen=True)
class Numbers:
    """The counts of a month, or of one of its terms. *theirs* is None until it has been read."""

    ours: int
    theirs: int | None

    @property
    def difference(self) -> str:
        """What ours has more, with its sign; "" if both have the same or theirs is unknown."""
        difference = self.ours - self.theirs if self.theirs is not None else 0
        return f"{difference:+,}".replace("-", "\N{MINUS SIGN}") if difference else ""


@dataclass(frozen=True)
class MonthRow:
    month: date
    url: str
    numbers: Sequence[Numbers]
    differing: int


@dataclass(frozen=True)
class MetricTable:
    """A metric by month: all terms, and each one apart."""

    title: str
    status: ReportStatus | None
    terms: Sequence[str]
    months: Sequence[MonthRow]


@dataclass(frozen=True)
class DifferenceRow:
    """A license that differs. ``url`` is empty if no account has its site."""

    name: str
    url: str
    difference: Difference


def reconciliation_view(request: HttpRequest, site_context: dict[str, Any]) -> HttpResponse:
    """The months of each metric, or with ``metric`` and ``month`` the licenses that differ."""
    product_id = find_place(request).product_id
    if product_id is None:
        raise Http404
    connection = Connection.objects.filter(product=product_id).first()
    statuses = (
        {status.report: status for status in report_statuses(connection)} if connection else {}
    )
    this_month = timezone.now().date().replace(day=1)
    months = [months_before(this_month, number) for number in range(MONTHS_SHOWN)]
    context: dict[str, Any] = {**site_context, "title": "Reconciliation", "subtitle": None}
    if "metric" in request.GET:
        context |= _differences_context(request, product_id, statuses, months)
        return TemplateResponse(request, "config/reconciliation_month.html", context)
    context |= {
        "connection": connection,
        "tables": [_table(product_id, metric, statuses.get(metric), months) for metric in Metric],
        "licenses_url": _address("licenses", product_id),
    }
    return TemplateResponse(request, "config/reconciliation.html", context)


def _address(name: str, product_id: int, **query: str) -> str:
    parameters: dict[str, str | int] = {"product": product_id, **query}
    return f"{reverse(f'admin:{name}')}?{urlencode(parameters)}"


def _is_read(status: ReportStatus | None) -> bool:
    return status is not None and status.read_at is not None


def _compare(product_id: int, metric: Metric, months: Sequence[date]) -> Matching:
    until = months_before(months[0], -1)
    return reconciliation.compare(product_id, metric, months[-1], until)


# --- The months -----------------------------------------------------------------------------


def _table(
    product_id: int, metric: Metric, status: ReportStatus | None, months: Sequence[date]
) -> MetricTable:
    counts = reconciliation.count_by_month(_compare(product_id, metric, months))
    counts = [count for count in counts if count.month in months]
    terms = [
        term
        for term in TERMS
        if metric is not Metric.CONVERSION
        and (term != OTHER or any(count.term == OTHER for count in counts))
    ]
    is_read = _is_read(status)
    rows = [
        MonthRow(
            month,
            _address(
                "licenses_reconciliation",
                product_id,
                metric=metric.value,
                month=f"{month:%Y-%m}",
            ),
            list(_numbers([count for count in counts if count.month == month], terms, is_read)),
            sum(count.differing for count in counts if count.month == month) if is_read else 0,
        )
        for month in months
    ]
    titles = ["All terms", *(TERMS[term].capitalize() for term in terms)] if terms else ["All"]
    return MetricTable(metric.label, status, titles, rows)


def _numbers(
    counts: Sequence[MonthCounts], terms: Sequence[str], is_read: bool
) -> Iterator[Numbers]:
    """Of all terms, and then of each."""
    ours, theirs = Counter[str](), Counter[str]()
    for count in counts:
        for key in ("", count.term) if terms else ("",):
            ours[key] += count.ours
            theirs[key] += count.theirs
    for key in ("", *terms):
        yield Numbers(ours[key], theirs[key] if is_read else None)


# --- The licenses of a month ----------------------------------------------------------------


def _differences_context(
    request: HttpRequest,
    product_id: int,
    statuses: dict[str, ReportStatus],
    months: Sequence[date],
) -> dict[str, Any]:
    """Raises Http404 for what no link of the page asks for."""
    try:
        metric = Metric(request.GET["metric"])
        month = date.fromisoformat(f"{request.GET.get('month', '')}-01")
    except ValueError:
        raise Http404 from None
    status = statuses.get(metric)
    if month not in months or status is None or status.read_at is None:
        raise Http404
    matching = _compare(product_id, metric, months)
    of_month = [
        side
        for side in matching.sides()
        if any(event and reconciliation.month_of(event) == month for event in side)
    ]
    differing = [side for side in of_month if reconciliation.differs(*side)]
    differing.sort(key=lambda side: min(event.date for event in side if event))
    rows = reconciliation.explain(product_id, metric, differing[:MAX_ROWS], status.read_at.date())
    names = account_names(product_id, {row.cloud_id for row in rows})
    return {
        "title": f"{metric.label}, {month:%B %Y}: licenses that differ",
        "rows": [DifferenceRow(*names[row.cloud_id], row) for row in rows],
        "counts": Numbers(*(_in_month(of_month, place, month) for place in (0, 1))),
        "is_cut": len(differing) > MAX_ROWS,
        "max_rows": MAX_ROWS,
        "back_url": _address("licenses_reconciliation", product_id),
    }


def _in_month(sides: Sequence[reconciliation.Side], place: int, month: date) -> int:
    """How many events one of the two sides has in the month."""
    events = (side[place] for side in sides)
    return sum(event is not None and reconciliation.month_of(event) == month for event in events)
