"""The command line that all benchmarks and proofs have."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from django.core.management.base import CommandError

from harness.processes import Failed
from harness.report import Report, Result, Table, display, finish


def run_command(
    name: str,
    description: str | None,
    arguments: Callable[[argparse.ArgumentParser], None],
    measure: Callable[[argparse.Namespace], Report],
    missed_is_wrong: bool = False,
) -> None:
    """Measure, show, and save. Exit with status 1 if a result is wrong. Slow is not wrong, but to
    miss a bar that does not depend on the machine is."""
    parser = argparse.ArgumentParser(f"python -m {name}", description=description)
    arguments(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE")
    options = parser.parse_args()
    parts: list[Result | Table] = []
    try:
        for part in measure(options):
            parts.append(part)
    except (Failed, CommandError) as error:
        # What was measured until then is not lost.
        finish(parts, name, None)
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    finish(parts, name, options.json)
    errors = [
        f"error: {part.name}: {display(part.value)}. It must be {part.limit.removeprefix('= ')}."
        for part in parts
        if isinstance(part, Result)
        and (part.is_wrong or (missed_is_wrong and part.verdict == "MISSED"))
    ]
    if errors:
        sys.exit("\n".join(errors))
