"""Celery tasks of ingestion. They only call into it and carry no data."""

from celery import shared_task
from django.utils import timezone

from core import telemetry, wakeups
from core.database.retries import leave_retry_to_beat
from core.jobs.shares import time_limit
from engagement import tasks as engagement_tasks
from ingestion import retention
from ingestion.drain import processing
from ingestion.inbox.drain_requests import DRAIN_EXPIRES
from ingestion.prometheus import DRAIN_COUNTER

# Seconds after which a drain returns its worker, so that scoring gets its turn.
DRAIN_SECONDS = 5.0
# Seconds. A drain whose last batch takes longer hangs: PostgreSQL ends each statement, and each
# pause between two, after a minute. Celery kills its process, and a later drain resumes its batch.
DRAIN_TIME_LIMIT = 120
# Seconds after which maintenance stops. What is left waits for the next run.
MAINTAIN_SECONDS = 20.0


@shared_task(time_limit=DRAIN_TIME_LIMIT)
@leave_retry_to_beat("drain the inbox")
def drain() -> None:
    """Record the messages in the inbox. If time runs out, ask for another drain."""
    with telemetry.track_operation(DRAIN_COUNTER, timezone.now) as work:
        result = processing.drain(
            timezone.now,
            out_of_time=time_limit(DRAIN_SECONDS),
            after_batch=engagement_tasks.request_rescore,
        )
        work.units = result.messages
    if not result.is_empty:
        wakeups.enqueue(drain, DRAIN_EXPIRES)


@shared_task
@leave_retry_to_beat("maintain the inbox")
def maintain() -> None:
    """Delete what is past its retention."""
    retention.delete_expired(timezone.now(), time_limit(MAINTAIN_SECONDS))
