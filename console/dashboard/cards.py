"""A product's card on the home page: its numbers, and notices that need attention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.utils import timezone
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from access.pages.scoping import Access
from console.dashboard.notices import (
    INTENDED_DROP_REASONS,
    activity_notices,
    connection_notice,
    credential_notices,
    destination_notices,
    expiry_notices,
    export_notices,
    limit_notices,
    match_notices,
    message_notices,
    score_notices,
)
from console.dashboard.summary import (
    Link,
    Notice,
    ProductSummary,
    add_url,
    admin_url,
    log_url,
    ranking_url,
)
from core import charts
from engagement.insight_kinds import INSIGHTS, InsightKind
from engagement.models import Account, Product, Workspace
from engagement.scores.insights import Insight
from ingestion.log.last_24h import HOURS, Last24Hours
from ingestion.log.texts import format_age
from ingestion.models import IngestionKey
from outcomes.forecasts import texts as forecasts
from outcomes.forecasts.results import Forecast
from trends.changes.sections import Block, Places, describe
from trends.curves import Spark

# The links to workspaces besides the one whose scores are shown.
MAX_OTHER_WORKSPACES = 5
# The kinds of insights whose accounts the overview names.
MAX_ALERT_KINDS = 4
# The rows of a section of what changed. Its list has all.
MAX_CHANGED = 3
# The kinds of insights in a card beside others: those that cost most.
MAX_KINDS = 3


@dataclass(frozen=True)
class Statistic:
    label: str
    value: str
    detail: str = ""
    url: str = ""


@dataclass(frozen=True)
class InsightLink:
    """A link to the accounts with an insight, with their number."""

    label: str
    severity: str
    count: str
    url: str
    # How many of them are alarms of this week.
    began: int = 0


class AlertRow(NamedTuple):
    """An account that needs attention, and why; *is_new* if its alarm began this week."""

    name: str
    url: str
    text: str
    is_new: bool = False


class WeeklyAccounts(NamedTuple):
    """The curve of weekly active accounts, and its ends as text."""

    line: SafeString
    first: str
    last: str


@dataclass(frozen=True)
class FirstEvent:
    """How to send a first event with the newest live key. Managers reveal that key at
    ``reveal_url`` or, if there is none, create one at ``add_url``."""

    key: IngestionKey | None
    reveal_url: str
    add_url: str


@dataclass(frozen=True)
class Card:
    product: Product
    url: str
    notices: Sequence[Notice] = ()
    first_event: FirstEvent | None = None
    statistics: Sequence[Statistic] = ()
    workspace: Workspace | None = None
    other_workspaces: Sequence[Link] = ()
    # The number of workspaces without a link.
    unlisted_workspaces: int = 0
    # What changed in the last week.
    changes: Block | None = None
    digest_url: str = ""
    trends: Sequence[Spark] = ()
    trends_url: str = ""
    # How many accounts have each insight, and accounts that need attention, those that cost most
    # first.
    insights: Sequence[InsightLink] = ()
    alerts: Sequence[tuple[InsightLink, Sequence[AlertRow]]] = ()
    # Beside others; one product has its trends.
    weekly: WeeklyAccounts | None = None
    connection: Notice | None = None
    links: Sequence[Link] = ()


def build_card(summary: ProductSummary, access: Access, now: datetime) -> Card:
    product = summary.product
    url = f"{admin_url('index')}?{urlencode({'product': product.pk})}"
    if product.deletion_requested_at is not None:
        text = f"Being deleted: {product.deleted_rows:,} rows so far."
        return Card(product, url, notices=[Notice("warning", text)])
    may_manage = product.pk in access.managed
    connection = connection_notice(summary)
    is_urgent = connection is not None and connection.level in ("bad", "warning")
    urgent = [connection] if connection and is_urgent else []
    calm = None if urgent else connection
    urgent += expiry_notices(summary, now, may_connect=product.pk in access.connectable)
    urgent += [*credential_notices(summary, now), *limit_notices(summary)]
    urgent += [*destination_notices(summary), *match_notices(summary)]
    urgent += activity_notices(summary)
    urgent += export_notices(summary)
    if summary.is_new:
        first, links = _first_event(summary, may_manage), _links(summary)
        if not (summary.is_alone and product.shows_checklist):
            urgent.append(Notice("quiet", "No messages yet."))
        return Card(product, url, urgent, first_event=first, connection=calm, links=links)
    notices = [*urgent, *score_notices(summary, may_manage), *message_notices(summary, now)]
    return Card(
        product=product,
        url=url,
        notices=sorted(notices, key=lambda notice: _URGENCY.index(notice.level)),
        statistics=list(_statistics(summary, now)),
        workspace=summary.workspaces[0] if summary.workspaces else None,
        other_workspaces=[
            Link(workspace.name, ranking_url("account", workspace))
            for workspace in summary.workspaces[1 : MAX_OTHER_WORKSPACES + 1]
        ],
        unlisted_workspaces=max(0, len(summary.workspaces) - 1 - MAX_OTHER_WORKSPACES),
        changes=_changes(summary),
        digest_url=_digest_url(summary),
        trends=summary.trends,
        trends_url=admin_url("engagement_workspace_trends", summary.workspaces[0].pk)
        if summary.trends
        else "",
        insights=[
            _insight_link(summary, kind)
            for kind in list(summary.attention.counts)[: None if summary.is_alone else MAX_KINDS]
        ],
        alerts=_alerts(summary),
        weekly=_weekly(summary.weekly_accounts),
        connection=calm,
        links=_links(summary),
    )


_URGENCY = ["bad", "warning", "good", "quiet"]


def _links(summary: ProductSummary) -> list[Link]:
    links = []
    if summary.workspaces and not summary.is_new:
        first = summary.workspaces[0]
        links = [
            Link("Accounts", ranking_url("account", first)),
            Link("Users", ranking_url("user", first)),
        ]
    return [*links, Link("Ingestion log", log_url(summary.product))]


# --- First event --------------------------------------------------------------------------


def _first_event(summary: ProductSummary, may_manage: bool) -> FirstEvent:
    now = timezone.now()
    live = (
        key for key in reversed(summary.keys) if not key.revoked_at and not key.has_expired(now)
    )
    key = next(live, None)
    return FirstEvent(
        key=key,
        reveal_url=admin_url("ingestion_ingestionkey_reveal", key.pk) if key and may_manage else "",
        add_url=add_url("ingestion_ingestionkey", summary.product) if may_manage else "",
    )


# --- Scores ---------------------------------------------------------------------------------


def _account_url(account: Account, workspace: Workspace) -> str:
    page = admin_url("engagement_account_change", account.pk)
    return f"{page}?{urlencode({'workspace': workspace.pk})}"


def _weekly(accounts: Sequence[int | None]) -> WeeklyAccounts | None:
    numbers = [count for count in accounts if count is not None]
    if len(numbers) < 2:
        return None
    return WeeklyAccounts(charts.spark(accounts), f"{numbers[0]:,}", f"{numbers[-1]:,}")


def _digest_url(summary: ProductSummary) -> str:
    """Where people make a digest of the workspace."""
    if not summary.workspaces:
        return ""
    query = urlencode({"workspace": summary.workspaces[0].pk})
    return f"{admin_url('notifications_digest_add')}?{query}"


# --- Insights -------------------------------------------------------------------------------


def _insight_link(summary: ProductSummary, kind: InsightKind) -> InsightLink:
    info, count = INSIGHTS[kind], summary.attention.counts[kind]
    url = f"{ranking_url('account', summary.workspaces[0])}&{urlencode({'insight': kind})}"
    began = summary.changes.began.by_insight.get(kind, 0) if summary.changes else 0
    return InsightLink(info.label, info.severity, f"{count:,}", url, began)


def _alerts(summary: ProductSummary) -> list[tuple[InsightLink, Sequence[AlertRow]]]:
    return [
        (
            _insight_link(summary, kind),
            [
                AlertRow(
                    account.name or account.external_id,
                    _account_url(account, summary.workspaces[0]),
                    insight.text,
                    _is_new(summary, insight),
                )
                for account, insight in summary.attention.alerts[kind]
            ],
        )
        for kind in _alert_kinds(summary)
    ]


def _alert_kinds(summary: ProductSummary) -> list[InsightKind]:
    counts = summary.attention.counts
    return [kind for kind in summary.attention.alerts if kind in counts][:MAX_ALERT_KINDS]


def _is_new(summary: ProductSummary, insight: Insight) -> bool:
    """Whether it is an alarm that began in the week of which the overview tells."""
    if summary.changes is None or insight.kind not in summary.changes.began.by_insight:
        return False
    period, since = summary.changes.period, str(insight.numbers.get("since", ""))
    return period.first.isoformat() <= since <= period.last.isoformat()


def _changes(summary: ProductSummary) -> Block | None:
    """What changed, without the alarms that the overview names as alerts."""
    if summary.changes is None:
        return None
    alerts = [
        (account.pk, insight.kind)
        for kind in _alert_kinds(summary)
        for account, insight in summary.attention.alerts[kind]
        if _is_new(summary, insight)
    ]
    return describe(summary.changes, Places(summary.workspaces[0].pk, {}), MAX_CHANGED, alerts)


# --- Statistics -----------------------------------------------------------------------------


def _statistics(summary: ProductSummary, now: datetime) -> Iterator[Statistic]:
    if summary.totals is not None:
        first, totals = summary.workspaces[0], summary.totals
        for label, scope, total, active in (
            ("Scored accounts", "account", totals.accounts, totals.active_accounts),
            ("Scored users", "user", totals.users, totals.active_users),
        ):
            window = first.get_lookback_days_display()
            detail = f"{active:,} active in the last {window}"
            yield Statistic(label, f"{total:,}", detail, ranking_url(scope, first))
    if summary.forecast and summary.workspaces:
        yield _renewals(summary.forecast, summary.workspaces[0])
    messages = summary.last_24h
    yield Statistic(f"Accepted ({HOURS} h)", f"{messages.accepted:,}", _dropped_text(messages))
    yield _inbox(messages, now)


def _renewals(forecast: Forecast, workspace: Workspace) -> Statistic:
    """What is expected of the next month."""
    month, measure = forecast.months[1], forecast.measure()
    sums, unit = month.sums[measure], forecasts.MEASURES[measure].lower()
    label = f"{forecasts.LABELS[forecast.kind]} in {month.first_day:%B}"
    url = f"{admin_url('engagement_workspace_forecast', workspace.pk)}?kind={forecast.kind}"
    if not sums.terms:
        return Statistic(label, "None", "", url)
    of = f"{forecasts.amount(sums.expected, measure)} of {forecasts.amount(sums.due, measure)}"
    interval = forecasts.interval(sums, measure)
    return Statistic(label, of, f"{unit}; {interval} in 80% of cases", url)


def _dropped_text(messages: Last24Hours) -> str:
    """The drops as in the notice, and separately the intended ones."""
    intended = sum(sum(messages.dropped.get(reason, ())) for reason in INTENDED_DROP_REASONS)
    others = sum(map(sum, messages.dropped.values())) - intended
    if not intended:
        return f"{others:,} dropped" if others else ""
    if not others:
        return f"{intended:,} dropped on purpose"
    return f"{others:,} dropped, {intended:,} more on purpose"


def _inbox(messages: Last24Hours, now: datetime) -> Statistic:
    if messages.waiting is None:
        return Statistic("In the inbox", "Too many to count")
    oldest = messages.waiting.oldest
    wait = f"up to {format_age((now - oldest).total_seconds())}" if oldest else ""
    return Statistic("In the inbox", f"{messages.waiting.messages:,}", wait)
