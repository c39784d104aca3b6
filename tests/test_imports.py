"""Imports point one way: ingestion → engagement ← readapi, marketplace → engagement."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = {"engagement", "ingestion", "readapi", "marketplace"}
ALLOWED = {
    "engagement": set(),
    "ingestion": {"engagement"},
    "readapi": {"engagement"},
    "marketplace": {"engagement"},
    # It wires everybody together: addresses, commands, the first start.
    "config": APPS,
}


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and top-level package of each import in the file, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            yield node.lineno, (node.module or "").split(".")[0]


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_its_arrows_allow(package: str) -> None:
    forbidden = (APPS | {"config", "tests", "benchmarks"}) - ALLOWED[package] - {package}
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in (ROOT / package).rglob("*.py")
        for line, name in imported(path)
        if name in forbidden
    ]
    assert found == []


def test_every_package_at_the_top_is_known() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(ALLOWED) | {"tests", "benchmarks"}
