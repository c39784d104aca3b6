"""What the command lines of benchmarks and proofs have in common."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from harness import report
from harness.service import Failed

Figures = dict[str, Any]


def run_command(
    name: str,
    description: str | None,
    arguments: Callable[[argparse.ArgumentParser], None],
    measure: Callable[[argparse.Namespace], Figures],
    show: Callable[[Figures], None],
    faults: Callable[[Figures], list[str]],
) -> None:
    """Measure, show and save. Exit status 1 where something was wrong; slow is not wrong."""
    parser = argparse.ArgumentParser(f"python -m {name}", description=description)
    arguments(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    try:
        figures = measure(options)
    except (Failed, CommandError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    show(figures)
    report.save(options.json, name, figures)
    if found := faults(figures):
        sys.exit("\n".join(f"error: {fault}" for fault in found))
