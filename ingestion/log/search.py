"""Answers "Why did my event not arrive?": what became of the messages of a product.

Nothing is written for it. Every message has a number in the order of arrival, and wherever it ended
it left that number: in the inbox, in quarantine, among the dropped, at its event, or at the traits
that it wrote. Each of these places is asked for its newest, in bounded time.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from typing import Any, LiteralString, NamedTuple

from django.db.models import Q

from engagement.database import sql
from engagement.models import Account, EventName, Product, User
from engagement.traits import Source, read_stamp
from ingestion import timestamps
from ingestion.log.texts import REMEDIES, MessageSummary, short_reason, summarize
from ingestion.models import DroppedMessage, DropReason, IngestionKey, SeenMessageId

# So many messages are shown, and so many are taken from each place.
MAX_RESULTS = 50
# Seconds that one look into one place may take; somebody waits for the page.
LOOKUP_TIMEOUT_SECONDS = 1.0
# Looking for events that nothing but their time narrows down goes this far back, step by step,
# until there are enough.
SEARCH_PERIODS = (timedelta(minutes=15), timedelta(days=1), timedelta(days=30))
# New users and accounts of a product are looked for among so many ids, the newest of all products.
NEWEST_IDS = 5_000

SECONDS_HINT = "Milliseconds are expected; this looks like seconds."


class MessageState(Enum):
    """What became of a message."""

    RECORDED = "Recorded"
    DOUBTFUL_TIME = "Recorded, with a doubtful time"
    UNIDENTIFIED_USER = "Waiting for its user to be identified"
    WAITING = "Waiting in the inbox"
    QUARANTINED = "In quarantine"
    DROPPED = "Dropped"
    PARTLY_RECORDED = "Recorded without some traits"


@dataclass(frozen=True)
class SearchHit:
    """A message and what became of it. ``received_at`` is None where it is not known any more.

    ``told`` says what it changed or why it was not recorded, ``remedy`` what to do, "" for nothing.
    """

    arrival: int
    state: MessageState
    message: MessageSummary
    received_at: datetime | None
    explanation: str
    remedy: str = ""


@dataclass
class SearchResult:
    """The newest first. ``user`` and ``account`` are whose id was asked for, ``seen_at`` is when a
    message with that message id was received, None where there is none. ``too_slow`` names the
    places where looking took too long."""

    entries: list[SearchHit] = field(default_factory=list)
    user: User | None = None
    account: Account | None = None
    seen_at: datetime | None = None
    too_slow: list[str] = field(default_factory=list)


def find_messages(product: Product, term: str, now: datetime, *, reason: str = "") -> SearchResult:
    """The product's newest messages, or those that name *term* as a whole: a user id, an account
    id, an event name or a message id. With *reason* only what was dropped for it."""
    search = _Search(product.pk, now)
    search.look("dropped messages", lambda: _dropped(product.pk, term, reason))
    if not reason:
        search.look("the inbox", lambda: _waiting(product.pk, term, now))
        search.look("the quarantine", lambda: _quarantined(product.pk, term))
        search.recorded(term)
    return search.result()


class _Search:
    """Looks into one place after another, and into none for long."""

    def __init__(self, product_id: int, now: datetime) -> None:
        self.product_id, self.now = product_id, now
        self.found = SearchResult()

    def result(self) -> SearchResult:
        # An event may be found both by its user and by its name.
        once = {(entry.arrival, entry.state): entry for entry in self.found.entries}
        newest = sorted(once.values(), key=lambda entry: entry.arrival, reverse=True)
        self.found.entries = newest[:MAX_RESULTS]
        return self.found

    def look(self, place: str, work: Callable[[], Iterable[SearchHit]]) -> None:
        try:
            with sql.statement_timeout(LOOKUP_TIMEOUT_SECONDS):
                self.found.entries += work()
        except sql.StatementTimeout:
            self.found.too_slow.append(place)

    def look_back(self, place: str, statement: LiteralString, id: int | None = None) -> None:
        """Look for the newest events further and further back until there are enough."""
        rows: list[EventRow] = []
        try:
            for reach in SEARCH_PERIODS:
                with sql.statement_timeout(LOOKUP_TIMEOUT_SECONDS):
                    rows = _rows(statement, self.product_id, id=id, since=self.now - reach)
                if len(rows) >= MAX_RESULTS:
                    break
        except sql.StatementTimeout:
            self.found.too_slow.append(place)
        self.found.entries += _described(rows)

    def recorded(self, term: str) -> None:
        """Look for what was recorded lately, or of the user, account, event name or message id."""
        if not term:
            self.look_back("recorded events", _LATELY)
            self.look("new users", lambda: _introduced(User, _NEW_USERS, self.product_id))
            self.look("new accounts", lambda: _introduced(Account, _NEW_ACCOUNTS, self.product_id))
            return
        of_product = {"product": self.product_id}
        if user := User.objects.filter(**of_product, external_id=term).first():
            self._of_user(user)
        if account := Account.objects.filter(**of_product, external_id=term).first():
            self._of_account(account)
        if name := EventName.objects.filter(**of_product, name=term).first():
            self.look_back("events of this name", _OF_NAME, name.pk)
        if seen := SeenMessageId.objects.filter(**of_product, message_id=term).first():
            self._of_message_id(seen)

    def _of_user(self, user: User) -> None:
        self.found.user = user
        rows = partial(_rows, _OF_USER, self.product_id, id=user.pk)
        self.look("the user's events", lambda: _described(rows()))
        self.found.entries += _writers(user)

    def _of_account(self, account: Account) -> None:
        self.found.account = account
        self.look_back("the account's events", _OF_ACCOUNT, account.pk)
        self.found.entries += _writers(account)

    def _of_message_id(self, seen: SeenMessageId) -> None:
        self.found.seen_at = seen.seen_at
        rows = partial(_rows, _IN_ONE_REQUEST, self.product_id, at=seen.seen_at)
        self.look("events with this message id", lambda: _of_request(rows(), seen.message_id))


# --- Not recorded ---------------------------------------------------------------------------


def _dropped(product_id: int, term: str, reason: str) -> Iterator[SearchHit]:
    rows = DroppedMessage.objects.filter(product=product_id)
    if reason:
        rows = rows.filter(reason=reason)
    if term:
        of_somebody = Q(user_external_id=term) | Q(account_external_id=term)
        rows = rows.filter(of_somebody | Q(event=term) | Q(message_id=term))
    for row in rows.order_by("-dropped_at")[:MAX_RESULTS]:
        message = MessageSummary(
            row.kind, row.user_external_id, row.account_external_id, row.event, row.message_id
        )
        told = short_reason(row.reason, row.detail)
        remedy = REMEDIES[DropReason(row.reason)]
        in_part = row.reason == DropReason.TOO_MANY_TRAITS
        state = MessageState.PARTLY_RECORDED if in_part else MessageState.DROPPED
        yield SearchHit(row.pk, state, message, row.received_at, told, remedy)


# A payload holds its strings as they are, so that most messages need not be decoded.
_WAITING: LiteralString = """
    SELECT id, payload, received_at, attempts, not_before FROM ingestion_inboxmessage
    WHERE key_digest = ANY(%(digests)b::bytea[]) AND position(%(term)b::bytea IN payload) > 0
    ORDER BY id DESC LIMIT %(limit)s
