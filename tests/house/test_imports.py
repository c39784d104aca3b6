"""Imports point one way, between apps and between the rooms inside each app, and the house stays
small: floors, arrows, the functions on a message's way, and all lines have upper bounds."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
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
    "destinations",
    "outcomes",
    "trends",
}
_BELOW = {"core", "engagement", "access", "outcomes", "trends"}
ALLOWED = {
    "core": set(),
    "engagement": {"core"},
    "access": {"core", "engagement"},
    "outcomes": {"core", "engagement", "access"},
    "trends": {"core", "engagement", "access", "outcomes"},
    "ingestion": _BELOW,
    "readapi": _BELOW,
    "marketplace": _BELOW,
    "notifications": _BELOW,
    "exports": _BELOW,
    "destinations": _BELOW,
    "console": APPS - {"console"},
    # It wires everybody together: addresses, commands, the first start.
    "config": APPS,
}
# Upper bounds, so that features cannot spend them unseen: floors and arrows of each package. Raise
# one only together with the reason, in docs/decisions/house.md; lower it when you take rooms away.
BOUNDS = {
    "core": (3, 13),
    "engagement": (9, 89),
    "access": (5, 15),
    "outcomes": (6, 34),
    "trends": (3, 9),
    "ingestion": (6, 62),
    "readapi": (8, 72),
    "marketplace": (6, 35),
    "notifications": (8, 42),
    "exports": (6, 30),
    "destinations": (5, 25),
    "console": (5, 13),
    "config": (6, 45),
}
# The packages that docs/architecture.md draws, and what it leaves out of each: Django looks for
# these by name, and rooms of the package import none of them.
DRAWN = [
    "core",
    "engagement",
    "access",
    "outcomes",
    "trends",
    "ingestion",
    "marketplace",
    "console",
    "config",
]
UNDRAWN = {"__init__", "apps", "management", "templatetags", "wsgi"}
# What trends and forms may cost is in it; it goes down when they are complete.
PRODUCT_LINES = 105_680
# What a message runs through from the request to its score.
HOT_PATH = (
    "ingestion/doors",
    "ingestion/inbox",
    "ingestion/drain",
    "engagement/recording",
    "engagement/rescoring",
)
HOT_PATH_LINES = 45
# What runs the service from outside. Benchmarks and proofs share the harness and nothing else.
OUTSIDE = {"tests", "benchmarks", "proofs", "harness"}
# The one import of what is outside: `up --demo` asks for its data.
DEMO = ("config/local/preparation.py", "harness.demo.start")


def imports_in(source: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import, those inside functions included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno} imports relatively"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


@cache  # Several tests read each file, and parsing takes a while.
def imports_of(source: str) -> list[tuple[int, str]]:
    return list(imports_in(source))


def imports(path: Path) -> list[tuple[int, str]]:
    """Line and dotted name of each import in the file."""
    return imports_of(path.read_text())


def sources(folder: Path) -> list[Path]:
    """The folder's modules, without migrations."""
    return [path for path in folder.rglob("*.py") if "migrations" not in path.parts]


def imported_rooms(package: str, root: Path = ROOT) -> dict[str, set[str]]:
    """The rooms (folders and modules at the first level) that each room of the package imports."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for path in sources(root / package):
        room = path.relative_to(root / package).parts[0].removesuffix(".py")
        names = [name.split(".") for _, name in imports(path)]
        rooms[room] |= {name[1] for name in names if name[0] == package} - {room}
    return rooms


def floors(rooms: Mapping[str, set[str]]) -> int:
    """How many rooms the longest chain of imports has."""

    @cache
    def floor(room: str) -> int:
        return 1 + max(map(floor, rooms.get(room, ())), default=0)

    return max(map(floor, rooms))


def arrows(rooms: Mapping[str, set[str]]) -> int:
    """How many pairs of rooms there are of which one imports the other."""
    return sum(map(len, rooms.values()))


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def lines_of(source: str) -> Iterator[tuple[str, int]]:
    """Name and lines of each function, its signature and docstring included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_its_arrows_allow(package: str) -> None:
    forbidden = (APPS | {"config"} | OUTSIDE) - ALLOWED[package] - {package}
    violations = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in (ROOT / package).rglob("*.py")
        for line, name in imports(path)
        if name.split(".")[0] in forbidden and (str(path.relative_to(ROOT)), name) != DEMO
    ]
    assert violations == []


def test_the_product_asks_for_the_demo_in_one_place() -> None:
    path, name = DEMO
    assert [imported for _, imported in imports(ROOT / path)].count(name) == 1


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
                str(name.value).partition(".")[0] not in ALLOWED.keys() | OUTSIDE
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


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_keeps_its_floors_and_arrows(package: str) -> None:
    rooms = imported_rooms(package)
    most_floors, most_arrows = BOUNDS[package]
    assert floors(rooms) <= most_floors
    assert arrows(rooms) <= most_arrows


def test_one_more_import_counts_as_an_arrow_and_a_floor(tmp_path: Path) -> None:
    house = {
        "models/users.py": "import json\n",
        "scores/raw.py": "from house.models.users import User\nfrom house.scores import sums\n",
        "scores/sums.py": "",
        "tasks.py": "def rescore():\n    import house.models\n",
        "migrations/0001_initial.py": "import house.tasks\n",
    }
    for path, text in house.items():
        file = tmp_path / "house" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    rooms = imported_rooms("house", tmp_path)
    assert (floors(rooms), arrows(rooms)) == (2, 2)
    with (tmp_path / "house" / "tasks.py").open("a") as tasks:
        tasks.write("from house.scores import raw\n")
    rooms = imported_rooms("house", tmp_path)
    assert (floors(rooms), arrows(rooms)) == (3, 3)


def test_no_function_on_a_messages_way_is_long() -> None:
    too_long = {
        f"{path.relative_to(ROOT)}:{name}": length
        for folder in HOT_PATH
        for path in sources(ROOT / folder)
        for name, length in lines_of(path.read_text())
        if length > HOT_PATH_LINES
    }
    assert too_long == {}


def test_a_functions_lines_are_counted_from_its_signature_to_its_end() -> None:
    source = (
        "@cache\ndef outer(\n    row,\n):\n    def inner():\n        return 1\n\n    return 2\n"
    )
    assert dict(lines_of(source)) == {"outer": 7, "inner": 2}


def test_the_product_keeps_within_its_lines() -> None:
    files = [path for package in ALLOWED for path in sources(ROOT / package)]
    assert sum(map(lines, files)) <= PRODUCT_LINES


def drawn_rooms(package: str) -> list[list[str]]:
    """The lines of the drawing in docs/architecture.md."""
    _, _, drawing = (ROOT / "docs" / "architecture.md").read_text().partition(f"\n{package}\n  ")
    return [line.split() for line in re.split(r"\n\n|\n```", drawing)[0].splitlines()]


@each("package", DRAWN)
def test_the_drawn_rooms_import_from_the_lines_above_alone(package: str) -> None:
    rooms = imported_rooms(package)
    drawing = drawn_rooms(package)
    drawn = {room for row in drawing for room in row}
    assert drawn == set(rooms) - UNDRAWN
    above: set[str] = set()
    for row in drawing:
        for room in row:
            assert rooms[room] & drawn <= above, room
        above |= set(row)


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
