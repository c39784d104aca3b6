"""The page *Renewals ahead* of a workspace: what its latest forecast says, the accounts behind it,
and how good past forecasts were."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, ClassVar, NamedTuple

from django.db.models import F, QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.utils.http import urlencode
from django.utils.text import slugify

from access.pages.csv_file import csv_response
from access.pages.pages import ExtraView, PageAdmin
from access.pages.subject_urls import subject_url
from core.ids import parse_id
from engagement.activity.reading import NO_ALARMS, alarms_by_account
from engagement.models import Account, AccountChance, AccountEngagement, Workspace
from engagement.scores.insights import account_facts, apply_rules
from engagement.scores.metrics import licensed_seats
from marketplace.ledger import reading
from marketplace.ledger.vocabulary import EventType
from outcomes.chances.storage import evidence_of
from outcomes.chances.texts import fact_texts
from outcomes.forecasts import storage, texts
from outcomes.forecasts.results import (
    Forecast,
    ForecastMonth,
    Measure,
    PastMonth,
    Sums,
    month_after,
)
from outcomes.kinds import Kind
from outcomes.statistics.estimates import Estimate

TITLE = "Renewals ahead"
PAGE_SIZE = 25
FILE_HEAD = (
    *("Figure", "Month", "Made on", "From score", "Below score", "Account", "License", "Day"),
    *("Terms", "Due", "Expected", "Low", "High", "Happened", "Open"),
)


class ForecastPages(PageAdmin):
    """The part of a workspace's admin that serves its forecasts."""

    forecast_views: ClassVar[Sequence[ExtraView]] = (
        ExtraView("forecast", permission="view", methods=("GET", "HEAD")),
    )

    def forecast_view(self, request: HttpRequest, workspace: Workspace) -> HttpResponseBase:
        """The forecast of ``kind`` by ``measure``, the accounts of ``month``, and those that made
        the difference in ``past`` months; with ``file``, all of it as CSV."""
        forecasts = storage.latest(workspace)
        choice = _Choice.of(self.view_url("forecast", workspace), request, forecasts)
        context: dict[str, Any] = {"choice": choice}
        if choice is None:
            if "file" in request.GET:
                raise Http404
        elif "file" in request.GET:
            name = f"{slugify(workspace.name)}-{choice.forecast.kind}-forecast"
            return csv_response(name, FILE_HEAD, _file_lines(workspace, choice))
        else:
            context |= _context(workspace, choice, forecasts)
        template = "admin/engagement/forecast.html"
        return self.render_page(request, template, TITLE, subtitle=None, **context)


@dataclass(frozen=True)
class _Choice:
    """What the address of the page asks for."""

    path: str
    forecast: Forecast
    measure: Measure
    month: ForecastMonth
    past: PastMonth | None
    page: int

    @classmethod
    def of(
        cls, path: str, request: HttpRequest, forecasts: Mapping[Kind, Forecast]
    ) -> "_Choice | None":
        """None without a forecast. Raises Http404 for what no link of the page asks for."""
        query = request.GET
        if (query.get("kind") or Kind.RENEWAL) not in set(Kind):
            raise Http404
        with_terms = [kind for kind, each in forecasts.items() if any(m.terms for m in each.months)]
        default = next(iter([*with_terms, *forecasts]), None)
        forecast = forecasts.get(Kind(query.get("kind") or default or Kind.RENEWAL))
        if forecast is None:
            return None
        months = {f"{month.first_day:%Y-%m}": month for month in forecast.months}
        first = next((month for month in forecast.months if month.terms), forecast.months[0])
        month = months.get(query["month"]) if query.get("month") else first
        measure = forecast.measure(query.get("measure"))
        periods = {texts.period_name(past): past for past in forecast.past_periods()}
        missed = (past for past in periods.values() if past.is_within[measure] is False)
        past = periods.get(query["past"]) if query.get("past") else next(missed, None)
        if month is None or (query.get("past") and past is None):
            raise Http404
        page = parse_id(query.get("page", "")) or 1
        return cls(path, forecast, measure, month, past, page)

    def url(self, **changes: object) -> str:
        """The page's address with these changes, on the first page of accounts."""
        month = f"{self.month.first_day:%Y-%m}"
        own = {"kind": str(self.forecast.kind), "measure": str(self.measure), "month": month}
        own["past"] = texts.period_name(self.past) if self.past else ""
        query = {name: str(value) for name, value in (own | changes).items() if value}
        return f"{self.path}?{urlencode(query)}"