"""
_QUARANTINED: LiteralString = """
    SELECT id, payload, received_at, attempts, error FROM ingestion_quarantinedmessage
    WHERE product_id = %(product)s AND position(%(term)b::bytea IN payload) > 0
    ORDER BY id DESC LIMIT %(limit)s
"""


def _waiting(product_id: int, term: str, now: datetime) -> Iterator[SearchHit]:
    digests = IngestionKey.objects.filter(product=product_id).values_list("digest", flat=True)
    parameters = {"digests": [bytes(one) for one in digests], **_naming(term)}
    for id, payload, received_at, attempts, not_before in sql.fetch(_WAITING, parameters):
        told = "It will be recorded within seconds."
        if attempts:
            again = max(0, round((not_before - now).total_seconds())) if not_before else 0
            told = f"Failed attempts so far: {attempts}. The next one is in {again} s."
        message = summarize(payload)
        if not term or message.names(term):
            yield SearchHit(id, MessageState.WAITING, message, received_at, told)


def _quarantined(product_id: int, term: str) -> Iterator[SearchHit]:
    parameters = {"product": product_id, **_naming(term)}
    for id, payload, received_at, attempts, error in sql.fetch(_QUARANTINED, parameters):
        message = summarize(payload)
        if not term or message.names(term):
            told = f"Failed attempts: {attempts}. {error.strip().splitlines()[0]}"
            remedy = "Try it again once the cause is gone."
            yield SearchHit(id, MessageState.QUARANTINED, message, received_at, told, remedy)


def _naming(term: str) -> dict[str, Any]:
    return {"term": term.encode("utf-8", "surrogatepass"), "limit": MAX_RESULTS}


# --- Recorded events ------------------------------------------------------------------------


class EventRow(NamedTuple):
    arrival: int
    user_id: int
    account_id: int | None
    event_name_id: int
    occurred_at: datetime
    received_at: datetime


_EVENTS: LiteralString = """
    SELECT arrival, user_id, account_id, event_name_id, occurred_at, received_at
    FROM engagement_event
    WHERE product_id = %(product)s AND {which}
    ORDER BY arrival DESC LIMIT %(limit)s
