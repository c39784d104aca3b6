"""Erasers: delete what ingestion keeps of a forgotten user, account or product."""

from datetime import datetime
from typing import LiteralString

import msgspec
from django.db.models import Q

from core.database import sql
from engagement.messages import Alias
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import deletion, forgetting
from ingestion.log import drops, hours
from ingestion.log.drops import Drop
from ingestion.models import (
    DroppedMessage,
    DropReason,
    InboxMessage,
    IngestionKey,
    QuarantinedMessage,
    RecentMessage,
)
from ingestion.payloads import Payload, decode


def register_erasers() -> None:
    """Register this module's erasers."""
    forgetting.register_eraser(erase_subject)
    deletion.register_eraser(erase_product_messages)


# A payload contains its strings verbatim, so most messages need not be decoded. Locked messages are
# left to their worker, which checks for suppressions before it records.
_WAITING: LiteralString = """
    SELECT id, payload, key_hint, received_at FROM ingestion_inboxmessage
    WHERE key_digest = ANY(%(digests)b::bytea[]) AND position(%(id)b::bytea IN payload) > 0
    ORDER BY id
    FOR UPDATE SKIP LOCKED
"""
_QUARANTINED: LiteralString = """
    SELECT id, payload FROM ingestion_quarantinedmessage
    WHERE product_id = %(product)s AND position(%(id)b::bytea IN payload) > 0
"""


def erase_subject(subject: SubjectRef, now: datetime) -> None:
    """Delete the waiting, quarantined, dropped and listed messages that mention the subject."""
    _drop_waiting(subject, now)
    _delete_quarantined(subject)
    _delete_recent(subject)
    column = "user_external_id" if subject.scope == SubjectScope.USER else "account_external_id"
    rows = DroppedMessage.objects.filter(product=subject.product_id)
    rows.filter(**{column: subject.external_id}).delete()


def _drop_waiting(subject: SubjectRef, now: datetime) -> None:
    """Delete waiting messages. List them as dropped without details, so that the counts add up."""
    parameters = {"digests": _key_digests(subject.product_id), "id": _bytes(subject)}
    ids: list[int] = []
    dropped: list[Drop] = []
    for id, payload, hint, received_at in sql.fetch(_WAITING, parameters):
        message = _decode(payload)
        if message is None or _mentions(message, subject):
            ids.append(id)
        if message is not None and _mentions(message, subject):
            reason = DropReason.FORGOTTEN
            dropped.append(Drop(id, subject.product_id, reason, hint, message, received_at))
    InboxMessage.objects.filter(pk__in=ids).delete()
    drops.save_drops(dropped, now)
    hours.add_counts([hours.count_by_hour([], [], dropped)])


def _delete_quarantined(subject: SubjectRef) -> None:
    rows = sql.fetch(_QUARANTINED, {"product": subject.product_id, "id": _bytes(subject)})
    messages = {id: _decode(payload) for id, payload in rows}
    ids = [id for id, message in messages.items() if message is None or _mentions(message, subject)]
    QuarantinedMessage.objects.filter(pk__in=ids).delete()


def _delete_recent(subject: SubjectRef) -> None:
    rows = RecentMessage.objects.filter(product=subject.product_id)
    if subject.scope == SubjectScope.ACCOUNT:
        rows.filter(account_external_id=subject.external_id).delete()
        return
    is_user = Q(user_external_id=subject.external_id)
    rows.filter(is_user | Q(previous_external_id=subject.external_id)).delete()


def _bytes(subject: SubjectRef) -> bytes:
    return subject.external_id.encode("utf-8", "surrogatepass")


def _decode(payload: bytes) -> Payload | None:
    """The message, or None if it cannot be decoded. It must then go, because it contains the id."""
    try:
        message: Payload = decode(payload)
        return message
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _mentions(message: Payload, subject: SubjectRef) -> bool:
    if subject.scope == SubjectScope.ACCOUNT:
        return message.group_id == subject.external_id
    previous_id = message.previous_id if isinstance(message, Alias) else None
    return subject.external_id in (message.user_id, previous_id)


# --- Products -------------------------------------------------------------------------------


_DELETE_WAITING: LiteralString = """
    DELETE FROM ingestion_inboxmessage WHERE id = ANY(ARRAY(
        SELECT id FROM ingestion_inboxmessage WHERE key_digest = ANY(%(digests)b::bytea[])
        LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
"""


def erase_product_messages(product_id: int, limit: int) -> int:
    """Delete up to *limit* waiting messages of the product's keys. Returns the number."""
    return sql.execute(_DELETE_WAITING, {"digests": _key_digests(product_id), "limit": limit})


def _key_digests(product_id: int) -> list[bytes]:
    digests = IngestionKey.objects.filter(product=product_id).values_list("digest", flat=True)
    return [bytes(digest) for digest in digests]
