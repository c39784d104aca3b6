"""Quarantining messages that could not be recorded, and retrying them."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from ingestion.models import InboxMessage, IngestionKey, QuarantinedMessage


def add(message: Mapping[str, Any], attempts: int, error: str, now: datetime) -> None:
    """Quarantine a message that was taken out of the inbox. *message* has its columns."""
    keys = IngestionKey.objects.filter(digest=message["key_digest"])
    QuarantinedMessage.objects.create(
        **{**message, "attempts": attempts},
        product_id=keys.values_list("product", flat=True).first(),
        error=error,
        quarantined_at=now,
    )


def move_from_inbox(ids: Collection[int], attempts: int, error: str, now: datetime) -> None:
    """Move messages from the inbox into quarantine, in the caller's transaction."""
    columns = ["id", "received_at", "key_digest", "key_hint", "payload"]
    columns += ["request_id", "traceparent"]
    waiting = InboxMessage.objects.select_for_update().filter(pk__in=ids)
    for message in waiting.values(*columns):
        add(message, attempts, error, now)
    InboxMessage.objects.filter(pk__in=ids).delete()


@transaction.atomic
def retry(ids: Collection[int]) -> int:
    """Put the quarantined messages back into the inbox, with no attempts counted.

    They keep their ids, which are their places in the order of arrival. Returns the number of
    messages, without those that another call has already put back.
    """
    # Locked in the order of their ids, so that two calls cannot deadlock. The second one waits and
    # then finds nothing.
    messages = list(
        QuarantinedMessage.objects.select_for_update().filter(pk__in=ids).order_by("pk")
    )
    InboxMessage.objects.bulk_create(
        InboxMessage(
            id=message.pk,
            received_at=message.received_at,
            key_digest=message.key_digest,
            key_hint=message.key_hint,
            payload=message.payload,
            attempts=0,
            request_id=message.request_id,
            traceparent=message.traceparent,
        )
        for message in messages
    )
    QuarantinedMessage.objects.filter(pk__in=[message.pk for message in messages]).delete()
    return len(messages)
