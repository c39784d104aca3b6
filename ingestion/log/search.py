"""Answers "Why did my event not arrive?": finds a product's messages and their outcomes.

It needs no table of its own. Every message has a number in the order of arrival, and leaves that
number where it ends: in the inbox, in quarantine, among the dropped messages, at its event, or at
the traits that it wrote. The search takes the newest from each of these places, in bounded time.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from functools import reduce
from operator import and_, or_
from typing import Any, LiteralString

from django.db.models import Q

from core.database import sql
from engagement import event_lookup
from engagement.event_lookup import EventRow
from engagement.models import Account, EventName, Product, User
from engagement.search.terms import readings_of, words_of
from engagement.traits import Source, read_stamp
from ingestion import timestamps
from ingestion.log.texts import REMEDIES, MessageSummary, short_reason, summarize
from ingestion.models import DroppedMessage, DropReason, IngestionKey, SeenMessageId

# In all, and from each place.
MAX_RESULTS = 50
# Messages that contain all words, to choose from those that have them as their names.
MAX_DECODED = 200
# Words may be the names of several users, accounts, and events, in several ways.
MAX_LOOKUPS = 12
# For one query: a person waits for the page.
LOOKUP_TIMEOUT_SECONDS = 1.0
# Without another condition, the search for events goes back step by step until there are enough.
SEARCH_PERIODS = (timedelta(minutes=15), timedelta(days=1), timedelta(days=30))

SECONDS_HINT = "This looks like seconds that were read as milliseconds. Correct the unit."
CLAMPED = "The timestamp was in the future, so the time of receipt counts."
CLOCK_HINT = "Correct the sender's clock, or leave out the timestamp."


# The kinds of messages that people choose from. Pages and screens are recorded as tracks.
KINDS = {
    "identify": ("identify",),
    "group": ("group",),
    "track": ("track", "page", "screen"),
    "alias": ("alias",),
}


class MessageState(Enum):
    """The outcome of a message."""

    RECORDED = "Recorded"
    DOUBTFUL_TIME = "Recorded, with a doubtful time"
    UNIDENTIFIED_USER = "Waiting for its user to be identified"
    WAITING = "Waiting in the inbox"
    QUARANTINED = "In quarantine"
    DROPPED = "Dropped"
    PARTLY_RECORDED = "Recorded in part"
    REFUSED = "Refused"


@dataclass(frozen=True)
class SearchHit:
    """A message or a refused request, and its outcome. ``received_at`` is None if it is no longer
    known.

    ``explanation`` tells what the message changed or why it was not recorded. ``remedy`` tells what
    to do, or is "".
    """

    arrival: int
    state: MessageState
    message: MessageSummary
    received_at: datetime | None
    explanation: str
    remedy: str = ""


@dataclass
class SearchResult:
    """The hits, newest first.

    ``user`` and ``account`` have a term as their id. ``seen_at`` is when a message with the message
    id ``message_id`` was received. ``too_slow`` lists the places where the search timed out.
    """

    entries: list[SearchHit] = field(default_factory=list)
    user: User | None = None
    account: Account | None = None
    message_id: str = ""
    seen_at: datetime | None = None
    too_slow: list[str] = field(default_factory=list)


def find_messages(product: Product, text: str, now: datetime, *, reason: str = "") -> SearchResult:
    """The product's messages that mention every term of *text*: whole user ids, account ids, event
    names, or message ids. With *reason*, only messages that were dropped for it."""
    search = _Search(product.pk, now)
    search.look("dropped messages", lambda: dropped(product.pk, text, reason))
    if not reason:
        search.look("the inbox", lambda: waiting(product.pk, text, now))
        search.look("the quarantine", lambda: quarantined(product.pk, text))
        search.look_for_recorded(readings_of(text))
    return search.result()


class Lookup:
    """Looks into one place after another, each with a time limit."""

    def __init__(self, product_id: int, now: datetime, timeout: float | None = None) -> None:
        self._product_id, self._now = product_id, now
        self._timeout = timeout
        self._result = SearchResult()

    def is_empty(self) -> bool:
        return not self._result.entries

    @staticmethod
    def order(hit: SearchHit) -> Any:
        return hit.arrival

    def seconds(self) -> float:
        """The time limit of one place."""
        return LOOKUP_TIMEOUT_SECONDS if self._timeout is None else self._timeout

    def result(self) -> SearchResult:
        # The search may find an event both by its user and by its name.
        # The list of drops says more about a message that is recorded in part.
        partly = {
            hit.arrival for hit in self._result.entries if hit.state is MessageState.PARTLY_RECORDED
        }
        unique = {
            (hit.arrival, hit.state): hit
            for hit in self._result.entries
            if hit.state is not MessageState.RECORDED or hit.arrival not in partly
        }
        newest = sorted(unique.values(), key=self.order, reverse=True)
        self._result.entries = newest[:MAX_RESULTS]
        return self._result

    def look(self, place: str, find: Callable[[], Iterable[SearchHit]]) -> None:
        try:
            with sql.statement_timeout(self.seconds()):
                self._result.entries += find()
        except sql.StatementTimeout:
            self._result.too_slow.append(place)

    def look_back(self, place: str, **ids: int) -> None:
        """Look for the newest events further and further back until there are enough."""
        rows: list[EventRow] = []
        try:
            for period in SEARCH_PERIODS:
                with sql.statement_timeout(self.seconds()):
                    since = self._now - period
                    rows = event_lookup.newest_events(
                        self._product_id, MAX_RESULTS, ids, since=since
                    )
                if len(rows) >= MAX_RESULTS:
                    break
        except sql.StatementTimeout:
            self._result.too_slow.append(place)
        self._result.entries += _event_hits(self._product_id, rows)


class _Search(Lookup):
    def look_for_recorded(self, readings: Sequence[tuple[str, ...]]) -> None:
        """Look for those of the users, accounts, event names, and message ids that are named."""
        roles_of = _find_names(self._product_id, {term for reading in readings for term in reading})
        lookups = [ids for reading in readings for ids in _assign(reading, roles_of)]
        for ids in lookups[:MAX_LOOKUPS]:
            self._look_for(**ids)
        if len(lookups) > MAX_LOOKUPS:
            self._result.too_slow.append("some of the ways to read these words")

    def _look_for(
        self,
        user: User | None = None,
        account: Account | None = None,
        name: EventName | None = None,
        memory: SeenMessageId | None = None,
    ) -> None:
        """Look for what mentions all of these. Only one of them may have written traits."""
        result = self._result
        result.user, result.account = result.user or user, result.account or account
        subjects = {"user": user, "account": account, "name": name}
        ids = {key: subject.pk for key, subject in subjects.items() if subject is not None}
        if memory:
            result.message_id, result.seen_at = memory.message_id, memory.seen_at
            self.look("events with this message id", lambda: self._of_request(memory, ids))
        elif user:
            self.look("the user's events", lambda: self._of_user(ids))
        else:
            self.look_back("the account's events" if account else "events of this name", **ids)
        if len(ids) == 1 and not memory and (subject := user or account):
            result.entries += _writers(subject)

    def _of_user(self, ids: dict[str, int]) -> list[SearchHit]:
        rows = event_lookup.newest_events(self._product_id, MAX_RESULTS, ids)
        return _event_hits(self._product_id, rows)

    def _of_request(self, memory: SeenMessageId, ids: dict[str, int]) -> list[SearchHit]:
        """The events that were received with the message id: its own, or those of a batch with
        it."""
        rows = event_lookup.newest_events(self._product_id, MAX_RESULTS, {}, at=memory.seen_at)
        message_id = memory.message_id if len(rows) == 1 else ""
        rows = [
            row
            for row in rows
            if ids.get("user") in (None, row.user_id)
            and ids.get("account") in (None, row.account_id)
            and ids.get("name") in (None, row.event_name_id)
        ]
        return _event_hits(self._product_id, rows, message_id)


def _find_names(product_id: int, terms: Collection[str]) -> dict[str, list[tuple[str, Any]]]:
    """What each of the terms is the id or the name of."""
    roles_of: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    users = User.objects.filter(product=product_id, external_id__in=terms)
    for user in users.select_related("joined_to"):
        roles_of[user.external_id].append(("user", user.joined_to or user))
    for account in Account.objects.filter(product=product_id, external_id__in=terms):
        roles_of[account.external_id].append(("account", account))
    for name in EventName.objects.filter(product=product_id, name__in=terms):
        roles_of[name.name].append(("name", name))
    for memory in SeenMessageId.objects.filter(product=product_id, message_id__in=terms):
        roles_of[memory.message_id].append(("memory", memory))
    return roles_of


def _assign(
    reading: tuple[str, ...], roles_of: Mapping[str, Sequence[tuple[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Each way in which the terms are different names of one message."""
    for roles in itertools.product(*(roles_of.get(term, ()) for term in reading)):
        if len(ids := dict(roles)) == len(reading):
            yield ids


