"""Deletes what names a forgotten user or account."""

from datetime import datetime

from engagement.recording.suppression import SubjectRef
from engagement.removal import forgetting
from notifications.digests import content as digests
from notifications.models import Delivery, OutboxMessage


def register_erasers() -> None:
    forgetting.register_eraser(erase_messages)


def erase_messages(subject: SubjectRef, now: datetime) -> None:
    """Delete the messages about the subject, those that name it among others, and their attempts.

    A message that is not delivered yet is not delivered any more. A digest is, without the subject.
    """
    digests.forget(subject)
    messages = OutboxMessage.objects.filter(product=subject.product_id)
    own = messages.filter(scope=subject.scope.value, external_id=subject.external_id)
    subjects = [{"external_id": subject.external_id}]
    among_others = messages.filter(scope="", payload__data__contains={"first": subjects})
    pks = [*own.values_list("pk", flat=True), *among_others.values_list("pk", flat=True)]
    Delivery.objects.filter(message__in=pks).delete()
    OutboxMessage.objects.filter(pk__in=pks).delete()
