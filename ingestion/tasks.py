"""Celery tasks of ingestion: they only call into it, and carry no data."""

import time

from celery import shared_task
from django.utils import timezone

from engagement import tasks as engagement_tasks
from engagement import telemetry
from engagement.core import wakeups
from engagement.database.retries import left_to_beat
from ingestion import retention
from ingestion.drain import process
from ingestion.prometheus import DRAIN

# A drain hands its worker back after so many seconds, so that scoring gets its turn.
DRAIN_SECONDS = 5.0
# A drain whose last batch takes longer hangs: PostgreSQL ends each statement, and each pause
# between two, after a minute. Its process is killed, and its batch found unfinished.
DRAIN_LIMIT = 120
# Maintenance does too; what is left waits for the next time.
MAINTAIN_SECONDS = 20.0
# A worker that finds a request for a drain this old drops it: there have been newer ones, and
# scoring must not wait behind all of them.
EXPIRES = 5


@shared_task(time_limit=DRAIN_LIMIT)
@left_to_beat("drain the inbox")
def drain() -> None:
    """Record what waits in the inbox; ask for another drain where time ran out before that."""
    deadline = time.monotonic() + DRAIN_SECONDS
    with telemetry.measured(DRAIN, timezone.now) as work:
        drained = process.drain(
            timezone.now,
            out_of_time=lambda: time.monotonic() > deadline,
            after_batch=engagement_tasks.request_rescore,
        )
        work.units = drained.messages
    if not drained.is_empty:
        wakeups.ask(drain, EXPIRES)


@shared_task
@left_to_beat("maintain the inbox")
def maintain() -> None:
    """Forget what is kept for a bounded time only."""
    deadline = time.monotonic() + MAINTAIN_SECONDS
    retention.forget_old(timezone.now(), lambda: time.monotonic() > deadline)
