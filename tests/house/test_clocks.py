"""The domain takes the clock as an argument: it never asks for the current time."""

import ast
from pathlib import Path

from django.conf import settings

from tests.cases import each

ROOT: Path = settings.BASE_DIR
DOMAIN = (
    "core/database",
    "core/jobs",
    "engagement",
    "exports/stores",
    "ingestion/bulk",
    "ingestion/doors",
    "ingestion/drain",
    "ingestion/inbox",
    "ingestion/log",
    "marketplace/licenses",
    "marketplace/runs",
    "marketplace/source",
    "marketplace/status",
    "notifications/delivery",
    "notifications/watching",
)
CLOCKS = {"localdate", "localtime", "now", "today", "utcnow"}
# Where the clock comes in.
EDGES = {
    "engagement/apps.py": "registers what runs at a signal",
    "engagement/tasks.py": "tasks of the background",
    "ingestion/inbox/group_commit.py": "a thread of its own, which nobody calls",
    "marketplace/runs/timetable.py": "writes the row of the schedule after a migration",
}


def clock_calls(source: str) -> list[int]:
    """The lines that ask a module or a class for the current time."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLOCKS
        and isinstance(node.func.value, ast.Name)
    ]


@each("folder", DOMAIN)
def test_the_domain_never_asks_for_the_current_time(folder: str) -> None:
    files = {str(path.relative_to(ROOT)): path for path in (ROOT / folder).rglob("*.py")}
    assert files
    assert {
        name: lines
        for name, path in files.items()
        if name not in EDGES and "migrations" not in path.parts
        if (lines := clock_calls(path.read_text("utf-8")))
    } == {}


def test_a_call_is_found_and_a_clock_that_is_passed_on_is_not() -> None:
    assert clock_calls("run(timezone.now)\nat = clock()\nlate = timezone.now()\n") == [3]
    assert clock_calls("day = date.today() - timedelta(days=1)\n") == [1]


def test_every_edge_still_asks() -> None:
    assert [name for name in EDGES if not clock_calls((ROOT / name).read_text("utf-8"))] == []
