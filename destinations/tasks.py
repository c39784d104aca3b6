"""Celery tasks. Their messages carry no data."""

from celery import shared_task
from django.utils import timezone

from core import retention, wakeups
from core.database.retries import leave_retry_to_beat
from core.jobs.run import run_due
from core.jobs.shares import time_limit
from destinations import runs

# Seconds after which the task ends, so that others get their turn.
RUN_SECONDS = 20.0


@shared_task
@leave_retry_to_beat("send records")
def run() -> None:
    """Start the runs whose time has come, and go on with those that are unfinished."""
    out_of_time = time_limit(RUN_SECONDS)
    retention.delete_expired("destinations", timezone.now(), out_of_time)
    runs.request_due(timezone.now())
    run_due(runs.QUEUE, timezone.now, out_of_time)
    if out_of_time():
        request_run()


def request_run() -> None:
    """Request the task soon. Beat requests it every minute anyway."""
    wakeups.enqueue(run, expires=60)
