"""Runs threads one at a time, and draws at each named point which one goes on.

A thread of a simulated process reaches a point before each statement, each commit, each request to
others, and wherever it waits. There the scheduler may let another one go on, let time pass, fail
the statement, or kill the whole process. All is drawn from one seed, so a seed is a schedule.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from queue import Empty, SimpleQueue
from random import Random
from typing import Protocol

# The real ones: what the service calls follows the simulated clock.
_monotonic, real_sleep = time.monotonic, time.sleep
# Simulated seconds that pass at a point: most take little, some take long.
TICKS = (0.0, 0.001, 0.001, 0.01, 0.05, 0.3)
# Real seconds until a thread that has not reached its next point is asked whether a lock holds it.
PATIENCE, SHORT = 0.004, 0.0005
# Real seconds after which a thread hangs in the program itself, and not at a point.
STUCK = 30.0
_threads = threading.local()


class Killed(BaseException):
    """The thread's process is dead. Nothing of the service catches it."""


class Stuck(Exception):
    """Nobody can go on, or a schedule has no end."""


class State(Enum):
    READY = auto()
    RUNNING = auto()
    SLEEPING = auto()
    WAITING = auto()
    ENDED = auto()


class Locks(Protocol):
    """What the database knows of the threads' sessions."""

    def is_waiting(self, thread: "Thread") -> bool:
        """Whether a lock of another session holds this one's."""

    def has_circle(self, threads: "Sequence[Thread]") -> bool:
        """Whether some of these wait for each other."""

    def hold(self, thread: "Thread") -> None:
        """Have its session, which waits for a lock, do nothing once it has it, until it is let go.
        Otherwise chance decides which of two that wait for the same transaction goes on first."""

    def let_go(self, thread: "Thread") -> None:
        """Let its session go on."""

    def end(self, thread: "Thread") -> None:
        """End its session. Returns once its locks are free."""

    def set_time(self, now: datetime) -> None:
        """Have the database's clock show this time."""


@dataclass(eq=False)
class Process:
    """Threads that die together. Its clock may differ from that of the others."""

    name: str
    threads: "list[Thread]" = field(default_factory=list)
    is_dead: bool = False
    is_immortal: bool = False
    is_hanging: bool = False
    offset: timedelta = timedelta(0)


class Thread:
    """A thread of a simulated process."""

    def __init__(
        self, scheduler: "Scheduler", process: Process, name: str, work: Callable[[], object]
    ) -> None:
        self.process, self.name = process, name
        self.state = State.READY
        # Where it is, and until when it sleeps at most.
        self.point, self.until = "start", 0.0
        self.session: int | None = None
        # What the scheduler decided for its next statement.
        self.fault: str = ""
        self._scheduler, self._work = scheduler, work
        # Something is put at each point; the scheduler waits for it before anybody else goes on.
        self.arrived: SimpleQueue[None] = SimpleQueue()
        # Whether a lock holds it, as far as the scheduler knows. Its session is held, too.
        self.is_locked = False
        self._may_go: SimpleQueue[None] = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return self.state is not State.ENDED

    def go(self) -> None:
        self.state = State.RUNNING
        self._may_go.put(None)

    def has_arrived(self, seconds: float) -> bool:
        """Whether it reached a point, at the latest in so many real seconds."""
        try:
            self.arrived.get(timeout=seconds)
        except Empty:
            return False
        return True

    def pause(self, point: str, state: State = State.READY, until: float = 0.0) -> None:
        """Reach a point. Returns once the scheduler chooses this thread; raises Killed."""
        self.raise_if_killed()
        # In microseconds, as the clock is.
        self.point, self.until, self.state = point, round(until, 6), state
        self.arrived.put(None)
        self._may_go.get()
        self.raise_if_killed()

    def wake(self) -> None:
        """Let it go on before its time is over."""
        if self.state is State.WAITING:
            self.state = State.READY

    def raise_if_killed(self) -> None:
        if self.process.is_dead:
            raise Killed

    def _run(self) -> None:
        _threads.current = self
        self._may_go.get()
        try:
            self.raise_if_killed()
            self._work()
        except Killed:
            pass
        except BaseException as error:
            # What a dead process cannot clean up is nobody's error.
            if not self.process.is_dead:
                self._scheduler.errors.append(error)
        finally:
            with suppress(BaseException):
                self._scheduler.leave(self)
            self.state = State.ENDED
            self.arrived.put(None)


def current() -> Thread | None:
    """The simulated thread that runs this, None for a real one."""
    return getattr(_threads, "current", None)


