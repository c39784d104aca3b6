"""Messages that could not be recorded, and their way back."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from ingestion.models import InboxMessage, IngestionKey, QuarantinedMessage


def add(message: Mapping[str, Any], attempts: int, error: str, now: datetime) -> None:
    """Quarantine a message that was taken out of the inbox; *message* has its columns."""
    products = IngestionKey.objects.filter(digest=message["key_digest"])
    QuarantinedMessage.objects.create(
        **{**message, "attempts": attempts},
        product_id=products.values_list("product", flat=True).first(),
        error=error,
        quarantined_at=now,
    )


def move_from_inbox(ids: Collection[int], attempts: int, error: str, now: datetime) -> None:
    """Move messages from the inbox into quarantine, in the caller's transaction."""
    kept = ("id", "received_at", "key_digest", "key_hint", "payload", "request_id")
    waiting = InboxMessage.objects.select_for_update().filter(pk__in=ids)
    for message in waiting.values(*kept):
        add(message, attempts, error, now)
    InboxMessage.objects.filter(pk__in=ids).delete()


@transaction.atomic
def retry(ids: Collection[int]) -> int:
    """Put the quarantined messages back into the inbox, as if they had just arrived.

    They keep their ids, which are their places in the order of arrival. Returns how many there
    were; a message that somebody else has just put back is not counted.
    """
    # Locked in the order of their ids, so that two calls cannot deadlock; the second one waits
    # and then finds nothing left.
    found = list(QuarantinedMessage.objects.select_for_update().filter(pk__in=ids).order_by("pk"))
    InboxMessage.objects.bulk_create(
        InboxMessage(
            id=message.pk,
            received_at=message.received_at,
            key_digest=message.key_digest,
            key_hint=message.key_hint,
            payload=message.payload,
            attempts=0,
            request_id=message.request_id,
        )
        for message in found
    )
    QuarantinedMessage.objects.filter(pk__in=[message.pk for message in found]).delete()
    return len(found)
