"""What a run reports: progress while it runs, and at the end results, their bars, and tables."""

import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

_started = time.monotonic()


@dataclass(frozen=True)
class Result:
    """A figure, and what it is judged by.

    *at_least* and *at_most* are bars of speed. To miss one is no fault, because machines differ.
    *must_be* is the only right value, however fast the machine is.
    """

    name: str
    value: float | str
    at_least: float | None = None
    at_most: float | None = None
    must_be: float | str | None = None
    rounds: Sequence[float] = ()

    @property
    def is_wrong(self) -> bool:
        return self.must_be is not None and self.value != self.must_be

    @property
    def limit(self) -> str:
        limits = {"≥": self.at_least, "≤": self.at_most, "=": self.must_be}
        return next((f"{sign} {shown(bar)}" for sign, bar in limits.items() if bar is not None), "")

    @property
    def ratio(self) -> float | None:
        """How much better than its bar the result is: met from 1 upwards. None for no ratio."""
        if isinstance(self.value, str) or self.value <= 0:
            return None
        if self.at_least is not None:
            return self.value / self.at_least
        return self.at_most / self.value if self.at_most else None

    @property
    def verdict(self) -> str:
        if self.is_wrong:
            return "WRONG"
        if self.at_least is None and self.at_most is None:
            return ""
        value = float(self.value)
        is_below = self.at_least is not None and value < self.at_least
        is_above = self.at_most is not None and value > self.at_most
        return "MISSED" if is_below or is_above else "met"

    def as_row(self) -> dict[str, Any]:
        rounds = " … ".join(map(shown, spread(self.rounds))) if self.rounds else ""
        row = {"": self.name, "result": self.value, "bar": self.limit, "times the bar": self.ratio}
        return {**row, "verdict": self.verdict, "by round": rounds}


@dataclass(frozen=True)
class Table:
    """Rows that have the same columns."""

    name: str
    rows: Sequence[Mapping[str, Any]]

    def __str__(self) -> str:
        heads = list(self.rows[0]) if self.rows else []
        cells = [heads, *([shown(row[head]) for head in heads] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join([f"\n{self.name}", *(_line(row, widths) for row in cells)])


# What a command yields while it measures.
Report: TypeAlias = Iterator[Result | Table]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    """The first column to the left, figures to the right."""
    cells = zip(row, widths, strict=True)
    return "  ".join(
        cell.rjust(width) if place else cell.ljust(width)
        for place, (cell, width) in enumerate(cells)
    ).rstrip()


def shown(value: Any) -> str:
    match value:
        case None:
            return ""
        case float():
            return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"
        case int():
            return f"{value:,}"
        case dict():
            return ", ".join(f"{key}: {shown(item)}" for key, item in value.items())
        case list() | tuple():
            return ", ".join(map(shown, value))
    return str(value)


def spread(values: Sequence[float]) -> list[float]:
    """Lowest, median, and highest, for figures of several rounds."""
    return [min(values), median(values), max(values)]


def progress(text: str) -> None:
    """Print a line about what happens, with the seconds since the start, on standard error."""
    print(f"{time.monotonic() - _started:6.1f} s  {text}", file=sys.stderr, flush=True)


def finish(parts: Sequence[Result | Table], command: str, path: Path | None) -> None:
    """Print everything, and write it to the file, with the machine it was measured on."""
    tables = [part for part in parts if isinstance(part, Table)]
    results = [part for part in parts if isinstance(part, Result)]
    rows = [result.as_row() for result in results]
    # Columns that nothing is in are not shown.
    heads = [head for head in (rows[0] if rows else ()) if any(row[head] for row in rows)]
    short = [{head: row[head] for head in heads} for row in rows]
    for table in [*tables, *([Table(f"python -m {command}", short)] if rows else [])]:
        print(table)
    if path is not None:
        machine = {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "load_average": os.getloadavg()[0],
        }
        content = {
            "command": command,
            "machine": machine,
            "results": {result.name: result.value for result in results},
            "rows": rows,
            "tables": {table.name: table.rows for table in tables},
        }
        path.write_text(json.dumps(content, indent=2) + "\n")
        progress(f"The results are in {path}.")
