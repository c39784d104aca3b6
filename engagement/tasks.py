"""Celery tasks of the domain: they only call into it, and carry no data."""

import time

from celery import shared_task
from django.utils import timezone

from engagement import telemetry
from engagement.core import wakeups
from engagement.database.retries import leave_retry_to_beat
from engagement.prometheus import RESCORE
from engagement.recording import reattribution
from engagement.removal import deletion, forgetting, maintenance
from engagement.rescoring import rescore as rescoring

# A rescoring hands its worker back after so many seconds, so that recording gets its turn.
RESCORE_SECONDS = 10.0
# So does clearing away what was deleted on request.
CLEAR_SECONDS = 10.0
# So does moving events. One worker at a time does it.
REATTRIBUTE_SECONDS = 5.0
# Seconds between two requests of one process: scores are fresh within seconds, and a subject that
# is busy all the time is scored once in so many.
RESCORE_INTERVAL = 2.0

_next_turn = 0.0


@shared_task
@leave_retry_to_beat("rescore what is stale")
def rescore() -> None:
    """Score what is stale; ask for more where time ran out. It follows each batch, so it also asks
    for what the batch left to the background."""
    if reattribution.has_requests():
        wakeups.enqueue(reattribute, expires=10)
    deadline = time.monotonic() + RESCORE_SECONDS

    def out_of_time() -> bool:
        return time.monotonic() > deadline

    with telemetry.track_operation(RESCORE, timezone.now) as work:
        work.units = rescoring.rescore(timezone.now(), out_of_time=out_of_time)
    if out_of_time():
        request_rescore()


@shared_task
@leave_retry_to_beat("move events to other accounts")
def reattribute() -> None:
    """Move the events of users who turned out to be in another account, and have them scored; the
    rescoring asks for more where time ran out."""
    if not reattribution.has_requests():
        return
    deadline = time.monotonic() + REATTRIBUTE_SECONDS
    reattribution.process_requests(lambda: time.monotonic() > deadline)
    request_rescore()


@shared_task
@leave_retry_to_beat("maintain events")
def maintain() -> None:
    """Make partitions ahead, drop old ones, and do what is due once a day."""
    maintenance.maintain(timezone.now())


@shared_task
@leave_retry_to_beat("delete what people asked to delete")
def clear() -> None:
    """Go on with forgetting and with deleting products; ask for more where time ran out."""
    deadline = time.monotonic() + CLEAR_SECONDS

    def out_of_time() -> bool:
        return time.monotonic() > deadline

    if not (forgetting.erase_forgotten(out_of_time) and deletion.resume_all_deletions(out_of_time)):
        request_clearing()


def request_clearing() -> None:
    """Have what people asked to delete deleted soon."""
    wakeups.enqueue(clear, expires=60)


def request_rescore() -> None:
    """Have stale scores computed soon: at once, or when PAUSE is over since the last time.

    Whatever is stale when this is called is scored by one of the requests that are on their way.
    A broker that is away costs some seconds, until beat asks: the marks are in the database.
    """
    global _next_turn
    now = time.monotonic()
    turn = max(now, _next_turn)
    if turn - now < RESCORE_INTERVAL:
        _next_turn = turn + RESCORE_INTERVAL
        wakeups.enqueue(rescore, expires=60, countdown=turn - now)
