"""Every package that is installed has its version pinned."""

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from django.conf import settings
from packaging.requirements import Requirement

ROOT = Path(settings.BASE_DIR)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required_by(file: str) -> Iterator[Requirement]:
    """The requirements in the file and in those that it names."""
    for line in (ROOT / file).read_text().splitlines():
        if line.startswith("-r "):
            yield from required_by(line.removeprefix("-r "))
        elif line and not line.startswith(("#", "-c ")):
            yield Requirement(line)


def installed_for(file: str) -> dict[str, str]:
    """The packages of the file and those that they need, as far as they are installed, with their
    versions."""
    versions: dict[str, str] = {}
    waiting = list(required_by(file))
    names = set()
    while waiting:
        requirement = waiting.pop()
        key = (canonical(requirement.name), frozenset(requirement.extras))
        if key in names:
            continue
        names.add(key)
        try:
            installed = distribution(requirement.name)
        except PackageNotFoundError:
            continue
        versions[canonical(requirement.name)] = installed.version
        for need in map(Requirement, installed.requires or []):
            extras = [*requirement.extras, ""]
            if not need.marker or any(need.marker.evaluate({"extra": e}) for e in extras):
                waiting.append(need)
    return versions


def pinned() -> dict[str, str]:
    pins = {canonical(pin.name): str(pin.specifier) for pin in required_by("constraints.txt")}
    assert all(pin.startswith("==") for pin in pins.values())
    return {name: pin.removeprefix("==") for name, pin in pins.items()}


@pytest.mark.parametrize("file", ["", "-parquet", "-backup", "-dev"])
def test_every_installed_package_is_pinned_to_its_version(file: str) -> None:
    installed = installed_for(f"requirements{file}.txt")
    assert {"django", "cryptography", "urllib3"} <= installed.keys() or file in (
        "-parquet",
        "-backup",
    )
    assert installed.items() <= pinned().items()


def test_what_runs_needs_nothing_that_only_tests() -> None:
    only_tests = installed_for("requirements-dev.txt").keys() - installed_for("requirements.txt")
    assert {"pytest", "selenium", "schemathesis", "mypy"} <= only_tests


def test_whoever_installs_gets_the_pins() -> None:
    assert "-c constraints.txt" in (ROOT / "requirements.txt").read_text().splitlines()
    assert "-r requirements.txt" in (ROOT / "requirements-dev.txt").read_text().splitlines()


def test_the_lock_has_the_same_versions_and_a_hash_of_each() -> None:
    entries = re.split(r"\n(?=\w)", (ROOT / "requirements.lock").read_text())[1:]
    locked = {}
    for entry in entries:
        requirement = Requirement(entry.partition("\\")[0].strip())
        assert entry.count("--hash=sha256:") >= 1, requirement
        locked[canonical(requirement.name)] = str(requirement.specifier).removeprefix("==")
    pins = pinned()
    # Other platforms need some more.
    assert {name: pins.get(name, locked[name]) for name in locked} == locked
    assert installed_for("requirements.txt").items() <= locked.items()


def test_each_package_with_a_copyleft_license_is_named() -> None:
    text = (ROOT / "docs" / "packages.md").read_text()
    for name in installed_for("requirements.txt"):
        about = distribution(name).metadata
        license = " ".join(about[key] for key in ("License-Expression", "License") if key in about)
        if re.search(r"GPL|MPL", license):
            assert name in text, f"{name} is under {license}"
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