# --- Not recorded ---------------------------------------------------------------------------


def dropped(product_id: int, text: str, reason: str = "", kind: str = "") -> Iterator[SearchHit]:
    rows = DroppedMessage.objects.filter(product=product_id)
    if reason:
        rows = rows.filter(reason=reason)
    if kind:
        rows = rows.filter(kind__in=KINDS[kind])
    if text:
        rows = rows.filter(reduce(or_, map(_mention_all, readings_of(text))))
    for row in rows.order_by("-dropped_at")[:MAX_RESULTS]:
        message = MessageSummary(
            row.kind, row.user_external_id, row.account_external_id, row.event, row.message_id
        )
        explanation = short_reason(row.reason, row.detail)
        remedy = REMEDIES[DropReason(row.reason)]
        state = MessageState.PARTLY_RECORDED if _is_partial(row) else MessageState.DROPPED
        yield SearchHit(row.pk, state, message, row.received_at, explanation, remedy)


def _mention_all(reading: tuple[str, ...]) -> Q:
    """Keeps the dropped messages that mention every term."""
    columns = ("user_external_id", "account_external_id", "event", "message_id")
    mentions = (reduce(or_, (Q(**{name: term}) for name in columns)) for term in reading)
    return reduce(and_, mentions)


def _is_partial(row: DroppedMessage) -> bool:
    """Whether the rest of the message was recorded."""
    if row.reason == DropReason.PLACEHOLDER:
        # The placeholder that was left out. A message that is about nobody has none.
        return bool(row.detail)
    return row.reason == DropReason.TOO_MANY_TRAITS


