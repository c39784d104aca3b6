"""Says what would become of a request, without accepting it: nothing of it is stored.

The doors decode it, so each error is the very one that the request itself would get. A read token
also learns what the messages would meet in the database as it is now, while the drain decides at
the time of recording. An ingestion key, which browsers show to everybody, learns nothing of that.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db.models import Max
from django.utils import timezone

from core import credentials
from engagement.messages import Alias, Group, Identify, Message, ReceivedMessage, Track
from engagement.models import Account, Credential, Product, User, Workspace
from engagement.recording.placeholders import Split, split_placeholders
from engagement.recording.rejection_details import describe_dropped_traits, describe_left_out
from engagement.recording.suppression import split_suppressed
from engagement.recording.trait_limits import merge_patches
from engagement.traits import make_stamp
from ingestion import timestamps
from ingestion.doors import DecodedRequest
from ingestion.drain.message_ids import retention_period
from ingestion.errors import IngestionError
from ingestion.log.drops import NO_KEY, kind_of
from ingestion.log.search import CLAMPED, CLOCK_HINT, SECONDS_HINT
from ingestion.log.texts import REMEDIES, short_reason
from ingestion.models import DropReason, IngestionKey, SeenMessageId
from ingestion.payloads import Payload, UnusableMessage

# Of a batch. The others would only repeat what these show.
MAX_MESSAGES = 100
# The state of a key that may send.
VALID = "valid"
_ACCEPTED = (
    "It would be accepted. The ingestion log, and this endpoint with a read token, say whether it "
    "counts."
)
# After everything that has arrived.
_LAST_ARRIVAL = 2**62
_TOO_OLD = "It would be recorded, but it is too old to score."
_DUPLICATE_IDS = "A message that still waits to be recorded may have the same message id."

Report = dict[str, Any]


def key_problem(key: str) -> DropReason | None:
    """Why the key may not send, if it may not."""
    digest = credentials.digest(key)
    if digest == NO_KEY:
        return DropReason.MISSING_KEY
    if ingestion_key := IngestionKey.objects.filter(digest=digest).defer("secret").first():
        if ingestion_key.revoked_at is not None:
            return DropReason.REVOKED_KEY
        is_expired = ingestion_key.has_expired(timezone.now())
        return DropReason.EXPIRED_KEY if is_expired else None
    others = (model for model in Credential.__subclasses__() if model is not IngestionKey)
    if any(credentials.is_well_formed(key, model.PREFIX) for model in others):
        return DropReason.READ_TOKEN
    return DropReason.UNKNOWN_KEY


def report_error(error: IngestionError, key: str, reader: Product | None = None) -> Report:
    """What a request would get that is refused as a whole. *reader* is the product that the
    request may read."""
    refusal = {"code": error.code, "message": error.message}
    if error.field is not None:
        refusal["field"] = error.field
    return {**_head(error.status, key, reader), "error": refusal, "messages": []}


def report(
    decoded: DecodedRequest, received_at: datetime, status: int, reader: Product | None = None
) -> Report:
    """What would become of each message of an accepted request.

    *reader* is the product that the request may read. Without it, the report says nothing of what
    is stored.
    """
    head, messages = _head(status, decoded.key, reader), decoded.messages[:MAX_MESSAGES]
    if reader is not None:
        context = _Context(reader, messages, received_at)
        return {
            **head,
            "messages": [_read_message(each, context, received_at) for each in messages],
        }
    problem = None if head["key"] == VALID else DropReason(head["key"])
    message_ids: set[str] = set()
    reports = [_check_message(each, problem, message_ids, received_at) for each in messages]
    return {**head, "messages": reports}


def _head(status: int, key: str, reader: Product | None) -> Report:
    if reader is not None:
        product, state = {"name": reader.name}, DropReason.READ_TOKEN.value
    else:
        problem = key_problem(key)
        product, state = None, VALID if problem is None else problem.value
    return {"status": status, "product": product, "key": state}


def _check_message(
    message: Payload, problem: DropReason | None, earlier_ids: set[str], received_at: datetime
) -> Report:
    """What the request alone says of the message. *earlier_ids* are those of messages before it."""
    if problem is not None:
        return _dropped(message, problem, received_at)
    if isinstance(message, UnusableMessage):
        return _dropped(message, message.reason, received_at, message.detail)
    _, nobody, left_out = _split_placeholders(message, received_at)
    if nobody:
        return _dropped(message, DropReason.PLACEHOLDER, received_at)
    if message.message_id is not None:
        if message.message_id in earlier_ids:
            return _dropped(message, DropReason.DUPLICATE, received_at)
        earlier_ids.add(message.message_id)
    return {
        "outcome": "accepted",
        "reason": None,
        "explanation": _ACCEPTED,
        "notes": [*_clock_notes(message, received_at), *_placeholder_notes(left_out)],
        "message": describe_message(message, received_at),
    }


def _split_placeholders(message: Message, received_at: datetime) -> Split:
    return split_placeholders([ReceivedMessage(0, _LAST_ARRIVAL, received_at, message)])


def _placeholder_notes(left_out: Mapping[int, str]) -> list[dict[str, str]]:
    texts = (
        short_reason(DropReason.PLACEHOLDER, describe_left_out(id)) for id in left_out.values()
    )
    return [{"code": DropReason.PLACEHOLDER.value, "message": f"{text}."} for text in texts]


class _Context:
    """What the product knows about the messages' users, accounts, and message ids."""

    def __init__(self, product: Product, messages: Sequence[Payload], now: datetime) -> None:
        self.product_id = product.pk
        of_product = {"product": product.pk}
        users = {message.user_id for message in messages if message.user_id}
        accounts = {message.group_id for message in messages if message.group_id}
        ids = {message.message_id for message in messages if message.message_id}
        rows = User.objects.filter(**of_product, external_id__in=users).select_related("joined_to")
        self.users = {row.external_id: row.joined_to or row for row in rows}
        self.accounts = {
            row.external_id: row
            for row in Account.objects.filter(**of_product, external_id__in=accounts)
        }
        memories = SeenMessageId.objects.filter(**of_product, message_id__in=ids)
        self.seen = set(
            memories.filter(seen_at__gte=now - retention_period()).values_list(
                "message_id", flat=True
            )
        )
        received = [
            ReceivedMessage(product.pk, _LAST_ARRIVAL + place, now, message)
            for place, message in enumerate(messages)
            if not isinstance(message, UnusableMessage)
        ]
        _, forgotten = split_suppressed(received)
        self.forgotten = {id(message.message) for message in forgotten}
        self.lookback = _longest_lookback(product.pk)

    def is_identified(self, user_id: str) -> bool:
        user = self.users.get(user_id)
        return user is not None and user.is_identified


