"""Celery tasks of the connection. Their only argument is an id."""

from celery import shared_task
from django.utils import timezone

from core import telemetry, wakeups
from core.database.retries import leave_retry_to_beat
from core.jobs.run import run_due
from core.jobs.shares import time_limit
from engagement.tasks import request_rescore
from marketplace.runs import report_sources, scheduling
from marketplace.runs.sync import SyncEnvironment, run_sync
from marketplace.source import client
from marketplace.source.client import Credentials, MarketplaceClient
from marketplace.status.prometheus import SYNC_COUNTER
from marketplace.user_names import QUEUE

# Seconds after which a sync, or other work of the queue, releases its worker, so that other
# connections get their turn.
SYNC_SECONDS = 20.0


@shared_task
@leave_retry_to_beat("sync a marketplace connection")
def sync(connection_id: int) -> None:
    """Work on the connection's sync, if it is due and no other worker does."""
    environment = SyncEnvironment(
        create_client=_create_client,
        clock=timezone.now,
        is_out_of_time=time_limit(SYNC_SECONDS),
        on_pages_written=request_rescore,
    )
    with telemetry.track_operation(SYNC_COUNTER, timezone.now):
        run_sync(connection_id, environment)


@shared_task
@leave_retry_to_beat("sync the marketplace connections")
def sync_all() -> None:
    """Have the connections sync whose time has come. Its schedule is the timetable of syncs."""
    scheduling.request_due_syncs(timezone.now())


@shared_task
@leave_retry_to_beat("start marketplace syncs")
def resume() -> None:
    """Have the connections sync whose time has come, and wake workers for the syncs that are due
    again or whose worker died."""
    now = timezone.now()
    run_due(QUEUE, timezone.now, time_limit(SYNC_SECONDS))
    scheduling.request_due_syncs(now)
    scheduling.wake_workers(scheduling.due_connection_ids(now))


@shared_task
@leave_retry_to_beat("read marketplace reports")
def read_reports() -> None:
    """Read the reports beside the licenses that are due, and those that are unfinished."""
    out_of_time = time_limit(SYNC_SECONDS)
    run_due(report_sources.QUEUE, timezone.now, out_of_time)
    if out_of_time():
        # Beat requests it every minute anyway.
        wakeups.enqueue(read_reports, expires=60)


def _create_client(credentials: Credentials) -> MarketplaceClient:
    return client.create_client(credentials, client.BACKGROUND_RETRY_POLICY)
