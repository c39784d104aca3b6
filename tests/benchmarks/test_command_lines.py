"""Each benchmark and each proof can be imported and knows its own options."""

import argparse
from importlib import import_module

import pytest
from django.conf import settings

# Those that measure by a command line of their own; the others are what these are made of.
COMMANDS = sorted(
    f"{package}.{path.stem}"
    for package in ("benchmarks", "proofs")
    for path in (settings.BASE_DIR / package).glob("*.py")
    if "\ndef arguments(" in path.read_text()
)


def test_there_are_benchmarks() -> None:
    assert {"proofs.durability", "proofs.upgrade", "benchmarks.accept"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_benchmark_has_a_command_line_and_all_it_needs(command: str) -> None:
    module = import_module(command)
    parser = argparse.ArgumentParser()
    module.arguments(parser)
    parser.parse_args([])
    assert "usage:" in parser.format_help()
    assert all(callable(getattr(module, part)) for part in ("measure", "show", "faults"))
