"""A product's card on the home page: its numbers, and notices that need attention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from engagement.admin.scoping import Access
from engagement.admin.time_format import format_exact
from engagement.core import charts, expiry
from engagement.insight_kinds import INSIGHTS, InsightKind
from engagement.models import Account, Credential, Product, Workspace
from engagement.rescoring import sets
from engagement.segments.attention import NO_ATTENTION, Attention
from engagement.segments.counts import SubjectTotals
from engagement.segments.movers import Mover, Movers
from ingestion.log.last_24h import HOURS, Last24Hours
from ingestion.log.texts import (
    QUARANTINED_TONE,
    RECORDED_TONE,
    WAITING_TONE,
    format_age,
    short_reason,
    tone,
)
from ingestion.models import DropReason, IngestionKey
from marketplace.health import LastRuns, connection_health, expiry_notice
from marketplace.models import Connection
from marketplace.timetable import Timetable
from notifications.models import Destination

# The card mentions a longer wait. Draining takes one or two seconds.
LONG_WAIT_SECONDS = 60
# The card mentions a larger share of dropped messages.
HIGH_DROP_SHARE = 0.05
# Messages dropped for these reasons are meant to be dropped.
INTENDED_DROP_REASONS = {DropReason.DUPLICATE, DropReason.FORGOTTEN}
# The links to workspaces besides the one whose scores are shown.
MAX_OTHER_WORKSPACES = 5
# The kinds of insights whose accounts the overview names.
MAX_ALERT_KINDS = 4


@dataclass(frozen=True)
class ProductSummary:
    """The data of a product's card. ``totals``, ``movers``, and ``attention`` are from the first of
    ``workspaces``. ``totals`` is None if that has no scores yet."""

    product: Product
    has_users: bool
    workspaces: Sequence[Workspace]
    totals: SubjectTotals | None
    movers: Movers
    last_24h: Last24Hours
    keys: Sequence[IngestionKey]
    connection: Connection | None
    last_syncs: LastRuns
    timetable: Timetable
    attention: Attention = NO_ATTENTION
    # Live keys and tokens that expire soon, or have expired lately.
    expiring: Sequence[Credential] = ()
    # The paused destinations of notifications.
    destinations: Sequence[Destination] = ()
    # Whether it is the only card of the page, so that its chart can have all details.
    is_alone: bool = True

    @property
    def is_new(self) -> bool:
        """Whether no message has ever arrived."""
        waiting = self.last_24h.waiting
        is_empty = waiting is not None and not waiting.messages
        unused = all(key.last_used_at is None for key in self.keys)
        return is_empty and unused and not self.has_users and not self.last_24h.accepted


class Link(NamedTuple):
    label: str
    url: str


@dataclass(frozen=True)
class Notice:
    """A text with a level (good, warning, bad, or quiet) and a link to a page about it."""

    level: str
    text: str
    link: Link | None = None


@dataclass(frozen=True)
class Statistic:
    label: str
    value: str
    detail: str = ""
    url: str = ""


class MoverRow(NamedTuple):
    """An account whose score rose or fell, or that is new and has no change, as text."""

    name: str
    url: str
    score: str
    change: str


@dataclass(frozen=True)
class InsightLink:
    """A link to the accounts with an insight, with their number."""

    label: str
    severity: str
    count: str
    url: str


class AlertRow(NamedTuple):
    """An account that needs attention, and why."""

    name: str
    url: str
    text: str


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
    movers: Sequence[tuple[str, Sequence[MoverRow]]] = ()
    # How many accounts have each insight, and accounts that need attention, those that cost most
    # first.
    insights: Sequence[InsightLink] = ()
    alerts: Sequence[tuple[InsightLink, Sequence[AlertRow]]] = ()
    chart: SafeString | None = None
    connection: Notice | None = None
    links: Sequence[Link] = ()


def build_card(summary: ProductSummary, access: Access, now: datetime) -> Card:
    product = summary.product
    url = f"{_admin_url('index')}?{urlencode({'product': product.pk})}"
    if product.deletion_requested_at is not None:
        text = f"Being deleted: {product.deleted_rows:,} rows so far."
        return Card(product, url, notices=[Notice("warning", text)])
    may_manage = product.pk in access.managed
    connection = _connection(summary, may_connect=product.pk in access.connectable)
    is_urgent = connection is not None and connection.level in ("bad", "warning")
    urgent = [connection] if connection and is_urgent else []
    calm = None if urgent else connection
    urgent += _expiry_notices(summary, now, may_connect=product.pk in access.connectable)
    urgent += _credential_notices(summary, now)
    urgent += _destination_notices(summary)
    if summary.is_new:
        first, links = _first_event(summary, may_manage), _links(summary)
        return Card(product, url, urgent, first_event=first, connection=calm, links=links)
    notices = [*urgent, *_score_notices(summary, may_manage), *_message_notices(summary, now)]
    return Card(
        product=product,
        url=url,
        notices=sorted(notices, key=lambda notice: _URGENCY.index(notice.level)),
        statistics=list(_statistics(summary, now)),
        workspace=summary.workspaces[0] if summary.workspaces else None,
        other_workspaces=[
            Link(workspace.name, _ranking_url("account", workspace))
            for workspace in summary.workspaces[1 : MAX_OTHER_WORKSPACES + 1]
        ],
        unlisted_workspaces=max(0, len(summary.workspaces) - 1 - MAX_OTHER_WORKSPACES),
        movers=_movers(summary) if summary.totals and summary.totals.accounts else (),
        insights=[_insight_link(summary, kind) for kind in summary.attention.counts],
        alerts=_alerts(summary),
        chart=_chart(summary) if summary.last_24h.accepted else None,
        connection=calm,
        links=_links(summary),
    )


_URGENCY = ["bad", "warning", "good", "quiet"]


def _admin_url(name: str, *args: object) -> str:
    return reverse(f"admin:{name}", args=args)


def _add_url(model: str, product: Product) -> str:
    return f"{_admin_url(f'{model}_add')}?{urlencode({'product': product.pk})}"


def _ranking_url(scope: str, workspace: Workspace) -> str:
    return (
        f"{_admin_url(f'engagement_{scope}_changelist')}?{urlencode({'workspace': workspace.pk})}"
    )


def _log_url(product: Product, **filters: str) -> str:
    query = f"?{urlencode(filters)}" if filters else ""
    return _admin_url("ingestion_ingestionlog_change", product.pk) + query


def _links(summary: ProductSummary) -> list[Link]:
    links = []
    if summary.workspaces and not summary.is_new:
        first = summary.workspaces[0]
        links = [
            Link("Accounts", _ranking_url("account", first)),
            Link("Users", _ranking_url("user", first)),
        ]
    return [*links, Link("Ingestion log", _log_url(summary.product))]


def _credential_notices(summary: ProductSummary, now: datetime) -> Iterator[Notice]:
    for credential in summary.expiring:
        notice = expiry.describe(credential.expires_at, now)
        if notice is not None:
            label = str(credential._meta.verbose_name)
            name = f"{credential._meta.app_label}_{credential._meta.model_name}_change"
            link = Link("Open", _admin_url(name, credential.pk))
            text = f"{label[:1].upper()}{label[1:]} {credential}: {notice.text[:1].lower()}"
            yield Notice(notice.level, f"{text}{notice.text[1:]}.", link)


def _destination_notices(summary: ProductSummary) -> Iterator[Notice]:
    for destination in summary.destinations:
        link = Link("Destination", _admin_url("notifications_destination_change", destination.pk))
        text = f"Notifications to {destination} are paused. {destination.pause_reason}"
        yield Notice("warning", text, link)


# --- First event --------------------------------------------------------------------------


def _first_event(summary: ProductSummary, may_manage: bool) -> FirstEvent:
    key = next(
        (
            key
            for key in reversed(summary.keys)
            if not (key.revoked_at or key.has_expired(timezone.now()))
        ),
        None,
    )
    add_url = _add_url("ingestion_ingestionkey", summary.product)
    return FirstEvent(
        key=key,
        reveal_url=_admin_url("ingestion_ingestionkey_reveal", key.pk)
        if key and may_manage
        else "",
        add_url=add_url if may_manage else "",
    )


# --- Scores ---------------------------------------------------------------------------------


def _score_notices(summary: ProductSummary, may_manage: bool) -> Iterator[Notice]:
    if not summary.workspaces:
        add = (
            f"{_admin_url('engagement_workspace_add')}?{urlencode({'product': summary.product.pk})}"
        )
        link = Link("Add a workspace", add) if may_manage else None
        yield Notice("warning", "This product has no workspace, so there are no scores.", link)
        return
    workspace = summary.workspaces[0]
    if summary.totals is None:
        yield Notice(
            "quiet", "Scores are being computed for the first time. Reload the page in a moment."
        )
        return
    if sets.is_building(workspace):
        yield Notice("quiet", f"Scores of {workspace.name}: {sets.describe_progress(workspace)}")
    yield from _no_scores_notices(summary, workspace, summary.totals)


def _no_scores_notices(
    summary: ProductSummary, workspace: Workspace, totals: SubjectTotals
) -> Iterator[Notice]:
    edit = Link("Workspace", _admin_url("engagement_workspace_change", workspace.pk))
    if not totals.users and workspace.audience:
        yield Notice("warning", f"No users are in the audience of {workspace.name}.", edit)
    elif not totals.users:
        text = (
            "No users have been identified yet, so there are no scores. Events are kept and will "
            "count once their user is identified."
        )
        yield Notice("warning", text, Link("Ingestion log", _log_url(summary.product)))
    elif not totals.accounts:
        text = (
            "No user belongs to an account yet. Send a groupId with identify, or a userId with "
            "group."
        )
        yield Notice("quiet", text)


def _movers(summary: ProductSummary) -> list[tuple[str, Sequence[MoverRow]]]:
    workspace, movers = summary.workspaces[0], summary.movers
    rows: list[tuple[str, Sequence[MoverRow]]] = [
        ("Rising", [_mover_row(mover, workspace) for mover in movers.rising]),
        ("Falling", [_mover_row(mover, workspace) for mover in movers.falling]),
    ]
    if movers.new:
        # There is no full period to compare with.
        rows.append(
            ("New", [_mover_row(mover, workspace)._replace(change="") for mover in movers.new])
        )
    return rows


def _account_url(account: Account, workspace: Workspace) -> str:
    page = _admin_url("engagement_account_change", account.pk)
    return f"{page}?{urlencode({'workspace': workspace.pk})}"


def _mover_row(mover: Mover, workspace: Workspace) -> MoverRow:
    return MoverRow(
        name=mover.account.name or mover.account.external_id,
        url=_account_url(mover.account, workspace),
        score=f"{mover.score:.1f}",
        # A minus sign is as wide as a plus.
        change=f"{mover.change:+.1f}".replace("-", "\N{MINUS SIGN}"),
    )


# --- Insights -------------------------------------------------------------------------------


def _insight_link(summary: ProductSummary, kind: InsightKind) -> InsightLink:
    info, count = INSIGHTS[kind], summary.attention.counts[kind]
    url = f"{_ranking_url('account', summary.workspaces[0])}&{urlencode({'insight': kind})}"
    return InsightLink(info.label, info.severity, f"{count:,}", url)


def _alerts(summary: ProductSummary) -> list[tuple[InsightLink, Sequence[AlertRow]]]:
    kinds = [kind for kind in summary.attention.alerts if kind in summary.attention.counts]
    return [
        (
            _insight_link(summary, kind),
            [
                AlertRow(
                    account.name or account.external_id,
                    _account_url(account, summary.workspaces[0]),
                    insight.text,
                )
                for account, insight in summary.attention.alerts[kind]
            ],
        )
        for kind in kinds[:MAX_ALERT_KINDS]
    ]


# --- Messages -------------------------------------------------------------------------------


def _message_notices(summary: ProductSummary, now: datetime) -> Iterator[Notice]:
    messages, log = summary.last_24h, Link("Ingestion log", _log_url(summary.product))
    if messages.waiting is None:
        yield Notice("warning", "Too many messages to count are waiting in the inbox.", log)
    elif (
        messages.waiting.oldest
        and (seconds := (now - messages.waiting.oldest).total_seconds()) > LONG_WAIT_SECONDS
    ):
        yield Notice("warning", _long_wait(messages.waiting.messages, seconds), log)
    if messages.quarantined is None or messages.quarantined:
        count = "too many to count" if messages.quarantined is None else f"{messages.quarantined:,}"
        listing = _admin_url("ingestion_quarantinedmessage_changelist")
        link = Link(
            "Quarantine", f"{listing}?{urlencode({'product__id__exact': summary.product.pk})}"
        )
        yield Notice("warning", f"Messages in quarantine after repeated failures: {count}.", link)
    yield from _drop_notices(summary)
    if not messages.accepted:
        yield Notice("quiet", _no_messages_text(summary))


def _long_wait(messages: int, seconds: float) -> str:
    age = format_age(seconds)
    waits = (
        f"1 message has been waiting in the inbox for {age}."
        if messages == 1
        else f"{messages:,} messages are waiting in the inbox, the oldest for {age}."
    )
    return f"{waits} Nothing is lost. If this continues, workers are missing or busy."


def _drop_notices(summary: ProductSummary) -> Iterator[Notice]:
    """A notice about the main drop reason, if the share of unintended drops is high."""
    counts = {
        reason: sum(by_hour)
        for reason, by_hour in summary.last_24h.dropped.items()
        if reason not in INTENDED_DROP_REASONS
    }
    dropped = sum(counts.values())
    if dropped <= HIGH_DROP_SHARE * summary.last_24h.accepted:
        return
    most = max(counts, key=lambda reason: counts[reason])
    share = "all" if counts[most] == dropped else f"{counts[most]:,}"
    text = (
        f"{dropped:,} of {summary.last_24h.accepted:,} messages of the last {HOURS} hours were "
        f"dropped, {share} of them for this reason: {short_reason(most)}."
    )
    yield Notice(
        "warning", text, Link("Show messages", _log_url(summary.product, reason=most.value))
    )


def _no_messages_text(summary: ProductSummary) -> str:
    used = [key.last_used_at for key in summary.keys if key.last_used_at is not None]
    since = f" The last one arrived {format_exact(max(used))}." if used else ""
    return f"No messages in the last {HOURS} hours.{since}"


def _chart(summary: ProductSummary) -> SafeString:
    messages, product = summary.last_24h, summary.product
    series = [
        charts.Series("Recorded", messages.recorded, RECORDED_TONE),
        *(
            charts.Series(
                short_reason(reason), counts, tone(reason), _log_url(product, reason=reason.value)
            )
            for reason, counts in messages.dropped.items()
        ),
        charts.Series("In quarantine", messages.in_quarantine, QUARANTINED_TONE),
        charts.Series("Waiting", messages.in_inbox, WAITING_TONE),
    ]
    return charts.bars(
        # With the id: titles are unique on a page, and product names are not.
        f"Messages of {product} (product {product.pk}) in the last {HOURS} hours",
        [f"{timezone.localtime(hour):%H:%M}" for hour in messages.hours],
        [data for data in series if any(data.values)],
        is_brief=not summary.is_alone,
    )


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
            yield Statistic(label, f"{total:,}", detail, _ranking_url(scope, first))
    messages = summary.last_24h
    yield Statistic(f"Accepted ({HOURS} h)", f"{messages.accepted:,}", _dropped_text(messages))
    yield _inbox(messages, now)


def _dropped_text(messages: Last24Hours) -> str:
    """The drops as in the notice, and separately the intended ones."""
    intended = sum(sum(messages.dropped.get(reason, ())) for reason in INTENDED_DROP_REASONS)
    others = sum(map(sum, messages.dropped.values())) - intended
    if not intended:
        return f"{others:,} dropped" if others else ""
    return (
        f"{others:,} dropped, {intended:,} more as intended"
        if others
        else (f"{intended:,} dropped as intended")
    )


def _inbox(messages: Last24Hours, now: datetime) -> Statistic:
    if messages.waiting is None:
        return Statistic("In the inbox", "Too many to count")
    oldest = messages.waiting.oldest
    waited = f"up to {format_age((now - oldest).total_seconds())}" if oldest else ""
    return Statistic("In the inbox", f"{messages.waiting.messages:,}", waited)


def _connection(summary: ProductSummary, *, may_connect: bool) -> Notice | None:
    """The state of the marketplace connection. None if there is none to see or add."""
    if summary.connection is None:
        if not may_connect:
            return None
        add_url = _add_url("marketplace_connection", summary.product)
        return Notice("quiet", "Not connected to a marketplace.", Link("Connect", add_url))
    health = connection_health(summary.connection, summary.last_syncs, summary.timetable)
    text = " ".join(part for part in (health.title, health.reason) if part)
    return Notice(health.level, f"Marketplace: {text}", _connection_link(summary.connection))


def _expiry_notices(
    summary: ProductSummary, now: datetime, *, may_connect: bool
) -> Iterator[Notice]:
    if summary.connection is None:
        return
    notice = expiry_notice(summary.connection, now.date(), may_manage=may_connect)
    if notice is not None:
        link = _connection_link(summary.connection)
        yield Notice(notice.level, f"Marketplace: {notice.text}", link)


def _connection_link(connection: Connection) -> Link:
    return Link("Connection", _admin_url("marketplace_connection_change", connection.pk))
