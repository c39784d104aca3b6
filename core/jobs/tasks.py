"""Celery tasks that run the jobs of a queue."""

from collections.abc import Callable
from typing import Any

from celery import Task, shared_task
from django.utils import timezone

from core.database.retries import again_without_missing_nodes, leave_retry_to_beat
from core.jobs.run import run_due
from core.jobs.shares import time_limit


def create_task(
    name: str, queue: str, *, seconds: float, after_steps: Callable[[], object]
) -> "Task[Any, Any]":
    """A task that runs the due jobs of the queue for *seconds*, and a step of each at least.

    Its messages carry no data. A run that did something calls *after_steps*, which requests what
    follows: another run, for what there was no time for.
    """

    @shared_task(name=name)
    @leave_retry_to_beat(f"run the jobs of the queue {queue}")
    def run() -> None:
        out_of_time = time_limit(seconds)
        if again_without_missing_nodes(lambda: run_due(queue, timezone.now, out_of_time)):
            after_steps()

    task: Task[Any, Any] = run
    return task
