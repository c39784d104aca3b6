"""The order in which the processes of a web server start, if `up` starts them.

Loading the application takes a core for more than a second. `up` has the web server load it while
it prepares the database, and ingestion processes before page processes. So data is accepted soon.
Connections wait meanwhile.
"""

import mmap
import select
import time
from collections.abc import Mapping

from config.server import handover

# The variable with the descriptor of a pipe, which ends once the database is prepared.
START_GATE = "START_GATE"
# Seconds for which page processes wait at most until an ingestion process has loaded.
LOADING_TURN = 10.0
# Seconds between two signs of life to the master.
LOOK_INTERVAL = 1.0


class StartOrder:
    """Processes start as soon as they can."""

    def wait_to_load(self, kind: str) -> None:
        """Return when a process of this kind may load the application."""

    def note_loaded(self, kind: str) -> None:
        """Let those load that wait for a process of this kind."""

    def may_serve(self) -> bool:
        """Return whether the database is prepared. Wait for that, but not for long."""
        return True


class GatedOrder(StartOrder):
    """Ingestion processes load first, and all wait for the gate. Create it before forking."""

    def __init__(self, gate: int) -> None:
        self._gate = gate
        # One byte that all processes share: whether an ingestion process has loaded.
        self._is_loaded = mmap.mmap(-1, 1)

    def wait_to_load(self, kind: str) -> None:
        deadline = time.monotonic() + LOADING_TURN
        while kind == handover.PAGES and not self._is_loaded[0] and time.monotonic() < deadline:
            time.sleep(0.02)

    def note_loaded(self, kind: str) -> None:
        if kind == handover.INGESTION:
            self._is_loaded[0] = 1

    def may_serve(self) -> bool:
        return bool(select.select([self._gate], [], [], LOOK_INTERVAL)[0])


def make(variables: Mapping[str, str]) -> StartOrder:
    """Return the order that the variables of the master ask for."""
    return GatedOrder(int(variables[START_GATE])) if START_GATE in variables else StartOrder()
