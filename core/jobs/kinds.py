"""The kinds of jobs: what a step does, how often it runs, and how long it waits after a failure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from core.jobs.backoff import Backoff
from core.models.jobs import Job

# The same for all kinds, unless one says otherwise.
BACKOFF = Backoff(first=timedelta(seconds=5), factor=3, longest=timedelta(hours=1))


@dataclass(frozen=True)
class Done:
    """Nothing is left. The job's next step is due after its kind's interval, or when it is
    requested."""


@dataclass(frozen=True)
class More:
    """There is more to do at once, from the cursor on."""

    cursor: Any = None
    # Units so far, and of all, for a page.
    progress: int = 0
    total: int | None = None


@dataclass(frozen=True)
class Later:
    """Nothing to do, or nobody may do it, before this time."""

    at: datetime
    cursor: Any = None


Outcome: TypeAlias = Done | More | Later
Step: TypeAlias = Callable[[Job, datetime], Outcome]


@dataclass(frozen=True)
class Kind:
    """*step* does a bounded part of a job in one transaction. *label* says on pages what the job
    does."""

    name: str
    label: str
    queue: str
    step: Step
    every: timedelta
    backoff: Backoff


_kinds: dict[str, Kind] = {}


def register(
    name: str,
    label: str,
    *,
    queue: str,
    step: Step,
    every: timedelta = timedelta(),
    backoff: Backoff = BACKOFF,
) -> None:
    """Have workers of the *queue* run this kind of job. An idle job looks for work *every* so
    often, at each run of the queue by default. Call it from ``AppConfig.ready()``."""
    _kinds[name] = Kind(name, label, queue, step, every, backoff)


def get(name: str) -> Kind | None:
    """The kind; None if no app of this release registers it."""
    return _kinds.get(name)


def in_queue(queue: str) -> list[Kind]:
    """The kinds that workers of the queue run, in the order of their registration."""
    return [kind for kind in _kinds.values() if kind.queue == queue]