# A payload contains its strings verbatim, so most messages need not be decoded.
_HAS_WORDS: LiteralString = """
    NOT EXISTS (
        SELECT FROM unnest(%(words)b::bytea[]) word WHERE position(word IN payload) = 0)
    ORDER BY id DESC LIMIT %(limit)s
"""
_WAITING: LiteralString = f"""
    SELECT id, payload, received_at, attempts, not_before FROM ingestion_inboxmessage
    WHERE key_digest = ANY(%(digests)b::bytea[]) AND {_HAS_WORDS}
"""
_QUARANTINED: LiteralString = f"""
    SELECT id, payload, received_at, attempts, error FROM ingestion_quarantinedmessage
    WHERE product_id = %(product)s AND {_HAS_WORDS}
"""


def waiting(product_id: int, text: str, now: datetime) -> Iterator[SearchHit]:
    digests = IngestionKey.objects.filter(product=product_id).values_list("digest", flat=True)
    readings = readings_of(text)
    parameters = {"digests": [bytes(digest) for digest in digests], **_candidates(text)}
    for id, payload, received_at, attempts, not_before in sql.fetch(_WAITING, parameters):
        explanation = "It will be recorded within seconds."
        if attempts:
            seconds = max(0, round((not_before - now).total_seconds())) if not_before else 0
            explanation = f"Failed attempts: {attempts}. The next one is in {seconds} s."
        message = summarize(payload)
        if message.is_meant(readings):
            yield SearchHit(id, MessageState.WAITING, message, received_at, explanation)


def quarantined(product_id: int, text: str) -> Iterator[SearchHit]:
    readings = readings_of(text)
    parameters = {"product": product_id, **_candidates(text)}
    for id, payload, received_at, attempts, error in sql.fetch(_QUARANTINED, parameters):
        message = summarize(payload)
        if message.is_meant(readings):
            explanation = f"Failed attempts: {attempts}. {error.strip().splitlines()[0]}"
            remedy = "Retry it once the cause is fixed."
            yield SearchHit(id, MessageState.QUARANTINED, message, received_at, explanation, remedy)


