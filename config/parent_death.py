"""Children that do not outlive their parent, however it dies."""

import ctypes
import os
import sys
import threading
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def exit_with_parent(signal_number: int) -> Callable[[], None]:
    """A ``preexec_fn``: Linux sends the child this signal when its parent dies, however it dies.

    Without it a supervisor killed with SIGKILL would leave its children running. Linux counts the
    *thread* that started the child as the parent, so start such children from the main thread.
    Elsewhere this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    # Loaded before the fork: afterwards only async-signal-safe work is allowed.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, signal_number)


class ParentDeathPipe:
    """A pipe whose writing end only the parent holds: when it closes, the parent is gone.

    For children that a library forks in a thread of its own, where the signal above would come
    when that thread ends. Make one in the parent before it forks.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._reader, self._writer = os.pipe()

    def hold(self) -> None:
        """Call once in each forked child: it ends at once when the parent does.

        In the parent itself, where a pool has no processes of its own, it does nothing.
        """
        if os.getpid() == self._owner:
            return
        os.close(self._writer)
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def _watch(self) -> None:
        os.read(self._reader, 1)
        os._exit(1)