class Scheduler:
    """Simulated processes, their clock, and what happens to them."""

    def __init__(
        self,
        seed: int,
        start: datetime,
        locks: Locks,
        faults: "Faults",
        leave: Callable[[Thread], None] = lambda thread: None,
    ) -> None:
        self.chance = Random(seed)
        self.errors: list[BaseException] = []
        # What happened, in order: a replay of the seed gives the same.
        self.trace: list[str] = []
        self.incidents: Counter[str] = Counter()
        self.leave = leave
        self._seconds, self._shown = 0.0, -1.0
        self._start, self._locks, self._faults = start, locks, faults
        self._threads: list[Thread] = []
        self._locked: list[Thread] = []
        self._doomed: list[Process] = []

    # --- For threads ----------------------------------------------------------------------

    def now(self) -> datetime:
        thread = current()
        offset = thread.process.offset if thread else timedelta(0)
        return self._start + timedelta(seconds=self._seconds) + offset

    def monotonic(self) -> float:
        return self._seconds

    def sleep(self, seconds: float) -> None:
        thread = current()
        if thread is None:
            real_sleep(seconds)
        else:
            thread.pause("sleep", State.SLEEPING, self._seconds + seconds)

    def show_time(self) -> None:
        """Have the database show the time, before a statement."""
        if self._shown != self._seconds:
            self._shown = self._seconds
            self._locks.set_time(self._start + timedelta(seconds=self._seconds))

    def start(self, process: Process, name: str, work: Callable[[], object]) -> Thread:
        thread = Thread(self, process, name, work)
        process.threads.append(thread)
        self._threads.append(thread)
        return thread

    # --- The schedule ---------------------------------------------------------------------

    def run(self, until: Callable[[], bool], max_points: int) -> None:
        """Let threads go on, one at a time, until the condition holds. Raises Stuck, and the first
        error that a thread ended with."""
        for _ in range(max_points):
            for process in self._doomed:
                self.kill(process)
            self._doomed.clear()
            if until():
                return
            self._let_locked_go_on()
            if thread := self._choose():
                self._faults.before(self, thread)
                if not thread.process.is_dead:
                    self._step(thread)
                    self._pass_time(self.chance.choice(TICKS))
            if self.errors:
                raise self.errors[0]
        raise Stuck(f"It goes on after {max_points} points: {self.places()}.")

    def doom(self, process: Process) -> None:
        """Have the process killed as soon as its thread reaches a point."""
        self._doomed.append(process)

    def kill(self, process: Process) -> None:
        """End the process at once, as SIGKILL does, with its sessions."""
        if process.is_dead:
            return
        self._note(process.name, "killed")
        process.is_dead = True
        for thread in process.threads:
            self._locks.end(thread)
        for thread in process.threads:
            if thread.is_alive:
                thread.go()
                assert thread.has_arrived(STUCK), thread.name
        self._threads = [each for each in self._threads if each.is_alive]
        self._locked = [each for each in self._locked if each.is_alive]

    def lose_session(self) -> None:
        """End the session of the thread that asks."""
        thread = current()
        assert thread is not None
        self._locks.end(thread)

    def stop(self) -> None:
        """End everything."""
        for thread in list(self._threads):
            self.kill(thread.process)

    def places(self) -> str:
        return ", ".join(f"{t.name} {t.state.name.lower()} at {t.point}" for t in self._threads)

    def _choose(self) -> Thread | None:
        """Draw who goes on. If nobody can, time passes until the first wakes, and it is None."""
        ready, wakes, now = list[Thread](), list[float](), self._seconds
        for each in self._threads:
            # A thread that hangs wakes nobody.
            if each.is_locked or each.process.is_hanging:
                continue
            if each.state is State.READY or 0 < each.until <= now:
                ready.append(each)
            elif each.until:
                wakes.append(each.until)
        if ready:
            return self.chance.choice(ready)
        if not wakes:
            raise Stuck(f"Nobody goes on: {self.places()}.")
        self._pass_time(min(wakes) - self._seconds)
        return None

    def _pass_time(self, seconds: float) -> None:
        if seconds > 0:
            self._seconds = round(self._seconds + seconds, 6)

    def _step(self, thread: Thread) -> None:
        self._note(thread.name, thread.point)
        thread.go()
        if not self._reaches_point(thread):
            self.incidents["lock"] += 1
            thread.is_locked = True
            self._locked.append(thread)
        elif thread.state is State.ENDED:
            self._threads.remove(thread)

    def _reaches_point(self, thread: Thread) -> bool:
        """Wait until the thread reaches a point or ends. If it waits for a lock, hold it: False."""
        deadline = _monotonic() + STUCK
        while not thread.has_arrived(PATIENCE):
            # Of threads that wait for each other in a circle, PostgreSQL fails the last.
            if self._locks.is_waiting(thread) and not self._locks.has_circle(
                [*self._locked, thread]
            ):
                self._locks.hold(thread)
                return False
            if _monotonic() > deadline:
                raise Stuck(f"{thread.name} hangs after {thread.point}.")
        return True

    def _let_locked_go_on(self) -> None:
        """Let those whose lock is free run to the end of their statement, one after the other."""
        for thread in list(self._locked):
            if not self._locks.is_waiting(thread):
                self._locks.let_go(thread)
                if self._reaches_point(thread):
                    self._locked.remove(thread)
                    thread.is_locked = False

    def _note(self, name: str, point: str) -> None:
        self.trace.append(f"{name}: {point}")


class Faults(Protocol):
    """What goes wrong."""

    def before(self, scheduler: Scheduler, thread: Thread) -> None:
        """Decide what happens to the thread that was chosen: it may kill its process, or set its
        ``fault``."""
