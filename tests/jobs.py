"""Runs a background job at once, as a worker does when the job is due."""

from collections.abc import Callable
from datetime import datetime

from core.jobs import kinds, run


def run_job(name: str, now: datetime, out_of_time: Callable[[], bool] = lambda: False) -> int:
    """Run the jobs of this kind until nothing is left or time is out; return the number of steps.

    A step that fails raises its error: a test must not go on as if it had succeeded.
    """
    kind = kinds.get(name)
    assert kind is not None, name
    steps = run.run_now(kind, lambda: now, out_of_time)
    failed = run.failures_of(name)
    assert not failed, failed
    return steps