class _Bar(NamedTuple):
    """The sums of a row as text, and as shares of the largest amount that is due."""

    label: str
    url: str
    is_chosen: bool
    terms: int
    due: str
    expected: str
    interval: str
    shares: Mapping[str, float]


def _context(
    workspace: Workspace, choice: _Choice, forecasts: Mapping[Kind, Forecast]
) -> dict[str, Any]:
    forecast, measure = choice.forecast, choice.measure
    (versions,) = (
        storage.latest_rows([workspace.pk])
        .filter(kind=forecast.kind)
        .values_list("versions", flat=True)
    )
    rows = _at_stake(workspace, choice)
    start = (choice.page - 1) * PAGE_SIZE
    listed = list(rows[start : start + PAGE_SIZE + 1])
    return {
        "forecast": forecast,
        "kinds": [
            (texts.LABELS[kind], choice.url(kind=kind, month="", past=""), kind == forecast.kind)
            for kind in forecasts
        ],
        "measures": [
            (label, choice.url(measure=each), each == measure)
            for each, label in texts.MEASURES.items()
        ],
        "summary": texts.summary(forecast, measure),
        "coverage": texts.coverage_sentence(forecast, measure),
        "months": _bars(choice, [(f"{m.first_day:%B %Y}", m.sums, m) for m in forecast.months]),
        "month_label": f"{choice.month.first_day:%B %Y}",
        "bands": _bars(choice, [(_band_label(b), b.sums, None) for b in choice.month.bands]),
        "past": [
            (
                texts.period_label(past),
                f"{choice.url(past=texts.period_name(past))}#difference",
                past is choice.past,
                texts.amount(past.sums[measure].due, measure),
                texts.amount(past.sums[measure].expected, measure),
                texts.interval(past.sums[measure], measure),
                texts.amount(past.happened[measure], measure),
                texts.within_text(past, measure),
            )
            for past in forecast.past_periods()
        ],
        **_difference(workspace, choice),
        "remarks": list(texts.remarks(forecast, measure)),
        "made": texts.made_sentence(forecast.made_on, versions),
        "accounts": _account_rows(workspace, listed[:PAGE_SIZE], measure),
        "previous_url": choice.url(page=choice.page - 1) if choice.page > 1 else "",
        "next_url": choice.url(page=choice.page + 1) if len(listed) > PAGE_SIZE else "",
        "file_url": choice.url(file="csv"),
        "amount_label": texts.MEASURES[measure],
    }


def _bars(choice: _Choice, rows: Sequence[tuple[str, Any, ForecastMonth | None]]) -> list[_Bar]:
    measure = choice.measure
    largest = max((sums[measure].due for _, sums, _ in rows), default=0) or 1
    return [
        _Bar(
            label,
            choice.url(month=f"{month.first_day:%Y-%m}") if month else "",
            month is choice.month,
            sums[measure].terms,
            texts.amount(sums[measure].due, measure),
            texts.amount(sums[measure].expected, measure),
            texts.interval(sums[measure], measure),
            {
                name: getattr(sums[measure], name) / largest
                for name in ("due", "expected", "low", "high")
            },
        )
        for label, sums, month in rows
    ]


def _band_label(band: Any) -> str:
    return "No score" if band.low is None else f"{band.low} to {band.high}"


