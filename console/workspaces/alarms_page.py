"""The page *Alarms* of a workspace: which are to be worked on, and what became of the others."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.http import urlencode

from access.pages.pages import ExtraView, PageAdmin
from access.pages.subject_urls import subject_url
from access.work import alarms, owners
from access.work.settings import Means, results_of
from console.workspaces.false_alarms import closed_sentence, false_alarms
from core.ids import parse_id
from engagement.activity.false_alarms import account_quarters
from engagement.activity.reading import DIRECTIONS
from engagement.models import Account, ScoreSet, Workspace
from engagement.scores.insight_texts import format_day
from outcomes.statistics.estimates import Estimate
from outcomes.statistics.rates import wilson

PAGE_SIZE, MOST_PAGES = 50, 200
# What became of alarms is told of as many days.
REPORT_DAYS = 365
WHOSE = {"mine": "Mine", "all": "All"}
STATES = {"open": "To do", "snoozed": "Snoozed", "closed": "Closed"}


class AlarmPages(PageAdmin):
    """The part of a workspace's admin that serves alarms."""

    alarm_views: ClassVar[Sequence[ExtraView]] = (
        ExtraView("alarms", permission="view", methods=("GET", "HEAD")),
    )

    def alarms_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        choice, now = _Choice.of(request), timezone.now()
        context: dict[str, Any] = {"choice": choice, "tabs": list(_tabs(choice))}
        if (scores := workspace.scores) and scores.scored_day:
            context |= _table(scores, choice, now.date())
            context |= _report(workspace, scores, now)
        title = "Alarms"
        return self.render_page(
            request, "admin/engagement/alarms.html", title, subtitle=None, **context
        )


@dataclass(frozen=True)
class _Choice:
    """What the address asks for: whose alarms, in which state."""

    me: str
    whose: str
    state: str
    page: int

    @classmethod
    def of(cls, request: HttpRequest) -> "_Choice":
        """Raises Http404 for what no link asks for."""
        query = request.GET
        whose, state = query.get("whose", "all"), query.get("state", "open")
        page = parse_id(query.get("page", "1"))
        if whose not in WHOSE or state not in STATES or not page or page > MOST_PAGES:
            raise Http404
        return cls(request.user.get_username(), whose, state, page)

    def url(self, **changes: str | int) -> str:
        own: dict[str, str | int] = {"whose": self.whose, "state": self.state, **changes}
        return f"?{urlencode(own)}"

    @property
    def owner(self) -> str:
        return self.me if self.whose == "mine" else ""


def _tabs(choice: _Choice) -> Iterator[list[tuple[str, str, bool]]]:
    yield [(label, choice.url(whose=each), each == choice.whose) for each, label in WHOSE.items()]
    yield [(label, choice.url(state=each), each == choice.state) for each, label in STATES.items()]


class _Row(NamedTuple):
    name: str
    url: str
    alarm: str
    since: date
    owner: str
    state: str


def _table(scores: ScoreSet, choice: _Choice, today: date) -> dict[str, Any]:
    start = (choice.page - 1) * PAGE_SIZE
    rows = alarms.listed(scores, choice.state, choice.owner, today)
    page = rows[start : start + PAGE_SIZE + 1]
    names = owners.names(scores.product_id)
    has_next = len(page) > PAGE_SIZE and choice.page < MOST_PAGES
    accounts = Account.objects.filter(
        product=scores.product_id, pk__in={row.account_id for row in page}
    )
    by_id = {account.pk: account for account in accounts.defer("trait_stamps")}
    return {
        "rows": [
            _Row(
                account.name or account.external_id,
                subject_url(account, "account", scores.workspace_id),
                alarms.label(row.signal, is_stopped=getattr(row, "is_stopped", False)),
                row.since,
                names.get(row.owner, row.owner or ""),
                _describe(row, names),
            )
            for row in page[:PAGE_SIZE]
            if (account := by_id.get(row.account_id))
        ],
        "previous_url": choice.url(page=choice.page - 1) if choice.page > 1 else "",
        "next_url": choice.url(page=choice.page + 1) if has_next else "",
    }


def _describe(row: Any, names: dict[str, str]) -> str:
    if row.result:
        return f"{row.result}, {names.get(row.closed_by, row.closed_by)}"
    until = f"until {format_day(row.snoozed_until)}" if row.snoozed_until else ""
    taker = f"taken by {names.get(row.taken_by, row.taken_by)}" if row.taken_by else ""
    return ", ".join(filter(None, (taker, until)))


# --- What became of them ----------------------------------------------------------------------


class _Became(NamedTuple):
    """The closed alarms of a signal: their results, and the share of false ones."""

    label: str
    closed: int
    results: str
    false: Estimate | None


def _report(workspace: Workspace, scores: ScoreSet, now: datetime) -> dict[str, Any]:
    since = now - timedelta(days=REPORT_DAYS)
    counts = alarms.count_results(scores, since)
    meanings = results_of(workspace.product)
    became = []
    for signal in dict.fromkeys(signal for signal, _ in counts):
        own = {result: number for (of, result), number in counts.items() if of == signal}
        became.append(_became(alarms.label(signal), own, meanings))
    if len(became) > 1:
        totals: dict[str, int] = {}
        for (_, result), number in counts.items():
            totals[result] = totals.get(result, 0) + number
        became.append(_became("All", totals, meanings))
    false = Counter[str]()
    for (signal, result), number in counts.items():
        false[signal] += number * (meanings.get(result) is Means.FALSE_ALARM)
    quarters = account_quarters(workspace, since.date(), now.date())
    return {
        "became": became,
        "rates": [
            closed_sentence(workspace, signal, false[signal], quarters)
            for signal in DIRECTIONS
            if signal in false and quarters
        ],
        "began": alarms.began(scores, since.date()),
        "closed": sum(counts.values()),
        "report_days": REPORT_DAYS,
        "stated": false_alarms(workspace, now.date())["sentences"],
    }


def _became(label: str, own: dict[str, int], meanings: dict[str, Means]) -> _Became:
    closed = sum(own.values())
    false = sum(n for result, n in own.items() if meanings.get(result) is Means.FALSE_ALARM)
    results = sorted(own.items(), key=lambda pair: (-pair[1], pair[0]))
    text = ", ".join(f"{number:,} {result}" for result, number in results)
    return _Became(label, closed, text, wilson(false, closed))
