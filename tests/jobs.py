"""Runs a background job at once, as a worker does when the job is due."""

from collections.abc import Callable
from datetime import datetime

import pytest
from django.db.models import Sum

from core.jobs import kinds, run, shares
from core.models import Job
from engagement.rescoring.jobs import AWAITED_ORDERS, ORDERS


def run_job(name: str, now: datetime, out_of_time: Callable[[], bool] = lambda: False) -> int:
    """Run the jobs of this kind until nothing is left or time is out; return the number of steps.

    A step that fails raises its error: a test must not go on as if it had succeeded.
    """
    kind = kinds.get(name)
    assert kind is not None, name
    if kind.keys is None:
        run.request(name, now)
    steps = run.run_kinds([kind], lambda: now, out_of_time)
    failed = list(Job.objects.filter(kind=name, failures__gt=0).values_list("error", flat=True))
    assert not failed, failed
    return steps


def step_job(name: str, now: datetime) -> bool:
    """Run one step. Returns whether it left more to do."""
    return bool(run_job(name, now, lambda: True))


def run_due_jobs(queue: str, now: datetime) -> None:
    """Run the due jobs of the queue until nothing is left."""
    while run.run_due(queue, lambda: now):
        pass


def refresh_orders(now: datetime) -> None:
    """Compute the stored orders that are due, until their job rests."""
    own_kinds = [kind for name in (AWAITED_ORDERS, ORDERS) if (kind := kinds.get(name))]
    steps = None
    while steps != (steps := Job.objects.aggregate(Sum("steps"))):
        run.run_kinds(own_kinds, lambda: now, lambda: False)


def pretend_duration(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Have jobs rest as after steps that took so long, however long they take here."""
    monkeypatch.setattr(
        run, "rest_until", lambda at, _, share: shares.rest_until(at, seconds, share)
    )