# --- Accounts -------------------------------------------------------------------------------


class _AccountRow(NamedTuple):
    """A term that is not decided, and what is known about its account."""

    name: str
    url: str
    day: date
    amount: str
    chance: str
    interval: str
    is_share: bool
    seats_in_use: str
    evidence: Sequence[str]


def _at_stake(workspace: Workspace, choice: _Choice) -> QuerySet[AccountChance]:
    """The terms of the month that are not decided, those with most at stake first. Monthly licenses
    renew in each month from that of their term on."""
    is_monthly = choice.forecast.kind is Kind.MONTHLY_STAY
    first_day = choice.month.first_day
    rows = AccountChance.objects.filter(
        product=workspace.product_id,
        workspace=workspace,
        kind=choice.forecast.kind,
        day__gte=choice.forecast.months[0].first_day if is_monthly else first_day,
        day__lt=month_after(first_day, 1),
    )
    stake = (1 - F("chance")) * F(choice.measure.value)
    order = (F("stake").desc(nulls_last=True), "account_id", "license")
    return rows.annotate(stake=stake).order_by(*order)


def _account_rows(
    workspace: Workspace, rows: Sequence[AccountChance], measure: Measure
) -> list[_AccountRow]:
    ids = {row.account_id for row in rows}
    accounts = Account.objects.filter(product=workspace.product_id, id__in=ids)
    by_id = {account.pk: account for account in accounts.defer("trait_stamps")}
    evidence = _evidence(workspace, by_id)
    return [
        _AccountRow(
            account.name or account.external_id,
            subject_url(account, "account", workspace.pk),
            row.day,
            texts.amount(value, measure) if (value := getattr(row, measure)) is not None else "–",
            f"{row.chance:.0%}",
            Estimate(row.chance, row.low, row.high, row.outcomes).percent_range,
            row.is_share,
            evidence[account.pk].seats_in_use,
            [*_facts(row), *evidence[account.pk].sentences],
        )
        for row in rows
        if (account := by_id.get(row.account_id))
    ]


def _facts(row: AccountChance) -> Iterator[str]:
    """What moved the chance, in words."""
    for fact, effect in fact_texts(evidence_of(row)):
        yield f"{fact}: {effect}."


class _Evidence(NamedTuple):
    seats_in_use: str = "–"
    sentences: Sequence[str] = ()


def _evidence(workspace: Workspace, accounts: Mapping[int, Account]) -> dict[int, _Evidence]:
    """The seats in use, the insights with the open alarms, and why licenses of the same site were
    cancelled or left."""
    sentences = defaultdict[int, list[str]](list)
    seats: dict[int, str] = {}
    scores = workspace.scores
    if scores and scores.scored_day:
        alarms = alarms_by_account(scores, accounts)
        rows = AccountEngagement.objects.filter(
            product=workspace.product_id, score_set=scores, account_id__in=accounts
        )
        for row in rows:
            row.account = accounts[row.account_id]
            own = alarms.get(row.account_id, NO_ALARMS)
            insights = apply_rules(account_facts(scores, row, alarms=own))
            sentences[row.account_id] += [insight.text for insight in insights]
            if (of := licensed_seats(row.account.traits)) and scores.counts_seats:
                seats[row.account_id] = f"{row.active_users:,} of {of:,.0f}"
    by_site = {account.external_id: account.pk for account in accounts.values()}
    reasons = reading.events_of(workspace.product_id).filter(
        cloud_id__in=by_site, type__in=_LEAVING, withdrawn_at=None
    )
    for event in reasons.order_by("-date"):
        sentences[by_site[event.cloud_id]].append(f"{event.date}: {reading.describe(event)}")
    return {id: _Evidence(seats.get(id, "–"), sentences[id]) for id in accounts}


