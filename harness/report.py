"""What a benchmark prints: progress while it runs, figures at the end."""

import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

_started = time.monotonic()


def progress(text: str) -> None:
    """A line about what happens, with the seconds since the start, on standard error."""
    print(f"{time.monotonic() - _started:6.1f} s  {text}", file=sys.stderr, flush=True)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under their heads: the first column to the left, figures to the right."""
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads))]
    return "\n".join(_line(row, widths) for row in (heads, *rows))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        cell.ljust(width) if not place else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join([first, *others])


def verdict(name: str, figure: float, *, at_least: float = 0.0, at_most: float = 0.0) -> str:
    """A line that holds the figure against its bar."""
    good = figure >= at_least if at_least else figure <= at_most
    bar = f"at least {at_least:,g}" if at_least else f"at most {at_most:,g}"
    return f"{name}: {rounded(figure)} ({bar}: {'met' if good else 'MISSED'})"


def rounded(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 1000 else f"{figure:.2f}"


def spread(values: Sequence[float]) -> str:
    """Lowest, median and highest, for figures of several rounds."""
    return f"{min(values):.2f} … {median(values):.2f} … {max(values):.2f}"


def save(path: Path | None, command: str, figures: Mapping[str, Any]) -> None:
    """Write the figures as JSON, with the machine they were taken on."""
    if path is None:
        return
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "load_average": os.getloadavg()[0],
    }
    content = {"benchmark": command, "machine": machine, **figures}
    path.write_text(json.dumps(content, indent=2) + "\n")
    progress(f"The figures are in {path}.")
