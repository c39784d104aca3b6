"""The kinds of jobs: what a step does, how often it runs, and how long it waits after a failure."""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeAlias

from core.jobs.backoff import Backoff
from core.models.jobs import Job

# The same for all kinds, unless one says otherwise.
BACKOFF = Backoff(first=timedelta(seconds=5), factor=3, longest=timedelta(hours=1))


@dataclass(frozen=True)
class Done:
    """Nothing is left. A job with a key ends. The only one of its kind is due again after its
    kind's interval, or when it is requested."""


@dataclass(frozen=True)
class More:
    """There is more to do at once, from the cursor on."""

    cursor: Any = None
    # Units so far, and of all, for a page.
    progress: int = 0
    total: int | None = None


@dataclass(frozen=True)
class Later:
    """Nothing to do, or nobody may do it, before this time; by default before the steps since the
    last rest have rested for their kind's share of the time."""

    at: datetime | None = None
    cursor: Any = None


@dataclass(frozen=True)
class Blocked:
    """Another worker holds what the step needs. The job stays as it is until the next run."""


Outcome: TypeAlias = Done | More | Later | Blocked
Step: TypeAlias = Callable[[Job, datetime], Outcome]
Keys: TypeAlias = Callable[[], Iterable[int]]
Fields = ParamSpec("Fields")


class StepFailed(Exception):
    """A step failed in a way that its job expects. Its text is for people, and says what to do."""


@dataclass(frozen=True)
class Kind:
    """*step* does a bounded part of a job. *label* says on pages what the job does.

    A kind has one job, which looks for work *every* so often, at each run of the queue by default;
    or one for each of the *keys*, which name what there is to do now, those of the longest wait
    first. A job with a key ends when it is done.

    A step is one transaction with the job's row. A step that waits for other systems, or whose
    statements take long, has a *lease* instead: it runs outside of any transaction, and nobody
    else runs it until the lease has ended.

    A run without time does one step of the kind, or one of each of its jobs if it *is_urgent*.

    ``Later()`` rests so long that the steps take *share* of the time (0 to 1), and *shortest_rest*
    at least. After a step that left more to do, the worker pauses for *pause_share* of its time,
    so that others get the rows that it locked. *on_give_up* gets a job that its backoff gives up,
    in the transaction that deletes it. *title* names a key on pages.
    """

    name: str
    label: str
    _: KW_ONLY
    queue: str
    step: Step
    keys: Keys | None = None
    every: timedelta = timedelta()
    share: float = 1.0
    shortest_rest: timedelta = timedelta()
    pause_share: float = 0.0
    lease: timedelta | None = None
    is_urgent: bool = False
    backoff: Backoff = BACKOFF
    on_give_up: Callable[[Job], None] = lambda job: None
    title: Callable[[int], str] = str


_kinds: dict[str, Kind] = {}


def _registrar(create: Callable[Fields, Kind]) -> Callable[Fields, None]:
    def register(*arguments: Fields.args, **options: Fields.kwargs) -> None:
        """Have workers of the queue run this kind of job. Call it from ``AppConfig.ready()``."""
        kind = create(*arguments, **options)
        _kinds[kind.name] = kind

    return register


register = _registrar(Kind)


def get(name: str) -> Kind | None:
    """The kind; None if no app of this release registers it."""
    return _kinds.get(name)


def in_queue(queue: str) -> list[Kind]:
    """The kinds that workers of the queue run, in the order of their registration."""
    return [kind for kind in _kinds.values() if kind.queue == queue]
