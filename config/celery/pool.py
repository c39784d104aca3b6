"""Celery's pool of processes, made to survive the sudden death of one of them."""

import logging
import os
import sys
from typing import Any

from billiard.pool import EX_OK, EX_RECYCLE
from celery.concurrency import prefork
from celery.worker import state

logger = logging.getLogger(__name__)


class Pool(prefork.TaskPool):
    """The prefork pool. Where a process was killed, the whole worker starts anew, in place.

    With a broker that Celery does not read in an event loop, the queue in our database among
    them, the processes take their tasks from one pipe under one lock, and an idle one holds the
    lock while it waits. Killed then, for example by the kernel short of memory, it leaves the
    others waiting for ever. Nothing is lost by starting anew: whatever was under way rolls back,
    and beat asks for it again.
    """

    def on_start(self) -> None:
        super().on_start()
        shares_a_lock = self.options.get("threads", True)
        if shares_a_lock:
            self._pool.on_process_down = restart_worker_if_killed  # type: ignore[attr-defined]


def restart_worker_if_killed(process: Any) -> None:
    """Replace this worker by a new one with the same command line, unless it is stopping."""
    is_stopping = state.should_stop is not None or state.should_terminate is not None
    if process.exitcode in (EX_OK, EX_RECYCLE) or is_stopping:
        return
    logger.warning("A process of the pool was killed; the worker starts anew.")
    for handler in logging.getLogger().handlers:
        handler.flush()
    # The other processes end with it: what they hold of this one is closed by the exec.
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
