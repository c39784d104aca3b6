"""The service's processes in a schedule: clients, web roles, workers, beat, and a receiver."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from celery import current_app
from celery.signals import task_prerun
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from config.periodic_tasks import SCHEDULE
from core import wakeups
from core.outbound.requests import OutboundRequest, Outcome, Result
from harness.http import basic
from harness.posting import Posted, Track
from ingestion.inbox import drain_requests, group_commit
from notifications.delivery import deliver
from proofs.simulated.licenses import Licenses
from proofs.simulated.scheduler import Process, Scheduler, State, Thread, current

CLIENTS = 3
WEB_PROCESSES, WEB_THREADS, WORKERS = 2, 2, 3
USERS, ACCOUNTS, EVENTS = 4, 2, 2
# Simulated seconds that a client waits for a response, and how often it sends a message.
PATIENCE, ATTEMPTS = 15.0, 4
# One of so many wake-ups is lost, and one comes twice. Beat's come again.
LOST_WAKEUPS, DOUBLED_WAKEUPS = 6, 6
# Tasks that a schedule has: the others need files, reports, or a night.
TASKS = {
    "ingestion.tasks.drain",
    "engagement.tasks.rescore",
    "engagement.tasks.reattribute",
    "notifications.tasks.sweep",
    "notifications.tasks.deliver",
    "marketplace.tasks.resume",
    "marketplace.tasks.sync",
}


# One for all: each would read all files of pages.
_client = Client()


def load() -> None:
    """Load what the first request and the first link would, before any schedule."""
    _client.handler.load_middleware()
    reverse("admin:index")


class Event:
    """An event of ``threading`` for simulated threads."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._is_set = scheduler, False
        self._waiting: list[Thread] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for thread in self._waiting:
            thread.wake()
        self._waiting.clear()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        thread = current()
        assert thread is not None
        if not self._is_set:
            until = 0.0 if timeout is None else self._scheduler.monotonic() + timeout
            self._waiting.append(thread)
            thread.pause("wait", State.WAITING, until)
            # After a timeout, nobody else's set() is meant for it.
            if thread in self._waiting:
                self._waiting.remove(thread)
        return self._is_set


class StartedThread:
    """A thread that the service starts: it belongs to the process that starts it."""

    def __init__(
        self, scheduler: Scheduler, target: Callable[[], object], name: str, daemon: bool = True
    ) -> None:
        self._scheduler, self._target, self._name = scheduler, target, name
        self._thread: Thread | None = None

    def start(self) -> None:
        thread = current()
        assert thread is not None
        name = f"{thread.process.name} {self._name}"
        self._thread = self._scheduler.start(thread.process, name, self._target)

    def is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive


