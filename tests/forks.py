"""Processes of their own for what tests kill, or what may kill its worker."""

import os
from collections.abc import Callable

from django.db import connection


def fork(task: Callable[[], object]) -> int:
    """Start a process of its own for the task; its id."""
    # Each process opens a connection of its own.
    connection.close()
    child = os.fork()
    if not child:
        try:
            task()
        finally:
            os._exit(0)
    return child


def survives(task: Callable[[], object]) -> bool:
    """Whether a process of its own lives until the task is done."""
    return os.waitstatus_to_exitcode(os.waitpid(fork(task), 0)[1]) == 0
