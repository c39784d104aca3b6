"""What goes wrong in a schedule, drawn from its seed."""

from collections.abc import Collection
from random import Random

from proofs.simulated.database import DIE_AFTER, ERRORS, LOST, LOST_AFTER
from proofs.simulated.scheduler import Process, Scheduler, Thread

# Of a schedule, one in so many statements has a fault: from nearly none to many.
RATES = (2000, 500, 200, 80)
# At points between two systems it is one in so many at least: few points, and most of the bugs.
BETWEEN, RATE_BETWEEN = {"request", "response"}, 15
KILL = "kill"
HANG = "hang"
# A process that hangs is killed after so many points of the others, as Celery and PostgreSQL do.
HANGS_FOR = 200


class Faults:
    """Kills, hangs, lost connections, conflicts, and canceled statements, until ``end()``.

    They are numbered; with *only*, the others do not happen.
    """

    def __init__(self, seed: int, only: Collection[int] | None = None) -> None:
        self.number = 0
        self._only = only
        self._chance = Random(f"faults of {seed}")
        self._rate = self._chance.choice(RATES)
        self._hanging: dict[Process, int] = {}
        self._points = 0
        self._is_over = False

    def before(self, scheduler: Scheduler, thread: Thread) -> None:
        """Let something happen to the chosen thread."""
        self._points += 1
        for process, until in list(self._hanging.items()):
            if self._points > until or self._is_over:
                del self._hanging[process]
                scheduler.kill(process)
        rate = min(self._rate, RATE_BETWEEN) if thread.point in BETWEEN else self._rate
        if self._is_over or thread.process.is_immortal or self._chance.randrange(rate):
            return
        fault = self._chance.choice((KILL, HANG, DIE_AFTER, LOST, LOST_AFTER, *ERRORS))
        self.number += 1
        if self._only is not None and self.number - 1 not in self._only:
            return
        scheduler.incidents[fault] += 1
        if fault == KILL:
            scheduler.kill(thread.process)
        elif fault == HANG:
            thread.process.is_hanging = True
            self._hanging[thread.process] = self._points + HANGS_FOR
        else:
            # It happens at the thread's next statement.
            thread.fault = fault

    def end(self) -> None:
        self._is_over = True