_LEAVING = (EventType.CANCELLED, EventType.CHURNED, EventType.FEEDBACK)
_SAID = (EventType.CANCELLED, EventType.FEEDBACK)
# How far from the end of a term what is said belongs to it.
_AROUND = timedelta(days=100)


# --- What made the difference ---------------------------------------------------------------


class _Decisive(NamedTuple):
    """A term that ended otherwise than was expected. An account that is gone has no URL."""

    name: str
    url: str
    day: date
    amount: str
    chance: str
    became: str
    said: str


def _difference(workspace: Workspace, choice: _Choice) -> dict[str, Any]:
    """The terms behind a past forecast that was missed, or that somebody asks for."""
    past, measure = choice.past, choice.measure
    if past is None:
        return {}
    terms = storage.decisive_terms(workspace, choice.forecast, past, measure)
    became = "renewed" if texts.is_more(past, measure) else "did not renew"
    own = [term for term in terms if term.license]
    sites = {term.cloud_id for term in own}
    accounts = Account.objects.filter(product=workspace.product_id, external_id__in=sites)
    by_site = {account.external_id: account for account in accounts.defer("trait_stamps")}
    answers = _answers_of(workspace, own)
    return {
        "difference": texts.difference_sentence(past, measure),
        "difference_label": texts.period_label(past),
        "difference_made": texts.made_sentence(past.made_on, past.versions),
        "decisive": [
            _Decisive(
                (account.name or account.external_id) if account else term.license,
                subject_url(account, "account", workspace.pk) if account else "",
                term.day,
                texts.amount(getattr(term, measure) or 0, measure),
                f"{term.chance:.0%}",
                became,
                answers.get(term.license, "–"),
            )
            for term in own
            for account in (by_site.get(term.cloud_id),)
        ],
    }


def _answers_of(workspace: Workspace, terms: Sequence[storage.DecisiveTerm]) -> Mapping[str, str]:
    """What the customers of these licenses said around the ends of the terms, with a reason if
    there is one."""
    days = {term.license: term.day for term in terms}
    answers = dict[str, str]()
    events = reading.events_of(workspace.product_id).filter(
        license__in=days, type__in=_SAID, withdrawn_at=None
    )
    # The last one stays.
    for event in sorted(events, key=lambda event: ("reason" in event.details, event.date)):
        if abs(event.date - days[event.license]) <= _AROUND:
            answers[event.license] = f"{event.date}: {reading.describe(event)}"
    return answers


# --- The file -------------------------------------------------------------------------------


def _file_lines(workspace: Workspace, choice: _Choice) -> Iterator[Sequence[Any]]:
    """The months with their bands, the past ones, and the terms that are not decided."""
    forecast, measure = choice.forecast, choice.measure
    made_on, no_term = forecast.made_on, (None, None, None)
    for month in forecast.months:
        label = f"{month.first_day:%Y-%m}"
        yield ("Month", label, made_on, None, None, *no_term, *_figures(month.sums[measure]))
        for band in month.bands:
            figures = _figures(band.sums[measure])
            yield ("Band", label, made_on, band.low, band.high, *no_term, *figures)
    for past in forecast.past_periods():
        figure = "Past month" if past.months == 1 else "Past quarter"
        start = (figure, texts.period_name(past), past.made_on, None, None, *no_term)
        renewed = round(past.happened[measure], 1)
        yield (*start, *_figures(past.sums[measure]), renewed, past.open)
    rows = _at_stake(workspace, choice).values_list(
        "account__external_id", "license", "day", measure.value, "chance", "low", "high"
    )
    label = f"{choice.month.first_day:%Y-%m}"
    for account, license, day, amount, *chances in rows.iterator(2_000):
        expected = [None if amount is None else round(amount * each, 2) for each in chances]
        term = ("Term", label, made_on, None, None, account, license, day)
        yield (*term, 1, amount, *expected)


def _figures(sums: Sums) -> tuple[float, ...]:
    return sums.terms, sums.due, round(sums.expected, 1), sums.low, sums.high
