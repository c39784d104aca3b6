"""Each benchmark and each proof can be imported and knows its own options."""

import argparse
import inspect
from importlib import import_module

import pytest
from django.conf import settings

# The modules that are commands; the others are what these are made of.
COMMANDS = sorted(
    f"{package}.{path.stem}"
    for package in ("benchmarks", "proofs")
    for path in (settings.BASE_DIR / package).glob("*.py")
    if "\ndef arguments(" in (text := path.read_text()) and "run_command(" in text
)


def test_there_are_benchmarks_and_proofs() -> None:
    assert {"proofs.durability", "proofs.upgrade", "benchmarks.accept"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_options_and_what_it_measures(command: str) -> None:
    module = import_module(command)
    parser = argparse.ArgumentParser()
    module.arguments(parser)
    parser.parse_args([])
    assert "usage:" in parser.format_help()
    assert inspect.isgeneratorfunction(module.measure)
