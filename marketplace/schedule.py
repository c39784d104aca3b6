"""The six-hourly sync as an entry of the schedule, which superusers see in the admin."""

from datetime import datetime, timedelta

from celery.schedules import BaseSchedule
from celery.schedules import schedule as Interval
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

TASK = "marketplace.tasks.sync_all"
QUEUE = "marketplace"
HOURS = 6


def ensure_scheduled() -> None:
    """Have an entry for the task. One that is there stays as somebody edited it."""
    if PeriodicTask.objects.filter(task=TASK).exists():
        return
    interval, _ = IntervalSchedule.objects.get_or_create(every=HOURS, period=IntervalSchedule.HOURS)
    PeriodicTask.objects.create(
        name="sync marketplace licenses",
        task=TASK,
        interval=interval,
        queue=QUEUE,
        # Counted from now, not from each start of beat: one that is started often would never
        # come to the first run.
        last_run_at=timezone.now(),
        description="Starts a sync of each active marketplace connection.",
    )


def next_run_at(now: datetime) -> datetime | None:
    """When the entry is due next; None where it was switched off or deleted."""
    entry = PeriodicTask.objects.filter(task=TASK, enabled=True).first()
    if entry is None:
        return None
    last: datetime = entry.last_run_at or entry.date_changed
    timing: BaseSchedule = entry.schedule
    if isinstance(timing, Interval):
        return last + timedelta(seconds=timing.seconds)
    return now + timing.remaining_estimate(last)
