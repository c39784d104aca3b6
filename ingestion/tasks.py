"""Celery tasks of ingestion: they only call into it, and carry no data."""

import time

from celery import shared_task
from django.utils import timezone

from engagement import tasks as engagement_tasks
from ingestion import processing, retention

# A drain hands its worker back after so many seconds, so that scoring gets its turn.
DRAIN_SECONDS = 5.0


@shared_task
def drain() -> None:
    """Record what waits in the inbox; ask for another drain where time ran out before that."""
    deadline = time.monotonic() + DRAIN_SECONDS
    drained = processing.drain(
        timezone.now,
        out_of_time=lambda: time.monotonic() > deadline,
        after_batch=engagement_tasks.request_rescore,
    )
    if not drained.is_empty:
        drain.delay()


@shared_task
def maintain() -> None:
    """Forget what is kept for a bounded time only."""
    retention.forget_old(timezone.now())