"""
_OF_USER = _EVENTS.format(which="user_id = %(id)s")
_IN_ONE_REQUEST = _EVENTS.format(which="received_at = %(at)s")
_LATELY = _EVENTS.format(which="received_at >= %(since)s")
_OF_ACCOUNT = _EVENTS.format(which="received_at >= %(since)s AND account_id = %(id)s")
_OF_NAME = _EVENTS.format(which="received_at >= %(since)s AND event_name_id = %(id)s")


def _rows(statement: LiteralString, product_id: int, **parameters: Any) -> list[EventRow]:
    parameters |= {"product": product_id, "limit": MAX_RESULTS}
    return [EventRow(*row) for row in sql.fetch(statement, parameters)]


def _of_request(rows: Sequence[EventRow], message_id: str) -> list[SearchHit]:
    """What was received at the very moment of the message id: its own event, or a batch with it."""
    return _described(rows, message_id if len(rows) == 1 else "")


def _described(rows: Sequence[EventRow], message_id: str = "") -> list[SearchHit]:
    users = User.objects.only("external_id", "is_identified").in_bulk({r.user_id for r in rows})
    accounts = Account.objects.only("external_id").in_bulk({r.account_id or 0 for r in rows})
    names = EventName.objects.in_bulk({row.event_name_id for row in rows})
    entries = []
    for row in rows:
        user, name = users.get(row.user_id), names.get(row.event_name_id)
        if user is None or name is None:
            # Forgotten this very moment.
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
        entries.append(_event_entry(row, message, user.is_identified))
    return entries


def _event_entry(row: EventRow, message: MessageSummary, is_identified: bool) -> SearchHit:
    if not is_identified:
        told = "Kept. It counts from the moment that its user is identified."
        remedy = f"Send an identify with the userId “{message.user}”."
        return SearchHit(
            row.arrival, MessageState.UNIDENTIFIED_USER, message, row.received_at, told, remedy
        )
    if timestamps.looks_like_seconds(row.occurred_at):
        told = f"Recorded, but too old to score: {row.occurred_at:%Y-%m-%d}. {SECONDS_HINT}"
        return SearchHit(row.arrival, MessageState.DOUBTFUL_TIME, message, row.received_at, told)
    where = f"account {message.account}" if message.account else "no account"
    told = f"Counts on {row.occurred_at:%Y-%m-%d} for the user and {where}."
    if timestamps.was_clamped(row.occurred_at, row.received_at):
        told += " The timestamp was in the future; the time of receipt was used."
        remedy = "Set the sender's clock, or leave the timestamp out."
        return SearchHit(
            row.arrival, MessageState.DOUBTFUL_TIME, message, row.received_at, told, remedy
        )
    return SearchHit(row.arrival, MessageState.RECORDED, message, row.received_at, told)


# --- Recorded users and accounts ------------------------------------------------------------


# By the primary key alone: nothing else says in which order they came.
_NEW: LiteralString = """
    SELECT id FROM {table}
    WHERE id > (SELECT COALESCE(max(id), 0) FROM {table}) - %(ids)s
      AND product_id = %(product)s AND is_identified
    ORDER BY id DESC LIMIT %(limit)s
"""
_NEW_USERS = _NEW.format(table="engagement_user")
_NEW_ACCOUNTS = _NEW.format(table="engagement_account")


def _introduced(
    model: type[User] | type[Account], statement: LiteralString, product_id: int
) -> Iterator[SearchHit]:
    """The messages that wrote the traits of the newest users or accounts. Nothing is written about
    an identify or a group but what it says, so later ones are found by their id alone."""
    asked = {"ids": NEWEST_IDS, "product": product_id, "limit": MAX_RESULTS}
    ids = [id for (id,) in sql.fetch(statement, asked)]
    subjects: Any = model._default_manager.only("external_id", "trait_stamps").filter(pk__in=ids)
    for subject in subjects:
        yield from _writers(subject)


def _writers(subject: User | Account) -> Iterator[SearchHit]:
    """The messages that wrote the traits as they are; later ones may have taken the place of
    others. What a connection wrote came in no message."""
    written: dict[int, list[str]] = defaultdict(list)
    at: dict[int, datetime] = {}
    for name, stamp in subject.trait_stamps.items():
        stamped = read_stamp(stamp)
        if stamped.source == Source.MESSAGE:
            arrival = int(stamp[1])
            written[arrival].append(name)
            at[arrival] = stamped.at
    for arrival in sorted(written, reverse=True)[:MAX_RESULTS]:
        told = f"Wrote these traits: {', '.join(sorted(written[arrival]))}."
        message, state = _introduction(subject, at[arrival]), MessageState.RECORDED
        if timestamps.looks_like_seconds(at[arrival]):
            told += f" They are of {at[arrival]:%Y-%m-%d}. {SECONDS_HINT}"
            state = MessageState.DOUBTFUL_TIME
        yield SearchHit(arrival, state, message, None, told)


def _introduction(subject: User | Account, at: datetime) -> MessageSummary:
    if isinstance(subject, User):
        return MessageSummary("identify", user=subject.external_id, timestamp=at)
    return MessageSummary("group", account=subject.external_id, timestamp=at)
