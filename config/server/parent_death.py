"""Ends child processes when their parent dies, even by SIGKILL."""

import ctypes
import os
import sys
import threading
from collections.abc import Callable

PR_SET_PDEATHSIG, PR_GET_PDEATHSIG = 1, 2


def exit_with_parent(signal_number: int) -> Callable[[], None]:
    """Return a ``preexec_fn`` that has Linux signal the child when its parent dies.

    Without it a supervisor killed with SIGKILL would leave its children running. For Linux the
    parent is the *thread* that started the child, so start such children from the main thread. On
    other systems this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    # Load it before the fork. Afterwards only async-signal-safe calls are allowed.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, signal_number)


def parent_death_signal() -> int:
    """Return the signal that this thread's process gets when its parent dies, or 0 for none."""
    if not sys.platform.startswith("linux"):
        return 0
    number = ctypes.c_int()
    ctypes.CDLL(None).prctl(PR_GET_PDEATHSIG, ctypes.byref(number))
    return number.value


class ParentDeathPipe:
    """A pipe whose writing end only the parent holds, so that its end shows the parent's death.

    It is for children that a library forks in a thread, where the signal above would already come
    at the end of that thread. Create it in the parent before the fork.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._reader, self._writer = os.pipe()

    def exit_with_parent(self) -> None:
        """End this process as soon as its parent ends. Call it once in each forked child.

        It does nothing in the parent itself, where a pool without processes calls it.
        """
        if os.getpid() == self._owner:
            return
        os.close(self._writer)
        threading.Thread(target=self._watch, name="parent death", daemon=True).start()

    def _watch(self) -> None:
        os.read(self._reader, 1)
        os._exit(1)
