"""Celery's prefork pool, made to survive the sudden death of a process."""

import logging
import os
import sys
from functools import partial
from typing import Any

from billiard.pool import EX_OK, EX_RECYCLE
from celery.concurrency import prefork
from celery.worker import state

from config.server.parent_death import exit_with_parent, parent_death_signal

logger = logging.getLogger(__name__)


class Pool(prefork.TaskPool):
    """The prefork pool, which restarts the whole worker in place after a process was killed.

    Some brokers, such as the queue in our database, are not read in an event loop. Then the
    processes take their tasks from one pipe under one lock, and an idle process holds the lock
    while it waits. If the kernel kills it for lack of memory, the others wait forever. A restart
    loses nothing: the tasks in progress roll back, and beat asks for them again.
    """

    def on_start(self) -> None:
        super().on_start()
        shares_a_lock = self.options.get("threads", True)
        if shares_a_lock:
            restart = partial(restart_worker_if_killed, parent_death_signal())
            self._pool.on_process_down = restart  # type: ignore[attr-defined]


def restart_worker_if_killed(parent_signal: int, process: Any) -> None:
    """Replace this worker by one with the same command line, unless it is stopping.

    The new one gets *parent_signal* when its parent dies, too. Linux keeps that setting for each
    thread, and it is not the main thread that watches the pool and replaces the worker.
    """
    is_stopping = state.should_stop is not None or state.should_terminate is not None
    if process.exitcode in (EX_OK, EX_RECYCLE) or is_stopping:
        return
    logger.warning("A process of the pool was killed; the worker restarts.")
    for handler in logging.getLogger().handlers:
        handler.flush()
    # The exec closes the parent death pipe, so the other processes end.
    exit_with_parent(parent_signal)()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
