"""Celery tasks. Their messages carry no data."""

from celery import shared_task
from django.utils import timezone

from core import telemetry, wakeups
from core.database.retries import again_without_missing_nodes, leave_retry_to_beat
from core.jobs.shares import time_limit
from notifications import retention
from notifications.delivery.deliver import deliver as deliver_messages
from notifications.digests import writing
from notifications.prometheus import DELIVER_COUNTER, SWEEP_COUNTER, attempts_counter
from notifications.watching.sweep import sweep as sweep_watches

# Seconds after which a task ends, so that others get their turn.
SWEEP_SECONDS = 10.0
DELIVER_SECONDS = 20.0
DIGEST_SECONDS = 20.0


@shared_task
@leave_retry_to_beat("watch for changes")
def sweep() -> None:
    """Write to the outbox what has changed, and request its delivery."""
    with telemetry.track_operation(SWEEP_COUNTER, timezone.now) as run:
        run.units = again_without_missing_nodes(
            lambda: sweep_watches(timezone.now(), out_of_time=time_limit(SWEEP_SECONDS))
        )
    if run.units:
        request_delivery()


@shared_task
@leave_retry_to_beat("deliver notifications")
def deliver() -> None:
    """Deliver what is due, and request another run if time ran out."""
    out_of_time = time_limit(DELIVER_SECONDS)

    with telemetry.track_operation(DELIVER_COUNTER, timezone.now) as run:
        attempts = deliver_messages(timezone.now, out_of_time=out_of_time)
        run.units = attempts.total()
    for outcome, count in attempts.items():
        telemetry.add_run(attempts_counter(outcome), count, 0.0, timezone.now())
    if out_of_time():
        request_delivery()


@shared_task
@leave_retry_to_beat("write digests")
def write_digests() -> None:
    """Write the digests that are due to the outbox, and request their delivery."""
    out_of_time = time_limit(DIGEST_SECONDS)
    if again_without_missing_nodes(lambda: writing.write_due(timezone.now(), out_of_time)):
        request_delivery()


@shared_task
@leave_retry_to_beat("maintain notifications")
def maintain() -> None:
    """Delete messages and attempts that are past their retention."""
    retention.maintain(timezone.now())


def request_delivery() -> None:
    """Request a delivery soon. Beat requests one every ten seconds anyway."""
    wakeups.enqueue(deliver, expires=60)
