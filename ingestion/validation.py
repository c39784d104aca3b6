"""Says what would become of a request, without accepting it: nothing of it is stored.

The doors decode it, so each error is the very one that the request itself would get. The rest is
read from the database as it is now, while the drain decides at the time of recording.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db.models import Max
from django.utils import timezone

from engagement.core import credentials
from engagement.messages import Alias, Group, Identify, Message, ReceivedMessage, Track
from engagement.models import Account, Credential, Product, User, Workspace
from engagement.recording.suppression import split_suppressed
from engagement.recording.trait_limits import merge_patches
from engagement.traits import make_stamp
from ingestion import timestamps
from ingestion.doors import DecodedRequest
from ingestion.drain.message_ids import retention_period
from ingestion.errors import IngestionError
from ingestion.log.drops import NO_KEY, kind_of
from ingestion.log.search import CLAMPED, CLOCK_HINT, SECONDS_HINT
from ingestion.log.texts import REMEDIES, describe_dropped_traits, short_reason
from ingestion.models import DropReason, IngestionKey, SeenMessageId
from ingestion.payloads import Payload, UnusableMessage

# Of a batch. The others would only repeat what these show.
MAX_MESSAGES = 100
# After everything that has arrived.
_LAST_ARRIVAL = 2**62
_TOO_OLD = "It would be recorded, but it is too old to score."
_DUPLICATE_IDS = "A message that still waits to be recorded may have the same message id."

Report = dict[str, Any]


def find_sender(key: str) -> tuple[Product | None, DropReason | None]:
    """The product that the key may send for, or why the key may not send.

    A key that may not send learns nothing about products.
    """
    digest = credentials.digest(key)
    if digest == NO_KEY:
        return None, DropReason.MISSING_KEY
    keys = IngestionKey.objects.filter(digest=digest).select_related("product").defer("secret")
    if ingestion_key := keys.first():
        if ingestion_key.revoked_at is not None:
            return None, DropReason.REVOKED_KEY
        if ingestion_key.has_expired(timezone.now()):
            return None, DropReason.EXPIRED_KEY
        return ingestion_key.product, None
    others = (model for model in Credential.__subclasses__() if model is not IngestionKey)
    if any(credentials.is_well_formed(key, model.PREFIX) for model in others):
        return None, DropReason.READ_TOKEN
    return None, DropReason.UNKNOWN_KEY


def report_error(error: IngestionError, key: str) -> Report:
    """What a request would get that is refused as a whole."""
    refusal = {"code": error.code, "message": error.message}
    if error.field is not None:
        refusal["field"] = error.field
    return {**_head(error.status, *find_sender(key)), "error": refusal, "messages": []}


def report(decoded: DecodedRequest, received_at: datetime, status: int) -> Report:
    """What would become of each message of an accepted request."""
    product, key_reason = find_sender(decoded.key)
    messages = list(decoded.messages[:MAX_MESSAGES])
    context = _Context(product, messages, received_at) if product is not None else None
    return {
        **_head(status, product, key_reason),
        "messages": [_report_message(each, context, key_reason, received_at) for each in messages],
    }


def _head(status: int, product: Product | None, reason: DropReason | None) -> Report:
    head: Report = {
        "status": status,
        "product": {"name": product.name} if product else None,
        "key": "valid" if reason is None else reason.value,
    }
    return head


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
    longest = workspaces.aggregate(days=Max("lookback_days"))
    return timedelta(days=longest["days"] or 0)


def _report_message(
    message: Payload, context: _Context | None, key_reason: DropReason | None, received_at: datetime
) -> Report:
    if key_reason is not None:
        return _dropped(message, key_reason, received_at)
    if isinstance(message, UnusableMessage):
        return _dropped(message, message.reason, received_at, message.detail)
    assert context is not None
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
    at = message.timestamp
    if timestamps.looks_like_seconds(at):
        text = f"The timestamp is {at:%Y-%m-%d}. {SECONDS_HINT}"
        return [{"code": "timestamp_in_seconds", "message": text}]
    if timestamps.was_clamped(at, received_at):
        return [{"code": "timestamp_in_future", "message": f"{CLAMPED} {CLOCK_HINT}"}]
    if isinstance(message, Track) and received_at - at >= context.lookback:
        days = f"Scores count {context.lookback.days} days at most."
        return [{"code": "too_old_to_score", "message": f"{_TOO_OLD} {days}"}]
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
