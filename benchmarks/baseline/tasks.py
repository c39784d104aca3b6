"""What such services do with an event: find or create the user, store the event, count it."""

from celery import shared_task
from django.db import transaction
from django.db.models import F

from benchmarks.baseline.models import DailyCount, Event, ReceivedEvent, User


@shared_task
def process(received_id: int) -> None:
    with transaction.atomic():
        received = ReceivedEvent._default_manager.get(pk=received_id)
        user, _ = User._default_manager.get_or_create(
            external_id=received.user_id, defaults={"first_seen_at": received.timestamp}
        )
        Event._default_manager.create(
            user=user, name=received.event, occurred_at=received.timestamp
        )
        count, _ = DailyCount._default_manager.get_or_create(
            user=user, name=received.event, day=received.timestamp.date()
        )
        DailyCount._default_manager.filter(pk=count.pk).update(count=F("count") + 1)
        received.delete()
