"""What a product's card on the home page says, and what there is to do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.urls import reverse
from django.utils.formats import date_format
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from engagement.admin.scoping import Access
from engagement.core import charts
from engagement.models import Product, Workspace
from engagement.rescoring import sets
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
from marketplace import status
from marketplace.models import Connection

# Seconds that messages may wait before the card says so: draining takes one or two.
LONG_WAIT_SECONDS = 60
# The card says so where more of the messages are dropped than this share.
HIGH_DROP_SHARE = 0.05
# These drop what is meant to be dropped.
INTENDED_DROP_REASONS = {DropReason.DUPLICATE, DropReason.FORGOTTEN}
# So many workspaces are named besides the one whose scores are shown.
MAX_OTHER_WORKSPACES = 5


@dataclass(frozen=True)
class ProductSummary:
    """What is known of a product. ``totals`` are those of its first workspace, None where nothing
    has been scored there yet; ``moved`` are its accounts that rose and fell most."""

    product: Product
    has_users: bool
    workspaces: Sequence[Workspace]
    totals: SubjectTotals | None
    moved: Movers
    lately: Last24Hours
    keys: Sequence[IngestionKey]
    connection: Connection | None

    @property
    def is_new(self) -> bool:
        """Whether nothing has ever arrived."""
        waiting = self.lately.waiting
        is_empty = waiting is not None and not waiting.messages
        unused = all(key.last_used_at is None for key in self.keys)
        return is_empty and unused and not self.has_users and not self.lately.accepted


class Link(NamedTuple):
    label: str
    url: str


@dataclass(frozen=True)
class Notice:
    """Something to know; *level* is its colour (good, warning, bad or quiet), and *link* leads to
    where something can be done about it."""

    level: str
    text: str
    link: Link | None = None


@dataclass(frozen=True)
class Statistic:
    label: str
    value: str
    detail: str = ""
    url: str = ""


@dataclass(frozen=True)
class MoverRow:
    """An account that rose or fell, in words."""

    name: str
    url: str
    score: str
    change: str


@dataclass(frozen=True)
class FirstEvent:
    """How to send a first event: with the newest live key, which whoever may see it has shown at
    ``reveal_url``; where there is none, one is made at ``add_url`` by whoever may."""

    key: IngestionKey | None
    reveal_url: str
    add_url: str


@dataclass(frozen=True)
class Card:
    product: Product
    url: str
    notes: Sequence[Notice] = ()
    first_event: FirstEvent | None = None
    numbers: Sequence[Statistic] = ()
    workspace: Workspace | None = None
    others: Sequence[Link] = ()
    # Workspaces that are not named.
    more: int = 0
    moved: Sequence[tuple[str, Sequence[MoverRow]]] = ()
    chart: SafeString | None = None
    connection: Notice | None = None
    links: Sequence[Link] = ()


def build_card(facts: ProductSummary, allowed: Access, now: datetime) -> Card:
    product = facts.product
    url = _page("engagement_product_change", product.pk)
    if product.deletion_requested_at is not None:
        going = f"Being deleted, {product.deleted_rows:,} rows so far."
        return Card(product, url, notes=[Notice("warning", going)])
    may_manage = product.pk in allowed.managed
    connection = _connection(facts, may_connect=product.pk in allowed.connectable)
    urgent = [connection] if connection and connection.level in ("bad", "warning") else []
    rest = None if urgent else connection
    if facts.is_new:
        first, links = _first_event(facts, may_manage), _links(facts)
        return Card(product, url, urgent, first_event=first, connection=rest, links=links)
    notes = [*urgent, *_about_scores(facts, may_manage), *_about_messages(facts, now)]
    return Card(
        product=product,
        url=url,
        notes=sorted(notes, key=lambda note: _URGENCY.index(note.level)),
        numbers=list(_numbers(facts, now)),
        workspace=facts.workspaces[0] if facts.workspaces else None,
        others=[
            Link(one.name, _ranking("account", one))
            for one in facts.workspaces[1 : MAX_OTHER_WORKSPACES + 1]
        ],
        more=max(0, len(facts.workspaces) - 1 - MAX_OTHER_WORKSPACES),
        moved=_moved(facts) if facts.totals and facts.totals.accounts else (),
        chart=_chart(facts) if facts.lately.accepted else None,
        connection=rest,
        links=_links(facts),
    )


_URGENCY = ["bad", "warning", "good", "quiet"]


def _page(name: str, *args: object) -> str:
    return reverse(f"admin:{name}", args=args)


def _ranking(scope: str, workspace: Workspace) -> str:
    return f"{_page(f'engagement_{scope}_changelist')}?{urlencode({'workspace': workspace.pk})}"


def _log(product: Product, **asked: str) -> str:
    query = f"?{urlencode(asked)}" if asked else ""
    return _page("ingestion_ingestionlog_change", product.pk) + query


def _links(facts: ProductSummary) -> list[Link]:
    found = []
    if facts.workspaces and not facts.is_new:
        first = facts.workspaces[0]
        found = [
            Link("Accounts", _ranking("account", first)),
            Link("Users", _ranking("user", first)),
        ]
    return [*found, Link("Ingestion log", _log(facts.product))]


# --- Nothing yet ----------------------------------------------------------------------------


def _first_event(facts: ProductSummary, may_manage: bool) -> FirstEvent:
    key = next((key for key in reversed(facts.keys) if key.revoked_at is None), None)
    add = f"{_page('ingestion_ingestionkey_add')}?{urlencode({'product': facts.product.pk})}"
    return FirstEvent(
        key=key,
        reveal_url=_page("ingestion_ingestionkey_reveal", key.pk) if key and may_manage else "",
        add_url=add if may_manage else "",
    )


# --- Scores ---------------------------------------------------------------------------------


def _about_scores(facts: ProductSummary, may_manage: bool) -> Iterator[Notice]:
    if not facts.workspaces:
        add = f"{_page('engagement_workspace_add')}?{urlencode({'product': facts.product.pk})}"
        link = Link("Add a workspace", add) if may_manage else None
        yield Notice("warning", "The product has no workspace, so nothing is scored.", link)
        return
    workspace = facts.workspaces[0]
    if facts.totals is None:
        yield Notice(
            "quiet", "Scores are being computed for the first time; look again in a moment."
        )
        return
    if sets.is_building(workspace):
        yield Notice("quiet", f"Scores of {workspace.name}: {sets.describe_progress(workspace)}")
    yield from _about_nobody(facts, workspace, facts.totals)


def _about_nobody(
    facts: ProductSummary, workspace: Workspace, totals: SubjectTotals
) -> Iterator[Notice]:
    edit = Link("Workspace", _page("engagement_workspace_change", workspace.pk))
    if not totals.users and workspace.audience:
        yield Notice("warning", f"Nobody is in the audience of {workspace.name}.", edit)
    elif not totals.users:
        text = (
            "Nobody has been identified yet, so nobody is scored. Events are kept, and count from "
            "the moment that an identify of their user arrives."
        )
        yield Notice("warning", text, Link("Ingestion log", _log(facts.product)))
    elif not totals.accounts:
        text = (
            "No user belongs to an account yet. Send a groupId with identify, or a group call with "
            "the userId."
        )
        yield Notice("quiet", text)


def _moved(facts: ProductSummary) -> list[tuple[str, Sequence[MoverRow]]]:
    workspace = facts.workspaces[0]
    return [
        (heading, [_mover(one, workspace) for one in some])
        for heading, some in (("Rising", facts.moved.rising), ("Falling", facts.moved.falling))
    ]


def _mover(mover: Mover, workspace: Workspace) -> MoverRow:
    page = _page("engagement_account_change", mover.account.pk)
    return MoverRow(
        name=mover.account.name or mover.account.external_id,
        url=f"{page}?{urlencode({'workspace': workspace.pk})}",
        score=f"{mover.score:.1f}",
        # A true minus is as wide as the plus.
        change=f"{mover.change:+.1f}".replace("-", "\N{MINUS SIGN}"),
    )


# --- Messages -------------------------------------------------------------------------------


def _about_messages(facts: ProductSummary, now: datetime) -> Iterator[Notice]:
    sent, log = facts.lately, Link("Ingestion log", _log(facts.product))
    if sent.waiting is None:
        yield Notice("warning", "Very many messages wait in the inbox.", log)
    elif (
        sent.waiting.oldest
        and (seconds := (now - sent.waiting.oldest).total_seconds()) > LONG_WAIT_SECONDS
    ):
        yield Notice("warning", _long_wait(sent.waiting.messages, seconds), log)
    if sent.quarantined is None or sent.quarantined:
        number = "Very many" if sent.quarantined is None else f"{sent.quarantined:,}"
        listing = _page("ingestion_quarantinedmessage_changelist")
        link = Link(
            "Quarantine", f"{listing}?{urlencode({'product__id__exact': facts.product.pk})}"
        )
        yield Notice(
            "warning", f"In quarantine, because they could not be recorded: {number}.", link
        )
    yield from _about_drops(facts)
    if not sent.accepted:
        yield Notice("quiet", _silence(facts))


def _long_wait(messages: int, seconds: float) -> str:
    waits = (
        f"1 message waits in the inbox, for {format_age(seconds)}."
        if messages == 1
        else f"{messages:,} messages wait in the inbox, the oldest for {format_age(seconds)}."
    )
    return f"{waits} Nothing is lost; if it stays so, workers are missing or busy."


def _about_drops(facts: ProductSummary) -> Iterator[Notice]:
    """Says what was dropped most where it is much and nobody meant it."""
    counts = {
        reason: sum(by_hour)
        for reason, by_hour in facts.lately.dropped.items()
        if reason not in INTENDED_DROP_REASONS
    }
    dropped = sum(counts.values())
    if dropped <= HIGH_DROP_SHARE * facts.lately.accepted:
        return
    most = max(counts, key=lambda reason: counts[reason])
    how_many = "all of them" if counts[most] == dropped else f"{counts[most]:,} of them"
    text = (
        f"{dropped:,} of {facts.lately.accepted:,} messages of the last {HOURS} hours were "
        f"dropped, {how_many} for this reason: {short_reason(most)}."
    )
    yield Notice("warning", text, Link("Show them", _log(facts.product, reason=most.value)))


def _silence(facts: ProductSummary) -> str:
    used = [key.last_used_at for key in facts.keys if key.last_used_at is not None]
    since = f" The last one came {date_format(max(used), 'DATETIME_FORMAT')}." if used else ""
    return f"No messages in the last {HOURS} hours.{since}"


def _chart(facts: ProductSummary) -> SafeString:
    sent, product = facts.lately, facts.product
    series = [
        charts.Series("Recorded", sent.recorded, RECORDED_TONE),
        *(
            charts.Series(
                short_reason(reason), counts, tone(reason), _log(product, reason=reason.value)
            )
            for reason, counts in sent.dropped.items()
        ),
        charts.Series("In quarantine", sent.in_quarantine, QUARANTINED_TONE),
        charts.Series("Waiting", sent.in_inbox, WAITING_TONE),
    ]
    return charts.bars(
        # With the number, because titles are unique on a page and names of products are not.
        f"Messages of {product} (product {product.pk}) in the last {HOURS} hours",
        [f"{hour:%H:%M}" for hour in sent.hours],
        [one for one in series if any(one.values)],
    )


# --- At a glance ----------------------------------------------------------------------------


def _numbers(facts: ProductSummary, now: datetime) -> Iterator[Statistic]:
    if facts.totals is not None:
        first, totals = facts.workspaces[0], facts.totals
        for label, scope, every, active in (
            ("Scored accounts", "account", totals.accounts, totals.active_accounts),
            ("Scored users", "user", totals.users, totals.active_users),
        ):
            window = first.get_lookback_days_display()
            detail = f"{active:,} active in the last {window}"
            yield Statistic(label, f"{every:,}", detail, _ranking(scope, first))
    sent = facts.lately
    yield Statistic(f"Accepted in {HOURS} h", f"{sent.accepted:,}", _dropped(sent))
    yield _inbox(sent, now)


def _dropped(sent: Last24Hours) -> str:
    """The same numbers as the note has, and apart from them what was meant to be dropped."""
    meant = sum(sum(sent.dropped.get(reason, ())) for reason in INTENDED_DROP_REASONS)
    others = sum(map(sum, sent.dropped.values())) - meant
    if not meant:
        return f"{others:,} dropped" if others else ""
    return (
        f"{others:,} dropped, {meant:,} more as intended"
        if others
        else (f"{meant:,} dropped as intended")
    )


def _inbox(sent: Last24Hours, now: datetime) -> Statistic:
    if sent.waiting is None:
        return Statistic("In the inbox", "very many")
    oldest = sent.waiting.oldest
    waited = f"up to {format_age((now - oldest).total_seconds())}" if oldest else ""
    return Statistic("In the inbox", f"{sent.waiting.messages:,}", waited)


def _connection(facts: ProductSummary, *, may_connect: bool) -> Notice | None:
    """How the marketplace connection stands; None where there is none and nothing to be done."""
    if facts.connection is None:
        if not may_connect:
            return None
        add = f"{_page('marketplace_connection_add')}?{urlencode({'product': facts.product.pk})}"
        return Notice("quiet", "Not connected to a marketplace.", Link("Connect", add))
    stands = status.health(facts.connection)
    page = Link("Connection", _page("marketplace_connection_change", facts.connection.pk))
    text = " ".join(part for part in (stands.title, stands.reason) if part)
    return Notice(stands.level, f"Marketplace: {text}", page)
