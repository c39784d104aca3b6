"""Workers in processes of their own, which are killed in the middle of their jobs."""

import os
import signal
import threading
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import psycopg

from core.jobs import kinds, run
from core.models import Job
from tests.forks import survives

# Each lease has ended, and the wait after a crash.
LATER = timedelta(hours=2)
Clock = Callable[[], datetime]


def work(name: str, clock: Clock) -> None:
    """Run the due jobs of this kind until nothing is left, as a worker does."""
    kind = kinds.get(name)
    assert kind is not None
    run.run_kinds([kind], clock, lambda: False)


def is_killed(place: int | str | float, task: Callable[[], object]) -> bool:
    """Have a process do the task that is killed before its statement of that number, or before the
    first one with that text; or, with a fraction, a millisecond after that statement was sent.
    Returns whether it came to that."""

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def die_there() -> None:
        numbers, execute = count(1), psycopg.Cursor.execute

        def execute_or_die(cursor: Any, statement: Any, *arguments: Any, **options: Any) -> Any:
            number = next(numbers)
            if isinstance(place, float) and int(place) == number:
                threading.Timer(0.001, die).start()
            elif place in str(statement) if isinstance(place, str) else place == number:
                die()
            return execute(cursor, statement, *arguments, **options)

        psycopg.Cursor.execute = execute_or_die  # type: ignore[assignment, method-assign]
        task()

    return not survives(die_there)


def note_crash(name: str, clock: Clock) -> None:
    """Have a worker notice that another one died with a lease. The job then waits for a moment."""
    if Job.objects.filter(kind=name, lease__isnull=False).exists():
        work(name, clock)


def kill_at_each(
    name: str,
    places: Iterable[int | str | float],
    clock: Clock,
    wait: Callable[[timedelta], object],
) -> int:
    """Have workers do the job that are killed, each at the next of these places, until one
    survives. Returns how many were killed."""
    kills = 0
    for place in places:
        if not is_killed(place, lambda: work(name, clock)):
            break
        kills += 1
        wait(LATER)
        note_crash(name, clock)
        wait(LATER)
    return kills
