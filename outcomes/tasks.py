"""Celery tasks. Their messages carry no data."""

from celery import shared_task
from django.utils import timezone

from core import wakeups
from core.database.retries import leave_retry_to_beat
from core.jobs.run import run_due
from core.jobs.shares import time_limit
from outcomes.backtests import jobs as backtests
from outcomes.chances import jobs as chances
from outcomes.forecasts import jobs as forecasts
from outcomes.reading import QUEUE

# Seconds after which the task ends, so that others get their turn.
RUN_SECONDS = 10.0


@shared_task
@leave_retry_to_beat("compute backtests")
def run() -> None:
    """Compute the backtests, chances, and forecasts that are missing, outdated, or asked for."""
    out_of_time = time_limit(RUN_SECONDS)
    backtests.request_due(timezone.now())
    chances.request_due(timezone.now())
    forecasts.request_due(timezone.now())
    run_due(QUEUE, timezone.now, out_of_time)
    if out_of_time():
        request_run()


def request_run() -> None:
    """Request the task soon. Beat requests it every minute anyway."""
    wakeups.enqueue(run, expires=60)
