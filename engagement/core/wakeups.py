"""Asks the workers for a task.

The message carries no data. A lost one costs some seconds, until beat asks again; a repeated one
finds nothing to do.
"""

import logging
from typing import Any

from celery import Signature, Task

logger = logging.getLogger(__name__)

_broker_is_away = False


def enqueue(
    task: "Task[Any, Any] | Signature[Any]", expires: float, countdown: float = 0.0
) -> bool:
    """Have the task run soon, not before *countdown* seconds and not after *expires*; whether the
    broker took the message. It never raises, and says once that the broker is away."""
    global _broker_is_away
    try:
        task.apply_async(expires=expires, countdown=countdown, retry=False)
    except Exception as error:
        # Each transport raises errors of its own, and none is worth a request or a batch.
        if not _broker_is_away:
            logger.warning(
                "The broker takes no wake-ups (%s); beat asks for what is to be done.",
                type(error).__name__,
            )
        _broker_is_away = True
        return False
    if _broker_is_away:
        logger.info("The broker takes wake-ups again.")
    _broker_is_away = False
    return True
