"""Celery tasks of the connection: they only call into it, and carry no more than an id."""

import time

from celery import shared_task
from django.utils import timezone

from engagement import telemetry
from engagement.database.retries import leave_retry_to_beat
from engagement.tasks import request_rescore
from marketplace import client, scheduling
from marketplace import sync as syncing
from marketplace.client import Credentials, MarketplaceClient
from marketplace.prometheus import SYNC_COUNTER

# A sync hands its worker back after so many seconds, so that other connections get their turn.
SYNC_SECONDS = 20.0


@shared_task
@leave_retry_to_beat("sync a marketplace connection")
def sync(connection_id: int) -> None:
    """Work on the connection's sync, if one is due and nobody else does."""
    deadline = time.monotonic() + SYNC_SECONDS
    worker = syncing.SyncEnvironment(
        client_for=_patient,
        clock=timezone.now,
        is_out_of_time=lambda: time.monotonic() > deadline,
        on_pages_written=request_rescore,
    )
    with telemetry.track_operation(SYNC_COUNTER, timezone.now):
        syncing.run_sync(connection_id, worker)


@shared_task
@leave_retry_to_beat("sync the marketplace connections")
def sync_all() -> None:
    """Have each active connection sync."""
    scheduling.request_all_syncs(timezone.now())


@shared_task
@leave_retry_to_beat("resume marketplace syncs")
def resume() -> None:
    """Ask for the syncs whose time has come again, or whose worker is gone."""
    scheduling.wake_workers(scheduling.due_connection_ids(timezone.now()))


def _patient(credentials: Credentials) -> MarketplaceClient:
    return client.create_client(credentials, client.BACKGROUND_RETRY_POLICY)
