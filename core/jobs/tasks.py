"""Celery tasks that run the jobs of a queue."""

from collections.abc import Callable
from typing import Any

from celery import Task, shared_task
from django.utils import timezone

from core.database.retries import again_without_missing_nodes, leave_retry_to_beat
from core.jobs.run import run_due
from core.jobs.shares import time_limit


def create_task(
    name: str,
    queue: str,
    *,
    seconds: float,
    after_steps: Callable[[], object],
    shared_seconds: float = 0.0,
    others_wait: Callable[[], bool] = lambda: False,
) -> "Task[Any, Any]":
    """A task that runs the due jobs of the queue for *seconds*, and a step of each kind at least.
    It ends after *shared_seconds* if *others_wait* for the process.

    Its messages carry no data. A run that did something calls *after_steps*, which requests what
    follows: another run, for what there was no time for.
    """

    @shared_task(name=name)
    @leave_retry_to_beat(f"run the jobs of the queue {queue}")
    def run() -> None:
        out_of_time, is_shared = time_limit(seconds), time_limit(shared_seconds)

        def is_over() -> bool:
            return out_of_time() or (is_shared() and others_wait())

        if again_without_missing_nodes(lambda: run_due(queue, timezone.now, is_over)):
            after_steps()

    task: Task[Any, Any] = run
    return task
