"""The newest messages of a product and their outcomes, of all kinds or of one.

Each place holds a bounded number of rows or is read by an index, however many events a product has,
so a page may ask for them every two seconds.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import Enum
from typing import Any

from engagement.models import Product, User
from ingestion import timestamps
from ingestion.log import search
from ingestion.log.search import (
    CLAMPED,
    CLOCK_HINT,
    KINDS,
    SECONDS_HINT,
    Lookup,
    MessageState,
    SearchHit,
    SearchResult,
    event_outcome,
)
from ingestion.log.texts import MessageSummary
from ingestion.models import RecentMessage, RefusedRequest

# For each place, when the page refreshes itself.
LIVE_TIMEOUT_SECONDS = 0.5


class Outcome(Enum):
    """What people choose from: a group of states."""

    RECORDED = "Recorded"
    WAITING = "Waiting"
    DROPPED = "Dropped"
    REFUSED = "Refused"

    def includes(self, state: MessageState) -> bool:
        return self is _OUTCOMES[state]


_OUTCOMES = {
    MessageState.RECORDED: Outcome.RECORDED,
    MessageState.DOUBTFUL_TIME: Outcome.RECORDED,
    MessageState.PARTLY_RECORDED: Outcome.RECORDED,
    MessageState.UNIDENTIFIED_USER: Outcome.WAITING,
    MessageState.WAITING: Outcome.WAITING,
    MessageState.QUARANTINED: Outcome.WAITING,
    MessageState.DROPPED: Outcome.DROPPED,
    MessageState.REFUSED: Outcome.REFUSED,
}


class _Newest(Lookup):
    @staticmethod
    def order(hit: SearchHit) -> Any:
        # Refused requests have no place in the order of arrival.
        return hit.received_at, hit.arrival


def newest_messages(
    product: Product,
    now: datetime,
    *,
    outcome: Outcome | None = None,
    kind: str = "",
    is_live: bool = False,
) -> SearchResult:
    """The product's newest messages with this *outcome* and of this *kind*, or with any."""
    lookup = _Newest(product.pk, now, LIVE_TIMEOUT_SECONDS if is_live else None)

    def of_kind(hits: Iterable[SearchHit]) -> Iterator[SearchHit]:
        for hit in hits:
            is_chosen = outcome is None or outcome.includes(hit.state)
            if is_chosen and (not kind or hit.message.kind in KINDS[kind]):
                yield hit

    if outcome in (None, Outcome.RECORDED, Outcome.DROPPED):
        # Some of those that are listed as dropped were recorded in part.
        place = "dropped messages"
        lookup.look(place, lambda: of_kind(search.dropped(product.pk, "", kind=kind)))
    if outcome in (None, Outcome.WAITING):
        lookup.look("the inbox", lambda: of_kind(search.waiting(product.pk, "", now)))
        lookup.look("the quarantine", lambda: of_kind(search.quarantined(product.pk, "")))
    if outcome in (None, Outcome.RECORDED, Outcome.WAITING):
        lookup.look("recorded messages", lambda: of_kind(_recent(product.pk)))
        if not is_live and not (outcome or kind) and lookup.is_empty():
            # Recorded before the log kept the newest messages, or not by a sender.
            lookup.look_back("recorded events")
    if outcome in (None, Outcome.REFUSED):
        lookup.look("refused requests", lambda: refused(product.pk, kind))
    return lookup.result()


def _recent(product_id: int) -> Iterator[SearchHit]:
    rows = list(RecentMessage.objects.filter(product=product_id))
    identified = _identified(product_id, {row.user_external_id for row in rows})
    for row in rows:
        message = MessageSummary(
            row.kind,
            row.user_external_id,
            row.account_external_id,
            row.event,
            row.message_id,
            row.timestamp,
            row.previous_external_id,
        )
        state, explanation, remedy = (
            event_outcome(
                message, row.received_at, row.user_external_id in identified, _counts_for(message)
            )
            if row.kind == "track"
            else _subject_outcome(row)
        )
        yield SearchHit(row.arrival, state, message, row.received_at, explanation, remedy)


def _identified(product_id: int, external_ids: set[str]) -> set[str]:
    """Those of the ids whose users are identified, or joined to one who is."""
    users = User.objects.filter(product=product_id, external_id__in=external_ids)
    columns = "external_id", "is_identified", "joined_to__is_identified"
    return {id for id, own, joined in users.values_list(*columns) if own or joined}


def _counts_for(message: MessageSummary) -> str:
    # Without one in the message, the account is the one that the user was in.
    return f"the user and account {message.account}" if message.account else "the user"


def _subject_outcome(row: RecentMessage) -> tuple[MessageState, str, str]:
    """The state, explanation and remedy of an identify, a group, or an alias."""
    explanation = f"Sent these traits: {row.detail}." if row.detail else "Sent no traits."
    if row.kind == "alias":
        explanation = "Joins the two ids."
    if timestamps.looks_like_seconds(row.timestamp):
        explanation += f" The timestamp is {row.timestamp:%Y-%m-%d}."
        return MessageState.DOUBTFUL_TIME, explanation, SECONDS_HINT
    if timestamps.was_clamped(row.timestamp, row.received_at):
        return MessageState.DOUBTFUL_TIME, f"{explanation} {CLAMPED}", CLOCK_HINT
    return MessageState.RECORDED, explanation, ""


def refused(product_id: int, kind: str = "") -> Iterator[SearchHit]:
    """The product's newest refused requests."""
    rows = RefusedRequest.objects.filter(product=product_id)
    if kind:
        rows = rows.filter(kind=kind)
    for row in rows.order_by("-id")[: search.MAX_RESULTS]:
        explanation = f"{row.status} {row.code}: {row.message}"
        key = f"key {row.key_hint}…" if row.key_hint else ""
        sender = ", ".join(part for part in (key, row.user_agent) if part)
        remedy = f"Sent with {sender}." if sender else ""
        summary = MessageSummary(row.endpoint)
        yield SearchHit(
            -row.pk, MessageState.REFUSED, summary, row.received_at, explanation, remedy
        )
