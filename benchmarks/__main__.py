"""Every promise about speed, one command after the other, and one table of what was measured."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness.processes import PROJECT
from harness.report import Table, progress

# The command of each promise, and its options in a small form.
SHORT = ("--rounds=1", "--seconds=2")
SMALL = ("--accounts=10000", "--users=30000", "--days=7")
COMMANDS: dict[str, tuple[str, ...]] = {
    "accept": SHORT,
    "usual_way": SHORT,
    "batch": SHORT,
    "drain": ("--messages=60000",),
    "fairness": ("--messages=20000", "--seconds=3"),
    "mixed": ("--seconds=10",),
    "reading": (*SMALL, "--depth=50", "--rounds=10"),
    "reading_in_bulk": SMALL,
    "rescoring": ("--users=5000", "--counts=100000", "--rounds=1"),
    "backtests": ("--accounts=5000", "--outcomes=300"),
    "foresight": ("--accounts=5000", "--outcomes=300", "--running=100", "--ahead=600"),
    "nights": ("--accounts=5000", "--users=15000"),
    "trends": ("--accounts=5000", "--users=15000"),
    "activation": ("--accounts=5000", "--users=15000"),
    "matching": ("--accounts=5000", "--users=15000"),
    "destinations": ("--accounts=5000",),
    "notifications": ("--accounts=5000", "--changed=500", "--subscriptions=3", "--rounds=1"),
    "license_sync": ("--licenses=2000",),
    "license_history": ("--licenses=500",),
    "events": ("--events=2000", "--users=200", "--weeks=2", "--readers=12"),
    "start": ("--rounds=1",),
}


def run(command: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the command in a process of its own: what it does wrong ends only itself. Return its
    results that have a bar."""
    arguments = COMMANDS[command] if options.quick else ()
    if options.keep and command.startswith("reading") and not options.quick:
        arguments = (f"--keep={options.keep}",)
    words = ["-m", f"benchmarks.{command}", *arguments]
    progress(" ".join(["python", *words]))
    with tempfile.TemporaryDirectory(prefix="eds-figures-") as folder:
        file = Path(folder) / "figures.json"
        process = subprocess.run(
            [sys.executable, *words, "--json", str(file)], cwd=PROJECT, check=False
        )
        rows = json.loads(file.read_text())["rows"] if file.exists() else []
    judged = [row for row in rows if row["verdict"] in ("met", "MISSED")]
    if process.returncode:
        judged.append({"": "it failed, see above", "verdict": "FAILED"})
    columns = ("", "result", "bar", "times the bar", "verdict", "by round")
    return [{"promise": command, **{name: row.get(name) for name in columns}} for row in judged]


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=COMMANDS, default=list(COMMANDS), metavar="COMMAND"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a small form: shows that all runs, not how fast"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="keep what the reading benchmarks generate there, for the next time",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    options = parser.parse_args()
    try:
        rows = [row for command in options.only for row in run(command, options)]
    except KeyboardInterrupt:
        sys.exit(130)
    print(Table("promises about speed", rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    sys.exit(any(row["verdict"] == "FAILED" for row in rows))


if __name__ == "__main__":
    main()
