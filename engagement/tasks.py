"""The domain's Celery tasks. They only call into it, and their messages carry no data."""

import time

from celery import shared_task
from django.utils import timezone

from core import telemetry, wakeups
from core.database.retries import again_without_missing_nodes, leave_retry_to_beat
from core.jobs.run import keys_in
from core.jobs.shares import time_limit
from core.jobs.tasks import create_task
from engagement.prometheus import RESCORE
from engagement.recording.jobs import QUEUE as MOVES
from engagement.removal import maintenance
from engagement.removal.jobs import QUEUE as REMOVAL
from engagement.rescoring import rescore as rescoring

# After these times a task ends and requests another run, so that recording gets its turn.
RESCORE_SECONDS = 10.0
CLEAR_SECONDS = 10.0
# After this time maintenance deletes no more of what is old. The rest waits for the next run.
MAINTAIN_SECONDS = 20.0
# One worker at a time moves events. Scoring shares its process, and waits as long: if a product
# waits of which nothing is moved, only for the second of these times.
REATTRIBUTE_SECONDS, SHARED_REATTRIBUTE_SECONDS = 2.0, 0.5
# Seconds between two requests of one process. Scores are fresh within seconds, and an always busy
# subject is scored once in this time.
RESCORE_INTERVAL = 2.0

_next_turn = 0.0


@shared_task
@leave_retry_to_beat("rescore")
def rescore() -> None:
    """Process the rescore queue, and request another run if time ran out.

    It runs after each batch, so it also requests the moves that the batch left to do.
    """
    if again_without_missing_nodes(lambda: keys_in(MOVES)):
        wakeups.enqueue(reattribute, expires=10)
    out_of_time = time_limit(RESCORE_SECONDS)
    with telemetry.track_operation(RESCORE, timezone.now) as run:
        run.units = again_without_missing_nodes(
            lambda: rescoring.rescore(timezone.now(), out_of_time=out_of_time)
        )
    if out_of_time():
        request_rescore()


@shared_task
@leave_retry_to_beat("maintain events")
def maintain() -> None:
    """Create partitions ahead, drop old ones, and delete what is past its retention."""
    maintenance.maintain(timezone.now(), time_limit(MAINTAIN_SECONDS))


def request_clearing() -> None:
    """Request that forgotten subjects and deleted products are erased soon."""
    wakeups.enqueue(clear, expires=60)


def request_rescore() -> None:
    """Request a rescoring: at once, or RESCORE_INTERVAL after the last one.

    A request that is already on its way covers what is in the queue now. If the broker is away,
    beat requests a rescoring some seconds later: the queue is in the database.
    """
    global _next_turn
    now = time.monotonic()
    turn = max(now, _next_turn)
    if turn - now < RESCORE_INTERVAL:
        _next_turn = turn + RESCORE_INTERVAL
        wakeups.enqueue(rescore, expires=60, countdown=turn - now)


def _others_wait() -> bool:
    """Whether a product waits for its scores of which nothing is moved."""
    return not keys_in(MOVES).issuperset(rescoring.next_products(set()))


# Rescoring requests another run if time ran out.
reattribute = create_task(
    "engagement.tasks.reattribute",
    MOVES,
    seconds=REATTRIBUTE_SECONDS,
    after_steps=request_rescore,
    shared_seconds=SHARED_REATTRIBUTE_SECONDS,
    others_wait=_others_wait,
)
clear = create_task(
    "engagement.tasks.clear", REMOVAL, seconds=CLEAR_SECONDS, after_steps=request_clearing
)
