"""Celery tasks. Their messages carry no data."""

from core import wakeups
from core.jobs.tasks import create_task
from trends.figures.jobs import QUEUE

# After this time the task ends and requests another run, so that others get their turn.
RUN_SECONDS = 10.0


def request_run() -> None:
    """Request the task soon. Beat requests it every minute anyway."""
    wakeups.enqueue(run, expires=60)


run = create_task("trends.tasks.run", QUEUE, seconds=RUN_SECONDS, after_steps=request_run)