class OfProcess:
    """What each process has one of, although all run in one interpreter."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._own = make, dict[Process, Any]()

    def __getattr__(self, name: str) -> Any:
        thread = current()
        assert thread is not None
        if thread.process not in self._own:
            self._own[thread.process] = self._make()
        return getattr(self._own[thread.process], name)


@dataclass
class Request:
    """A request on its way to a web role. Without a response its status stays None."""

    path: str
    body: dict[str, Any]
    is_done: Event
    status: int | None = None


@dataclass
class Wakeup:
    task: str
    due: float
    expires: float
    arguments: tuple[Any, ...] = ()


@dataclass
class World:
    """One run: what was posted, what was told, and the processes between."""

    scheduler: Scheduler
    key: str
    start: datetime
    # That each client sends.
    messages: int
    # None: nobody changes licenses, or asks for syncs.
    licenses: Licenses | None
    posted: Posted = field(default_factory=Posted)
    # The ids of notifications that the receiver got, in order, repeats included.
    received: list[str] = field(default_factory=list)
    # Whether clients, the network, and the broker still make trouble.
    is_troubled: bool = True
    _requests: "deque[Request]" = field(default_factory=deque)
    _wakeups: list[Wakeup] = field(default_factory=list)
    _clients: list[Thread] = field(default_factory=list)
    _people: list[Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._has_requests, self._has_wakeups = Event(self.scheduler), Event(self.scheduler)

    # --- Processes ------------------------------------------------------------------------

    def begin(self) -> None:
        """Start everything."""
        outside = Process("outside", is_immortal=True)
        for number in range(CLIENTS):
            work = partial(self._post_all, number)
            self._clients.append(self.scheduler.start(outside, f"client {number}", work))
        self.scheduler.start(outside, "beat", self._beat)
        if self.licenses:
            change = partial(self.licenses.change, self.scheduler)
            ask = partial(self.licenses.ask, self.scheduler, lambda: self.is_troubled)
            self._clients.append(self.scheduler.start(outside, "vendor", change))
            self._people.append(self.scheduler.start(outside, "person", ask))
        self.scheduler.start(outside, "supervisor", self._supervise)

    def clients_are_done(self) -> bool:
        return not any(client.is_alive for client in self._clients)

    def people_are_done(self) -> bool:
        """Whether nobody asks for anything else. They end after the end of trouble."""
        return not any(person.is_alive for person in self._people)

    def _supervise(self) -> None:
        """Start processes, and others in the place of those that died."""
        running: dict[str, Process] = {}
        roles = {f"web {number}": self._start_web for number in range(WEB_PROCESSES)}
        roles |= {f"worker {number}": self._start_worker for number in range(WORKERS)}
        while True:
            for name, start in roles.items():
                if name not in running or running[name].is_dead:
                    running[name] = Process(name)
                    start(running[name])
            self.scheduler.sleep(1.0)

    def _start_web(self, process: Process) -> None:
        for number in range(WEB_THREADS):
            self.scheduler.start(process, f"{process.name} thread {number}", self._serve)

    def _start_worker(self, process: Process) -> None:
        if self.is_troubled and self.scheduler.chance.randrange(8) == 0:
            process.offset = timedelta(seconds=self.scheduler.chance.uniform(-90, 90))
        self.scheduler.start(process, process.name, self._work)

    def _serve(self) -> None:
        while True:
            while not self._requests:
                self._has_requests.clear()
                self._has_requests.wait()
            request = self._requests.popleft()
            response = _client.post(
                request.path,
                json.dumps(request.body),
                "application/json",
                headers=basic(self.key),
            )
            thread = current()
            assert thread is not None
            thread.pause("response")
            request.status = response.status_code
            request.is_done.set()

    def _work(self) -> None:
        while True:
            wakeup = self._take_wakeup()
            if wakeup is None:
                self._has_wakeups.clear()
                self._has_wakeups.wait(self._seconds_until_due())
            else:
                task_prerun.send(None)
                current_app.tasks[wakeup.task].run(*wakeup.arguments)
                thread = current()
                assert thread is not None
                thread.pause("task done")

    # --- Wake-ups -------------------------------------------------------------------------

    def _seconds_until_due(self) -> float:
        now = self.scheduler.monotonic()
        return min((wakeup.due - now for wakeup in self._wakeups), default=60.0)

    def _take_wakeup(self) -> Wakeup | None:
        now = self.scheduler.monotonic()
        self._wakeups = [each for each in self._wakeups if each.expires > now]
        due = [each for each in self._wakeups if each.due <= now]
        if not due:
            return None
        wakeup = self.scheduler.chance.choice(due)
        self._wakeups.remove(wakeup)
        return wakeup

    def enqueue(self, task: Any, expires: float, countdown: float = 0.0) -> bool:
        """What ``core.wakeups.enqueue`` does: the broker may lose a message, or repeat it."""
        name = getattr(task, "task", None) or task.name
        copies = 1
        if self.is_troubled and self.scheduler.chance.randrange(LOST_WAKEUPS) == 0:
            self.scheduler.incidents["lost wake-up"] += 1
            copies = 0
        elif self.is_troubled and self.scheduler.chance.randrange(DOUBLED_WAKEUPS) == 0:
            self.scheduler.incidents["doubled wake-up"] += 1
            copies = 2
        now = self.scheduler.monotonic()
        if name in TASKS:
            arguments = tuple(getattr(task, "args", None) or ())
            wakeup = Wakeup(name, now + countdown, now + expires, arguments)
            self._wakeups += [wakeup] * copies
            self._has_wakeups.set()
        return True

    def _beat(self) -> None:
        entries = [entry for entry in SCHEDULE.values() if entry["task"] in TASKS]
        due = dict.fromkeys((entry["task"] for entry in entries), 0.0)
        while True:
            now = self.scheduler.monotonic()
            for entry in entries:
                seconds = entry["schedule"].total_seconds()
                if due[entry["task"]] <= now:
                    due[entry["task"]] = now + seconds
                    self._wakeups.append(Wakeup(entry["task"], now, now + seconds))
                    self._has_wakeups.set()
            self.scheduler.sleep(min(due.values()) - now)

    # --- Outside --------------------------------------------------------------------------

    def _post_all(self, client: int) -> None:
        chance = self.scheduler.chance
        for number in range(self.messages):
            user = f"user-{chance.randrange(USERS)}"
            account = f"account-{chance.randrange(ACCOUNTS)}"
            # Without an id a message must not be sent twice.
            message_id = f"{client}-{number}" if chance.randrange(3) else None
            if number == 0 or chance.randrange(4) == 0:
                path = "/v2/identify"
                body = {"userId": user, "groupId": account}
                track = None
            else:
                path = "/v2/track"
                # No two have the same time. Some are of yesterday.
                occurred_at = self.start - timedelta(days=chance.randrange(2))
                occurred_at += timedelta(milliseconds=client * 100 + number)
                body = {
                    "userId": user,
                    "event": f"event {chance.randrange(EVENTS)}",
                    "timestamp": occurred_at.isoformat(),
                }
                track = Track(user, occurred_at)
            if message_id is not None:
                body["messageId"] = message_id
            self._deliver(path, body, track, ATTEMPTS if message_id else 1)
            self.scheduler.sleep(chance.choice((0.0, 0.1, 1.0, 5.0)))

    def _deliver(self, path: str, body: dict[str, Any], track: Track | None, attempts: int) -> None:
        """Send until 202, as SDKs do, and give up after some attempts. Note what became of it."""
        status: int | None = None
        for attempt in range(attempts):
            request = Request(path, body, Event(self.scheduler))
            self._requests.append(request)
            self._has_requests.set()
            request.is_done.wait(PATIENCE)
            status = request.status
            # Some responses are lost on the way, and the same message comes again.
            is_lost = self.is_troubled and self.scheduler.chance.randrange(8) == 0
            if status == 202 and not (is_lost and attempt + 1 < attempts):
                break
            self.scheduler.sleep(1.0)
        if track is None:
            self.posted.others += status == 202
        elif status == 202:
            self.posted.acknowledged.add(track)
        elif status is None:
            self.posted.unanswered.add(track)
        else:
            self.posted.refused.add(track)

    def receive(self, request: OutboundRequest) -> Result:
        """What the receiver of notifications answers."""
        thread = current()
        assert thread is not None
        thread.pause("request")
        kind = self.scheduler.chance.randrange(10) if self.is_troubled else 9
        if kind == 0:
            return Result(Outcome.UNREACHABLE, error="refused")
        self.received.append(request._headers["webhook-id"])
        if kind == 1:
            # The worker stands still for longer than its lease.
            self.scheduler.sleep(100.0)
        thread.pause("response")
        if kind == 2:
            return Result(Outcome.UNREACHABLE, error="lost")
        return Result(Outcome.DELIVERED, 204)


class _Executor:
    """Runs what is submitted at once, in the thread that submits it."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def submit(self, work: Callable[[], Any]) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(work())
        return future

    def shutdown(self, *_: Any, **__: Any) -> None: ...