def _longest_lookback(product_id: int) -> timedelta:
    workspaces = Workspace.objects.filter(product=product_id)
    longest = workspaces.aggregate(days=Max("lookback_days"), half_life=Max("half_life_days"))
    # With a half-life, no event is too old.
    return timedelta.max if longest["half_life"] else timedelta(days=longest["days"] or 0)


def _read_message(message: Payload, context: _Context, received_at: datetime) -> Report:
    """What would become of the message, sent with a key of the product that is read."""
    if isinstance(message, UnusableMessage):
        return _dropped(message, message.reason, received_at, message.detail)
    _, nobody, left_out = _split_placeholders(message, received_at)
    if nobody:
        return _dropped(message, DropReason.PLACEHOLDER, received_at)
    if id(message) in context.forgotten:
        return _dropped(message, DropReason.FORGOTTEN, received_at)
    if message.message_id is not None:
        if message.message_id in context.seen:
            return _dropped(message, DropReason.DUPLICATE, received_at)
        context.seen.add(message.message_id)
    missing = _traits_without_room(message, context)
    notes = _time_notes(message, context, received_at)
    if message.message_id is not None:
        notes.append({"code": "message_id", "message": _DUPLICATE_IDS})
    notes += _placeholder_notes(left_out)
    if missing:
        text = short_reason(DropReason.TOO_MANY_TRAITS, describe_dropped_traits(missing))
        notes.append(
            {
                "code": DropReason.TOO_MANY_TRAITS.value,
                "message": f"{text}. {REMEDIES[DropReason.TOO_MANY_TRAITS]}",
            }
        )
    outcome, explanation = "recorded", "It would be recorded."
    if isinstance(message, Track) and not context.is_identified(message.user_id):
        outcome = "waiting"
        explanation = (
            "It would be kept, and count once its user is identified. Send an identify with this "
            "userId."
        )
    elif isinstance(message, Identify) and message.user_id not in context.users:
        # Messages of a batch that follow count for this user.
        context.users[message.user_id] = User(external_id=message.user_id, is_identified=True)
    return {
        "outcome": outcome,
        "reason": None,
        "explanation": explanation,
        "notes": notes,
        "message": describe_message(message, received_at, missing),
    }


