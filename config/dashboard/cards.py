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
from engagement.segments.counts import Totals
from engagement.segments.movers import Mover, Movers
from ingestion.log.last_24h import HOURS, Lately
from ingestion.log.texts import (
    QUARANTINED_TONE,
    RECORDED_TONE,
    WAITING_TONE,
    age,
    short_reason,
    tone,
)
from ingestion.models import DropReason, IngestionKey
from marketplace import status
from marketplace.models import Connection

# Seconds that messages may wait before the card says so: draining takes one or two.
LONG = 60
# The card says so where more of the messages are dropped than this share.
MANY = 0.05
# These drop what is meant to be dropped.
AS_INTENDED = {DropReason.DUPLICATE, DropReason.FORGOTTEN}
# So many workspaces are named besides the one whose scores are shown.
OTHERS = 5


@dataclass(frozen=True)
class Facts:
    """What is known of a product. ``totals`` are those of its first workspace, None where nothing
    has been scored there yet; ``moved`` are its accounts that rose and fell most."""

    product: Product
    has_people: bool
    workspaces: Sequence[Workspace]
    totals: Totals | None
    moved: Movers
    lately: Lately
    keys: Sequence[IngestionKey]
    connection: Connection | None

    @property
    def is_new(self) -> bool:
        """Whether nothing has ever arrived."""
        waiting = self.lately.waiting
        is_empty = waiting is not None and not waiting.messages
        unused = all(key.last_used_at is None for key in self.keys)
        return is_empty and unused and not self.has_people and not self.lately.accepted


class Link(NamedTuple):
    label: str
    url: str


@dataclass(frozen=True)
class Note:
    """Something to know; *level* is its colour (good, warning, bad or quiet), and *link* leads to
    where something can be done about it."""

    level: str
    text: str
    link: Link | None = None


@dataclass(frozen=True)
class Number:
    label: str
    value: str
    detail: str = ""
    url: str = ""


@dataclass(frozen=True)
class Moved:
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
    notes: Sequence[Note] = ()
    first_event: FirstEvent | None = None
    numbers: Sequence[Number] = ()
    workspace: Workspace | None = None
    others: Sequence[Link] = ()
    # Workspaces that are not named.
    more: int = 0
    moved: Sequence[tuple[str, Sequence[Moved]]] = ()
    chart: SafeString | None = None
    connection: Note | None = None
    links: Sequence[Link] = ()


def card(facts: Facts, allowed: Access, now: datetime) -> Card:
    product = facts.product
    url = _page("engagement_product_change", product.pk)
    if product.deletion_requested_at is not None:
        going = f"Being deleted, {product.deleted_rows:,} rows so far."
        return Card(product, url, notes=[Note("warning", going)])
    may_manage = product.pk in allowed.managed
    connection = _connection(facts, may_connect=product.pk in allowed.connected)
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
            Link(one.name, _ranking("account", one)) for one in facts.workspaces[1 : OTHERS + 1]
        ],
        more=max(0, len(facts.workspaces) - 1 - OTHERS),
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


def _links(facts: Facts) -> list[Link]:
    found = []
    if facts.workspaces and not facts.is_new:
        first = facts.workspaces[0]
        found = [
            Link("Accounts", _ranking("account", first)),
            Link("Users", _ranking("user", first)),
        ]
    return [*found, Link("Ingestion log", _log(facts.product))]


# --- Nothing yet ----------------------------------------------------------------------------


def _first_event(facts: Facts, may_manage: bool) -> FirstEvent:
    key = next((key for key in reversed(facts.keys) if key.revoked_at is None), None)
    add = f"{_page('ingestion_ingestionkey_add')}?{urlencode({'product': facts.product.pk})}"
    return FirstEvent(
        key=key,
        reveal_url=_page("ingestion_ingestionkey_reveal", key.pk) if key and may_manage else "",
        add_url=add if may_manage else "",
    )


# --- Scores ---------------------------------------------------------------------------------


def _about_scores(facts: Facts, may_manage: bool) -> Iterator[Note]:
    if not facts.workspaces:
        add = f"{_page('engagement_workspace_add')}?{urlencode({'product': facts.product.pk})}"
        link = Link("Add a workspace", add) if may_manage else None
        yield Note("warning", "The product has no workspace, so nothing is scored.", link)
        return
    workspace = facts.workspaces[0]
    if facts.totals is None:
        yield Note("quiet", "Scores are being computed for the first time; look again in a moment.")
        return
    if sets.is_being_built(workspace):
        yield Note("quiet", f"Scores of {workspace.name}: {sets.progress(workspace)}")
    yield from _about_nobody(facts, workspace, facts.totals)


def _about_nobody(facts: Facts, workspace: Workspace, totals: Totals) -> Iterator[Note]:
    edit = Link("Workspace", _page("engagement_workspace_change", workspace.pk))
    if not totals.users and workspace.audience:
        yield Note("warning", f"Nobody is in the audience of {workspace.name}.", edit)
    elif not totals.users:
        text = (
            "Nobody has been identified yet, so nobody is scored. Events are kept, and count from "
            "the moment that an identify of their user arrives."
        )
        yield Note("warning", text, Link("Ingestion log", _log(facts.product)))
    elif not totals.accounts:
        text = (
            "No user belongs to an account yet. Send a groupId with identify, or a group call with "
            "the userId."
        )
        yield Note("quiet", text)


