"""What ingestion keeps of a user, an account or a product that is to be forgotten."""

from datetime import datetime
from typing import LiteralString

import msgspec

from engagement.database import sql
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
)
from ingestion.payloads import Payload, decode


def register_erasers() -> None:
    """Have what ingestion keeps go with whoever is forgotten and with a product."""
    forgetting.register_eraser(erase_subject)
    deletion.register_eraser(erase_product_messages)


# A payload holds its strings as they are, so that most messages need not be decoded. What a worker
# has claimed is left to it: it asks who is forgotten before it records.
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
    """Delete what waits, is quarantined or is listed as dropped and names the subject."""
    _drop_waiting(subject, now)
    _delete_quarantined(subject)
    column = "user_external_id" if subject.scope == SubjectScope.USER else "account_external_id"
    listed = DroppedMessage.objects.filter(product=subject.product_id)
    listed.filter(**{column: subject.external_id}).delete()


def _drop_waiting(subject: SubjectRef, now: datetime) -> None:
    """What was accepted is accounted for: it is listed as dropped, without its details."""
    parameters = {"digests": _key_digests(subject.product_id), "id": _bytes(subject)}
    guilty: list[int] = []
    dropped: list[Drop] = []
    for id, payload, hint, received_at in sql.fetch(_WAITING, parameters):
        message = _read(payload)
        if message is None or _names(message, subject):
            guilty.append(id)
        if message is not None and _names(message, subject):
            reason = DropReason.FORGOTTEN
            dropped.append(Drop(id, subject.product_id, reason, hint, message, received_at))
    InboxMessage.objects.filter(pk__in=guilty).delete()
    drops.save_drops(dropped, now)
    hours.add_counts([hours.count_by_hour([], [], dropped)])


def _delete_quarantined(subject: SubjectRef) -> None:
    found = sql.fetch(_QUARANTINED, {"product": subject.product_id, "id": _bytes(subject)})
    messages = {id: _read(payload) for id, payload in found}
    guilty = [id for id, one in messages.items() if one is None or _names(one, subject)]
    QuarantinedMessage.objects.filter(pk__in=guilty).delete()


def _bytes(subject: SubjectRef) -> bytes:
    return subject.external_id.encode("utf-8", "surrogatepass")


def _read(payload: bytes) -> Payload | None:
    """The message; None for what cannot be decoded, and must go because the id is somewhere in
    it."""
    try:
        message: Payload = decode(payload)
        return message
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _names(message: Payload, subject: SubjectRef) -> bool:
    named = message.user_id if subject.scope == SubjectScope.USER else message.group_id
    return named == subject.external_id


# --- Products -------------------------------------------------------------------------------


_SOME_WAITING: LiteralString = """
    DELETE FROM ingestion_inboxmessage WHERE id = ANY(ARRAY(
        SELECT id FROM ingestion_inboxmessage WHERE key_digest = ANY(%(digests)b::bytea[])
        LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
"""


def erase_product_messages(product_id: int, limit: int) -> int:
    """Delete up to *limit* messages that wait with the product's keys; how many it were."""
    return sql.execute(_SOME_WAITING, {"digests": _key_digests(product_id), "limit": limit})


def _key_digests(product_id: int) -> list[bytes]:
    digests = IngestionKey.objects.filter(product=product_id).values_list("digest", flat=True)
    return [bytes(digest) for digest in digests]
