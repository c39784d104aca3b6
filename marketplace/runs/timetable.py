"""How often connections sync: a periodic task in the database, which people see and edit.

Each connection counts from its own last sync. The task says how far apart syncs are; a task that
runs every minute starts those that are due.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils import timezone
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

TASK: Final = "marketplace.tasks.sync_all"
QUEUE: Final = "marketplace"
INTERVAL_HOURS: Final = 6
DESCRIPTION = (
    "How often each marketplace connection syncs, counted from its own last sync. Syncs that are "
    "due start within a minute."
)
# What earlier releases wrote.
_OLD_DESCRIPTION = "Starts a sync of each active marketplace connection."


@dataclass(frozen=True)
class Timetable:
    """When a connection syncs again. Without a *task*, which is disabled or deleted, it never
    does."""

    task: PeriodicTask | None

    def next_after(self, last: datetime | None, now: datetime) -> datetime | None:
        """When the sync after the one at *last* is due, which may have passed; None for never."""
        if self.task is None:
            return None
        if last is None:
            return now
        schedule: Any = self.task.schedule
        schedule.nowfun = lambda: now
        next_at: datetime = now + schedule.remaining_estimate(last)
        return next_at

    def is_due(self, last: datetime | None, now: datetime) -> bool:
        next_at = self.next_after(last, now)
        return next_at is not None and next_at <= now

    def describe(self) -> str:
        """How often syncs run, to continue a sentence: "every 6 hours"."""
        if self.task is None:
            return ""
        if self.task.interval is not None:
            return _describe_interval(self.task.interval)
        if isinstance(self.task.crontab, CrontabSchedule):
            readable: str = self.task.crontab.human_readable
            return f"by the schedule “{readable}”"
        return "by the schedule of the periodic task"


def _describe_interval(interval: IntervalSchedule) -> str:
    if interval.every == 1:
        return f"every {interval.period.removesuffix('s')}"
    return f"every {interval.every} {interval.period}"


def load_timetable() -> Timetable:
    tasks = PeriodicTask.objects.filter(task=TASK, enabled=True)
    return Timetable(tasks.select_related("interval", "crontab").first())


def ensure_scheduled() -> None:
    """Create the periodic task, unless it exists: it may have been edited."""
    tasks = PeriodicTask.objects.filter(task=TASK)
    if tasks.exists():
        tasks.filter(description=_OLD_DESCRIPTION).update(description=DESCRIPTION)
        return
    interval, _ = IntervalSchedule.objects.get_or_create(
        every=INTERVAL_HOURS, period=IntervalSchedule.HOURS
    )
    PeriodicTask.objects.create(
        name="sync marketplace licenses",
        task=TASK,
        interval=interval,
        queue=QUEUE,
        # Without it beat counts from each of its own starts, and if it starts often, the task
        # never runs.
        last_run_at=timezone.now(),
        description=DESCRIPTION,
    )
