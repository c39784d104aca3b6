"""Messages that could not be recorded, and their way back."""

from collections.abc import Collection

from django.db import transaction

from ingestion.models import InboxMessage, QuarantinedMessage


@transaction.atomic
def try_again(ids: Collection[int]) -> int:
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
