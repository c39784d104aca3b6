"""Requests a task from the workers.

The message carries no data. If it is lost, beat requests the task some seconds later; if it is
repeated, the task finds nothing to do.
"""

import logging
from typing import Any

from celery import Signature, Task

logger = logging.getLogger(__name__)

_broker_is_away = False


def enqueue(
    task: "Task[Any, Any] | Signature[Any]", expires: float, countdown: float = 0.0
) -> bool:
    """Request the task, to run after *countdown* and before *expires* seconds. Returns whether the
    broker took the message.

    Never raises. Logs once that the broker is away.
    """
    global _broker_is_away
    try:
        task.apply_async(expires=expires, countdown=countdown, retry=False)
    except Exception as error:
        # Each transport raises its own errors, and none may fail a request or a batch.
        if not _broker_is_away:
            logger.warning(
                "The broker takes no wake-ups (%s); beat requests the tasks.",
                type(error).__name__,
            )
        _broker_is_away = True
        return False
    if _broker_is_away:
        logger.info("The broker takes wake-ups again.")
    _broker_is_away = False
    return True
