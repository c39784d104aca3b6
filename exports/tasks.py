"""Celery tasks. Their messages carry no data."""

from celery import shared_task
from django.utils import timezone

from core import retention, telemetry, wakeups
from core.database.retries import leave_retry_to_beat
from core.jobs.run import run_due
from core.jobs.shares import time_limit
from exports import runs
from exports.prometheus import RUN_COUNTER
from exports.writing import QUEUE

# Seconds after which the task ends, so that others get their turn.
RUN_SECONDS = 20.0


@shared_task
@leave_retry_to_beat("write exports")
def run() -> None:
    """Start the exports whose time has come, and go on with those that are unfinished."""
    out_of_time = time_limit(RUN_SECONDS)
    runs.request_due(timezone.now())
    with telemetry.track_operation(RUN_COUNTER, timezone.now) as operation:
        operation.units = run_due(QUEUE, timezone.now, out_of_time)
    if out_of_time():
        request_run()


@shared_task
@leave_retry_to_beat("maintain exports")
def maintain() -> None:
    """Delete runs that are past their retention."""
    retention.delete_expired("exports", timezone.now())


def request_run() -> None:
    """Request the task soon. Beat requests it every minute anyway."""
    wakeups.enqueue(run, expires=60)