def _candidates(text: str) -> dict[str, Any]:
    """The words that a message must contain, and how many of those messages to decode."""
    words = [word.encode("utf-8", "surrogatepass") for word in words_of(text)]
    return {"words": words, "limit": MAX_DECODED if text else MAX_RESULTS}


# --- Recorded events ------------------------------------------------------------------------


def _event_hits(product_id: int, rows: Sequence[EventRow], message_id: str = "") -> list[SearchHit]:
    in_product = {"product": product_id}
    users = (
        User.objects.filter(**in_product)
        .only("external_id", "is_identified")
        .in_bulk({row.user_id for row in rows})
    )
    accounts = (
        Account.objects.filter(**in_product)
        .only("external_id")
        .in_bulk({row.account_id or 0 for row in rows})
    )
    names = EventName.objects.filter(**in_product).in_bulk({row.event_name_id for row in rows})
    hits = []
    for row in rows:
        user, name = users.get(row.user_id), names.get(row.event_name_id)
        if user is None or name is None:
            # Deleted since the events were read.
            continue
        account = accounts.get(row.account_id or 0)
        message = MessageSummary(
            "track",
            user.external_id,
            account.external_id if account else "",
            name.name,
            message_id,
            row.occurred_at,
        )
        counts_for = (
            f"the user and account {message.account}"
            if message.account
            else "the user and no account"
        )
        state, explanation, remedy = event_outcome(
            message, row.received_at, user.is_identified, counts_for
        )
        hits.append(SearchHit(row.arrival, state, message, row.received_at, explanation, remedy))
    return hits


def event_outcome(
    message: MessageSummary, received_at: datetime, is_identified: bool, counts_for: str
) -> tuple[MessageState, str, str]:
    """The state, explanation and remedy of a recorded event that *counts_for* these subjects."""
    if not is_identified:
        explanation = "Kept. It will count once its user is identified."
        remedy = f"Send an identify with the userId “{message.user}”."
        return MessageState.UNIDENTIFIED_USER, explanation, remedy
    assert message.timestamp is not None
    day = f"{message.timestamp:%Y-%m-%d}"
    if timestamps.looks_like_seconds(message.timestamp):
        explanation = f"Recorded, but too old to score: {day}."
        return MessageState.DOUBTFUL_TIME, explanation, SECONDS_HINT
    explanation = f"Counts on {day} for {counts_for}."
    if timestamps.was_clamped(message.timestamp, received_at):
        return MessageState.DOUBTFUL_TIME, f"{explanation} {CLAMPED}", CLOCK_HINT
    return MessageState.RECORDED, explanation, ""


# --- Recorded users and accounts ------------------------------------------------------------


def _writers(subject: User | Account) -> Iterator[SearchHit]:
    """The messages that wrote the subject's current traits. A marketplace connection writes traits
    without a message."""
    trait_names: dict[int, list[str]] = defaultdict(list)
    times: dict[int, datetime] = {}
    for name, stamp in subject.trait_stamps.items():
        details = read_stamp(stamp)
        if details.source == Source.MESSAGE:
            arrival = int(stamp[1])
            trait_names[arrival].append(name)
            times[arrival] = details.at
    for arrival in sorted(trait_names, reverse=True)[:MAX_RESULTS]:
        explanation = f"Wrote these traits: {', '.join(sorted(trait_names[arrival]))}."
        state, remedy = MessageState.RECORDED, ""
        if timestamps.looks_like_seconds(times[arrival]):
            explanation += f" Their timestamp is {times[arrival]:%Y-%m-%d}."
            state, remedy = MessageState.DOUBTFUL_TIME, SECONDS_HINT
        message = _trait_message(subject, times[arrival])
        yield SearchHit(arrival, state, message, None, explanation, remedy)


def _trait_message(subject: User | Account, at: datetime) -> MessageSummary:
    if isinstance(subject, User):
        return MessageSummary("identify", user=subject.external_id, timestamp=at)
    return MessageSummary("group", account=subject.external_id, timestamp=at)
