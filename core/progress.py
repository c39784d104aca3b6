"""Shows the progress of a command: a bar on a terminal, otherwise a line every few seconds."""

import time
from collections.abc import Callable
from typing import IO

BAR_WIDTH = 30
# Seconds between two updates of the bar, and between two lines without a terminal.
BAR_INTERVAL, LINE_INTERVAL = 0.2, 10.0


class ProgressReporter:
    """Shows how much of *total* is done. Without a total it shows only the note."""

    def __init__(
        self,
        output: IO[str],
        total: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._output = output
        self._total = total
        self._clock = clock
        self._is_terminal = output.isatty()
        self._interval = BAR_INTERVAL if self._is_terminal else LINE_INTERVAL
        self._next_update = clock() + (0 if self._is_terminal else self._interval)
        self._width = 0

    def show(self, count: int, note: str) -> None:
        """Show the share that is done and the *note*, unless the last update was just before."""
        if self._clock() >= self._next_update:
            self._update(count, note)
            self._next_update = self._clock() + self._interval

    def finish(self) -> None:
        """Clear the bar, so that the line is free for other output."""
        if self._width:
            self._output.write("\r" + " " * self._width + "\r")
            self._output.flush()
            self._width = 0

    def _update(self, count: int, note: str) -> None:
        share = min(count / self._total, 1.0) if self._total else None
        if not self._is_terminal:
            self._output.write(f"{share:.0%} done, {note}\n" if share is not None else f"{note}\n")
        else:
            line = note if share is None else f"{_bar(share)} {share:4.0%}  {note}"
            self._output.write("\r" + line.ljust(self._width))
            self._width = len(line)
        self._output.flush()


def _bar(share: float) -> str:
    filled = round(share * BAR_WIDTH)
    return "█" * filled + "░" * (BAR_WIDTH - filled)