def _dropped(
    message: Payload, reason: DropReason, received_at: datetime, detail: str = ""
) -> Report:
    text = f"{DropReason(reason).label}." if not detail else short_reason(reason, detail)
    return {
        "outcome": "dropped",
        "reason": reason.value,
        "explanation": f"It would be dropped. {text} {REMEDIES[reason]}",
        "notes": [],
        "message": describe_message(message, received_at),
    }


def _traits_without_room(message: Message, context: _Context) -> Sequence[str]:
    if not isinstance(message, Identify | Group) or not message.traits:
        return ()
    subject: User | Account | None = (
        context.users.get(message.user_id)
        if isinstance(message, Identify)
        else context.accounts.get(message.group_id)
    )
    traits, stamps = (subject.traits, subject.trait_stamps) if subject else ({}, {})
    stamp = make_stamp(message.timestamp, _LAST_ARRIVAL)
    merged = merge_patches(_json(traits), _json(stamps), [(message.traits, stamp)])
    return merged.dropped_traits.get(_LAST_ARRIVAL, ())


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _time_notes(message: Message, context: _Context, received_at: datetime) -> list[dict[str, str]]:
    if notes := _clock_notes(message, received_at):
        return notes
    if isinstance(message, Track) and received_at - message.timestamp >= context.lookback:
        days = f"Scores count {context.lookback.days} days at most."
        return [{"code": "too_old_to_score", "message": f"{_TOO_OLD} {days}"}]
    return []


def _clock_notes(message: Message, received_at: datetime) -> list[dict[str, str]]:
    at = message.timestamp
    if timestamps.looks_like_seconds(at):
        text = f"The timestamp is {at:%Y-%m-%d}. {SECONDS_HINT}"
        return [{"code": "timestamp_in_seconds", "message": text}]
    if timestamps.was_clamped(at, received_at):
        return [{"code": "timestamp_in_future", "message": f"{CLAMPED} {CLOCK_HINT}"}]
    return []


def describe_message(
    message: Payload, received_at: datetime, without: Sequence[str] = ()
) -> dict[str, Any]:
    """The message as the service understands it. Fields that it does not have are null."""
    described: dict[str, Any] = {
        "type": kind_of(message),
        "userId": message.user_id,
        "previousId": message.previous_id if isinstance(message, Alias) else None,
        "groupId": message.group_id,
        "event": message.event if isinstance(message, Track | UnusableMessage) else None,
        "traits": None,
        "timestamp": None,
        "timestampFrom": None,
        "messageId": message.message_id,
    }
    if isinstance(message, Identify | Group):
        described["traits"] = {
            name: value for name, value in message.traits.items() if name not in without
        }
    if not isinstance(message, UnusableMessage):
        is_own = message.timestamp not in (received_at, received_at - timestamps.FUTURE_OFFSET)
        described["timestamp"] = message.timestamp.isoformat().replace("+00:00", "Z")
        described["timestampFrom"] = "message" if is_own else "receipt"
    return described
