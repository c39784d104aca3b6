"""Celery tasks of the connection: they only call into it, and carry no more than an id."""

import time

from celery import shared_task
from django.utils import timezone

from engagement import telemetry
from engagement.database.retries import left_to_beat
from engagement.tasks import request_rescore
from marketplace import client, runs
from marketplace import sync as syncing
from marketplace.client import Client, Credentials
from marketplace.prometheus import SYNC

# A sync hands its worker back after so many seconds, so that other connections get their turn.
SYNC_SECONDS = 20.0


@shared_task
@left_to_beat("sync a marketplace connection")
def sync(connection_id: int) -> None:
    """Work on the connection's sync, if one is due and nobody else does."""
    deadline = time.monotonic() + SYNC_SECONDS
    worker = syncing.Worker(
        client_for=_patient,
        clock=timezone.now,
        out_of_time=lambda: time.monotonic() > deadline,
        after_pages=request_rescore,
    )
    with telemetry.measured(SYNC, timezone.now):
        syncing.work(connection_id, worker)


@shared_task
@left_to_beat("sync the marketplace connections")
def sync_all() -> None:
    """Have each active connection sync."""
    runs.request_scheduled(timezone.now())


@shared_task
@left_to_beat("resume marketplace syncs")
def resume() -> None:
    """Ask for the syncs whose time has come again, or whose worker is gone."""
    runs.wake(runs.due(timezone.now()))


def _patient(credentials: Credentials) -> Client:
    return client.connect(credentials, client.PATIENT)
