"""Celery tasks of the connection. Their only argument is an id."""

import time

from celery import shared_task
from django.utils import timezone

from engagement import telemetry
from engagement.database.retries import leave_retry_to_beat
from engagement.tasks import request_rescore
from marketplace import client, scheduling
from marketplace.client import Credentials, MarketplaceClient
from marketplace.prometheus import SYNC_COUNTER
from marketplace.sync import SyncEnvironment, run_sync

# Seconds after which a sync releases its worker, so that other connections get their turn.
SYNC_SECONDS = 20.0


@shared_task
@leave_retry_to_beat("sync a marketplace connection")
def sync(connection_id: int) -> None:
    """Work on the connection's sync, if it is due and no other worker does."""
    deadline = time.monotonic() + SYNC_SECONDS
    environment = SyncEnvironment(
        create_client=_create_client,
        clock=timezone.now,
        is_out_of_time=lambda: time.monotonic() > deadline,
        on_pages_written=request_rescore,
    )
    with telemetry.track_operation(SYNC_COUNTER, timezone.now):
        run_sync(connection_id, environment)


@shared_task
@leave_retry_to_beat("sync the marketplace connections")
def sync_all() -> None:
    """Have each active connection sync."""
    scheduling.request_all_syncs(timezone.now())


@shared_task
@leave_retry_to_beat("resume marketplace syncs")
def resume() -> None:
    """Wake workers for the syncs that are due or whose worker died."""
    scheduling.wake_workers(scheduling.due_connection_ids(timezone.now()))


def _create_client(credentials: Credentials) -> MarketplaceClient:
    return client.create_client(credentials, client.BACKGROUND_RETRY_POLICY)
