"""What a benchmark prints of its results, and when it fails."""

import argparse
import json
import sys
from pathlib import Path

import pytest

from harness.command import run_command
from harness.report import Report, Result, Table


def ignore(parser: argparse.ArgumentParser) -> None:
    pass


def run(path: Path, *results: Result | Table) -> None:
    def measure(options: argparse.Namespace) -> Report:
        yield from results

    run_command("benchmarks.some", None, ignore, measure)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "results.json"
    monkeypatch.setattr(sys, "argv", ["some", "--json", str(path)])
    return path


def test_a_missed_bar_is_shown_and_is_no_fault(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(
        file,
        Table("rounds", [{"": "ours", "requests/s": 1234.5}, {"": "theirs", "requests/s": 9.0}]),
        Result("messages/s", 900.0, at_least=1000, rounds=[800.0, 900.0, 950.0]),
        Result("seconds", 2.0, at_most=3),
        Result("lost", 0, must_be=0),
    )
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["ours", "1,234"] in lines
    rounds = ["800.00", "…", "900.00", "…", "950.00"]
    assert ["messages/s", "900.00", "≥", "1,000", "0.90", "MISSED", *rounds] in lines
    assert ["seconds", "2.00", "≤", "3", "1.50", "met"] in lines
    assert ["lost", "0", "=", "0"] in lines
    content = json.loads(file.read_text())
    assert content["results"] == {"messages/s": 900.0, "seconds": 2.0, "lost": 0}
    assert content["tables"]["rounds"][1] == {"": "theirs", "requests/s": 9.0}


@pytest.mark.parametrize(("value", "must_be"), [(1, 0), ("running", "succeeded")])
def test_a_wrong_result_is_a_fault(file: Path, value: int | str, must_be: int | str) -> None:
    with pytest.raises(SystemExit) as error:
        run(file, Result("state", value, must_be=must_be), Result("seconds", 1.0))
    assert error.value.code == f"error: state: {value}. It must be {must_be}."
    assert json.loads(file.read_text())["results"]["seconds"] == 1.0