def _moved(facts: Facts) -> list[tuple[str, Sequence[Moved]]]:
    workspace = facts.workspaces[0]
    return [
        (heading, [_mover(one, workspace) for one in some])
        for heading, some in (("Rising", facts.moved.rising), ("Falling", facts.moved.falling))
    ]


def _mover(mover: Mover, workspace: Workspace) -> Moved:
    page = _page("engagement_account_change", mover.account.pk)
    return Moved(
        name=mover.account.name or mover.account.external_id,
        url=f"{page}?{urlencode({'workspace': workspace.pk})}",
        score=f"{mover.score:.1f}",
        # A true minus is as wide as the plus.
        change=f"{mover.change:+.1f}".replace("-", "\N{MINUS SIGN}"),
    )


# --- Messages -------------------------------------------------------------------------------


def _about_messages(facts: Facts, now: datetime) -> Iterator[Note]:
    sent, log = facts.lately, Link("Ingestion log", _log(facts.product))
    if sent.waiting is None:
        yield Note("warning", "Very many messages wait in the inbox.", log)
    elif sent.waiting.oldest and (seconds := (now - sent.waiting.oldest).total_seconds()) > LONG:
        yield Note("warning", _long_wait(sent.waiting.messages, seconds), log)
    if sent.quarantined is None or sent.quarantined:
        number = "Very many" if sent.quarantined is None else f"{sent.quarantined:,}"
        listing = _page("ingestion_quarantinedmessage_changelist")
        link = Link(
            "Quarantine", f"{listing}?{urlencode({'product__id__exact': facts.product.pk})}"
        )
        yield Note("warning", f"In quarantine, because they could not be recorded: {number}.", link)
    yield from _about_drops(facts)
    if not sent.accepted:
        yield Note("quiet", _silence(facts))


def _long_wait(messages: int, seconds: float) -> str:
    waits = (
        f"1 message waits in the inbox, for {age(seconds)}."
        if messages == 1
        else f"{messages:,} messages wait in the inbox, the oldest for {age(seconds)}."
    )
    return f"{waits} Nothing is lost; if it stays so, workers are missing or busy."


def _about_drops(facts: Facts) -> Iterator[Note]:
    """Says what was dropped most where it is much and nobody meant it."""
    counts = {
        reason: sum(by_hour)
        for reason, by_hour in facts.lately.dropped.items()
        if reason not in AS_INTENDED
    }
    dropped = sum(counts.values())
    if dropped <= MANY * facts.lately.accepted:
        return
    most = max(counts, key=lambda reason: counts[reason])
    how_many = "all of them" if counts[most] == dropped else f"{counts[most]:,} of them"
    text = (
        f"{dropped:,} of {facts.lately.accepted:,} messages of the last {HOURS} hours were "
        f"dropped, {how_many} for this reason: {short_reason(most)}."
    )
    yield Note("warning", text, Link("Show them", _log(facts.product, reason=most.value)))


def _silence(facts: Facts) -> str:
    used = [key.last_used_at for key in facts.keys if key.last_used_at is not None]
    since = f" The last one came {date_format(max(used), 'DATETIME_FORMAT')}." if used else ""
    return f"No messages in the last {HOURS} hours.{since}"


def _chart(facts: Facts) -> SafeString:
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


def _numbers(facts: Facts, now: datetime) -> Iterator[Number]:
    if facts.totals is not None:
        first, totals = facts.workspaces[0], facts.totals
        for label, scope, every, active in (
            ("Scored accounts", "account", totals.accounts, totals.active_accounts),
            ("Scored users", "user", totals.users, totals.active_users),
        ):
            window = first.get_lookback_days_display()
            detail = f"{active:,} active in the last {window}"
            yield Number(label, f"{every:,}", detail, _ranking(scope, first))
    sent = facts.lately
    yield Number(f"Accepted in {HOURS} h", f"{sent.accepted:,}", _dropped(sent))
    yield _inbox(sent, now)


def _dropped(sent: Lately) -> str:
    """The same numbers as the note has, and apart from them what was meant to be dropped."""
    meant = sum(sum(sent.dropped.get(reason, ())) for reason in AS_INTENDED)
    others = sum(map(sum, sent.dropped.values())) - meant
    if not meant:
        return f"{others:,} dropped" if others else ""
    return (
        f"{others:,} dropped, {meant:,} more as intended"
        if others
        else (f"{meant:,} dropped as intended")
    )


def _inbox(sent: Lately, now: datetime) -> Number:
    if sent.waiting is None:
        return Number("In the inbox", "very many")
    oldest = sent.waiting.oldest
    waited = f"up to {age((now - oldest).total_seconds())}" if oldest else ""
    return Number("In the inbox", f"{sent.waiting.messages:,}", waited)


def _connection(facts: Facts, *, may_connect: bool) -> Note | None:
    """How the marketplace connection stands; None where there is none and nothing to be done."""
    if facts.connection is None:
        if not may_connect:
            return None
        add = f"{_page('marketplace_connection_add')}?{urlencode({'product': facts.product.pk})}"
        return Note("quiet", "Not connected to a marketplace.", Link("Connect", add))
    stands = status.health(facts.connection)
    page = Link("Connection", _page("marketplace_connection_change", facts.connection.pk))
    text = " ".join(part for part in (stands.title, stands.reason) if part)
    return Note(stands.level, f"Marketplace: {text}", page)
