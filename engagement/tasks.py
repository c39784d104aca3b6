"""Celery tasks of the domain: they only call into it, and carry no data."""

import time

from celery import shared_task
from django.utils import timezone

from engagement import maintenance, rescoring, wakeups
from engagement.failures import left_to_beat

# A rescoring hands its worker back after so many seconds, so that recording gets its turn.
RESCORE_SECONDS = 10.0
# Seconds between two requests of one process: scores are fresh within seconds, and a subject that
# is busy all the time is scored once in so many.
PAUSE = 2.0

_requested_at = 0.0


@shared_task
@left_to_beat("rescore what is stale")
def rescore() -> None:
    """Score what is stale."""
    deadline = time.monotonic() + RESCORE_SECONDS
    rescoring.rescore(timezone.now(), out_of_time=lambda: time.monotonic() > deadline)


@shared_task
@left_to_beat("maintain events")
def maintain() -> None:
    """Make partitions ahead, drop old ones, and do what is due once a day."""
    maintenance.maintain(timezone.now())


def request_rescore() -> None:
    """Have stale scores computed soon; called often, it asks once in PAUSE seconds.

    A broker that is away costs some seconds, until beat asks: the marks are in the database.
    """
    global _requested_at
    now = time.monotonic()
    if now - _requested_at >= PAUSE:
        _requested_at = now
        wakeups.ask(rescore, expires=60)
