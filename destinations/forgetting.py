"""What destinations do about a forgotten user or account."""

from datetime import datetime
from typing import Any

from django.db.models import Q

from destinations.models import RecordDestination, RecordLink, RecordRun
from engagement.recording.suppression import SubjectRef
from engagement.removal import forgetting

State = RecordLink.State


def register_eraser() -> None:
    forgetting.register_eraser(erase_links)


def erase_links(subject: SubjectRef, now: datetime) -> None:
    """Delete the subject's links. Of a link whose record is to be cleared, only the record's id
    stays until it is. If a record was being created, our id stays instead, to look for it."""
    own = RecordLink.objects.filter(
        product=subject.product_id,
        external_id=subject.external_id,
        destination__scope=subject.scope,
    )
    # Whether we wrote its values, or found that it has them.
    has_values = Q(sent_at__isnull=False) | ~Q(last_sent={})
    to_clear = own.filter(has_values, destination__clears_forgotten=True)
    destinations = list(to_clear.values_list("destination", flat=True))
    nothing: dict[str, Any] = {"subject_id": None, "external_id": "", "last_sent": {}, "error": ""}
    created = to_clear.filter(remote_id="").exclude(destination__id_field="")
    created.update(tried=[subject.external_id], state=State.FORGOTTEN, **nothing)
    to_clear.exclude(remote_id="").update(tried=[], state=State.FORGOTTEN, **nothing)
    own.delete()
    waiting = RecordDestination.objects.filter(
        pk__in=destinations, state=RecordDestination.State.ACTIVE
    )
    waiting.update(next_run_at=now)
    # Names and values are in the samples of dry runs.
    RecordRun.objects.filter(product=subject.product_id, kind=RecordRun.Kind.DRY).update(sample=[])
