"""Celery tasks of ingestion: they only call into it, and carry no data."""

import time

from celery import shared_task
from django.utils import timezone

from engagement import tasks as engagement_tasks
from engagement import telemetry
from engagement.core import wakeups
from engagement.database.retries import leave_retry_to_beat
from ingestion import retention
from ingestion.drain import processing
from ingestion.prometheus import DRAIN_COUNTER

# A drain hands its worker back after so many seconds, so that scoring gets its turn.
DRAIN_SECONDS = 5.0
# A drain whose last batch takes longer hangs: PostgreSQL ends each statement, and each pause
# between two, after a minute. Its process is killed, and its batch found unfinished.
DRAIN_TIME_LIMIT = 120
# Maintenance does too; what is left waits for the next time.
MAINTAIN_SECONDS = 20.0
# A worker that finds a request for a drain this old drops it: there have been newer ones, and
# scoring must not wait behind all of them.
DRAIN_EXPIRES = 5


@shared_task(time_limit=DRAIN_TIME_LIMIT)
@leave_retry_to_beat("drain the inbox")
def drain() -> None:
    """Record what waits in the inbox; ask for another drain where time ran out before that."""
    deadline = time.monotonic() + DRAIN_SECONDS
    with telemetry.track_operation(DRAIN_COUNTER, timezone.now) as work:
        drained = processing.drain(
            timezone.now,
            out_of_time=lambda: time.monotonic() > deadline,
            after_batch=engagement_tasks.request_rescore,
        )
        work.units = drained.messages
    if not drained.is_empty:
        wakeups.enqueue(drain, DRAIN_EXPIRES)


@shared_task
@leave_retry_to_beat("maintain the inbox")
def maintain() -> None:
    """Forget what is kept for a bounded time only."""
    deadline = time.monotonic() + MAINTAIN_SECONDS
    retention.delete_expired(timezone.now(), lambda: time.monotonic() > deadline)
