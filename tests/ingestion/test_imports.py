"""Accepting a message does not load the scoring engine."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENTRANCES = [
    "ingestion.views",
    *(
        f"ingestion.{room}.{path.stem}"
        for room in ("doors", "inbox")
        for path in sorted((ROOT / "ingestion" / room).glob("*.py"))
        if path.stem != "__init__"
    ),
]
FORBIDDEN = ("engagement.tasks", "engagement.scores", "engagement.rescoring", "ingestion.tasks")


def source_of(module: str) -> Path | None:
    """The module's file, or None where it is not the project's."""
    path = ROOT.joinpath(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((candidate for candidate in candidates if candidate.exists()), None)


def imported_by(module: str, path: Path) -> Iterator[str]:
    """The modules that this one names in its imports, those inside functions included."""
    # Importing a module imports its packages first.
    yield from (module[:end] for end, letter in enumerate(module) if letter == ".")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def reachable_from(entrance: str) -> set[str]:
    reached: set[str] = set()
    waiting = [entrance]
    while waiting:
        module = waiting.pop()
        path = source_of(module)
        if path is not None and module not in reached:
            reached.add(module)
            waiting += imported_by(module, path)
    return reached


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_accepting_a_message_imports_no_scoring(entrance: str) -> None:
    reached = reachable_from(entrance)
    assert entrance in reached
    assert [module for module in sorted(reached) if module.startswith(FORBIDDEN)] == []


def test_the_worker_does_import_scoring() -> None:
    """The walk finds what is there."""
    assert {"engagement.tasks", "engagement.rescoring.rescore"} <= reachable_from("ingestion.tasks")
