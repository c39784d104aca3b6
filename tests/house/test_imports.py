"""Imports point one way: between apps (each of the others imports engagement, and nothing else)
and between the rooms inside each app."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.cases import each

ROOT = Path(__file__).resolve().parents[2]
APPS = {
    "core",
    "access",
    "console",
    "engagement",
    "ingestion",
    "readapi",
    "marketplace",
    "notifications",
    "exports",
}
_BELOW = {"core", "engagement", "access"}
ALLOWED = {
    "core": set(),
    "engagement": {"core"},
    "access": {"core", "engagement"},
    "ingestion": _BELOW,
    "readapi": _BELOW,
    "marketplace": _BELOW,
    "notifications": _BELOW,
    "exports": _BELOW,
    "console": APPS - {"console"},
    # It wires everybody together: addresses, commands, the first start.
    "config": APPS,
}
# What runs the service from outside. Benchmarks and proofs share the harness and nothing else.
OUTSIDE = {"tests", "benchmarks", "proofs", "harness"}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import in the file, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def imported_rooms(package: str) -> dict[str, set[str]]:
    """The rooms (folders and modules at the first level) that each room of the package imports."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / package).rglob("*.py"):
        room = path.relative_to(ROOT / package).parts[0].removesuffix(".py")
        names = [name.split(".") for _, name in imports(path)]
        rooms[room] |= {name[1] for name in names if name[0] == package} - {room}
    return rooms


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_its_arrows_allow(package: str) -> None:
    forbidden = (APPS | {"config"} | OUTSIDE) - ALLOWED[package] - {package}
    violations = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in (ROOT / package).rglob("*.py")
        for line, name in imports(path)
        if name.split(".")[0] in forbidden
    ]
    assert violations == []


# Besides the apps' own apps.py, which may import models only when they are ready. What the first
# names is a setting, and of the others what is found; the last two load something slow meanwhile.
LATE_IMPORTS = {
    "config/wsgi.py": "settings.ROOT_URLCONF",
    "config/database/pending_migrations.py": "str(module)",
    "config/database/snapshot.py": "str(module)",
    "config/local/service.py": "'config.local.preparation'",
    "readapi/mcp/loading.py": "_MODULE",
}


def late_imports(path: Path) -> Iterator[str]:
    """What the file imports by ``import_module()``, except packages that are not ours."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = node.args[0]
            of_others = isinstance(name, ast.Constant) and (
                str(name.value).partition(".")[0] not in ALLOWED
            )
            if not of_others:
                yield ast.unparse(name)


def test_modules_are_imported_by_a_string_in_few_places() -> None:
    """Such an import is an arrow that the other tests do not see."""
    by_file = {
        str(path.relative_to(ROOT)): name
        for package in ALLOWED
        for path in (ROOT / package).rglob("*.py")
        if path.name != "apps.py"
        for name in late_imports(path)
    }
    assert by_file == LATE_IMPORTS


@each("package", [*ALLOWED, "benchmarks", "proofs", "harness"])
def test_the_rooms_of_a_package_form_no_import_circle(package: str) -> None:
    rooms = imported_rooms(package)
    assert rooms
    try:
        TopologicalSorter(rooms).prepare()
    except CycleError as error:
        pytest.fail(f"Import circle in {package}: {' ← '.join(error.args[1])}")


def drawn_rooms(package: str) -> list[list[str]]:
    """The lines of the drawing in docs/architecture.md."""
    _, _, drawing = (ROOT / "docs" / "architecture.md").read_text().partition(f"\n{package}\n  ")
    return [line.split() for line in re.split(r"\n\n|\n```", drawing)[0].splitlines()]


@each("package", ["engagement", "ingestion"])
def test_the_drawn_rooms_import_from_the_lines_above_alone(package: str) -> None:
    rooms = imported_rooms(package)
    lines = drawn_rooms(package)
    assert lines
    above: set[str] = set()
    for line in lines:
        for room in line:
            assert rooms[room] & {name for row in lines for name in row} <= above, room
        above |= set(line)


@pytest.mark.parametrize("package", ["benchmarks", "proofs", "harness"])
def test_benchmarks_and_proofs_share_the_harness_and_nothing_else(package: str) -> None:
    forbidden = OUTSIDE - {package, "harness"}
    violations = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in (ROOT / package).rglob("*.py")
        for line, name in imports(path)
        if name.split(".")[0] in forbidden
    ]
    assert violations == []


def test_every_package_at_the_top_is_known() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(ALLOWED) | OUTSIDE