@contextmanager
def simulate(world: World) -> Iterator[None]:
    """While the block runs, time, threads, broker, and network are those of the simulation."""
    scheduler, real_monotonic = world.scheduler, time.monotonic
    requesters = OfProcess(drain_requests.DrainRequester)

    def monotonic() -> float:
        return scheduler.monotonic() if current() else real_monotonic()

    threads = SimpleNamespace(
        Thread=lambda **options: StartedThread(scheduler, **options),
        Event=lambda: Event(scheduler),
        Lock=threading.Lock,
    )
    with ExitStack() as stack:
        for target, name, value in [
            (time, "monotonic", monotonic),
            (time, "sleep", scheduler.sleep),
            (timezone, "now", lambda: scheduler.now()),
            (wakeups, "enqueue", world.enqueue),
            (group_commit, "threading", threads),
            (drain_requests, "threading", threads),
            (group_commit, "_committer", OfProcess(group_commit.GroupCommitter)),
            (drain_requests, "request_drain", lambda: requesters.request_drain()),
            (deliver, "ThreadPoolExecutor", _Executor),
            (deliver, "wait", lambda futures, *_: (set(futures), set())),
            (OutboundRequest, "run", lambda request: world.receive(request)),
        ]:
            stack.enter_context(patch.object(target, name, value))
        if world.licenses:
            stack.enter_context(world.licenses.answering(scheduler, lambda: world.is_troubled))
        yield
