"""A test that fails once does not fail the checks, and is named. Failing twice fails them."""

from pathlib import Path

import pytest

from tests import second_run

pytestmark = pytest.mark.slow

# These tests need no database, and other plugins take seconds to import.
PLAINLY = ("-q", "-p", "xdist.plugin")
UNLUCKY = """
from pathlib import Path

def test_unlucky():
    ran = Path(__file__).with_name("ran")
    again = ran.exists()
    ran.touch()
    assert again
"""
WRONG = """
def test_wrong():
    assert False
"""
MANY = """
import pytest

@pytest.mark.parametrize("number", range(21))
def test_many(number):
    assert False
"""


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.mark.parametrize(("content", "status"), [(UNLUCKY, 0), (UNLUCKY + WRONG, 1)])
def test_what_fails_runs_once_more(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: str, status: int
) -> None:
    (tmp_path / "test_it.py").write_text(content)
    assert second_run.run(PLAINLY, tmp_path) == status
    _, _, second_time = capfd.readouterr().out.partition("Passed only at the second time:\n")
    assert second_time.split() == ["test_it.py::test_unlucky"]


def test_after_many_failures_nothing_runs_once_more(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_it.py").write_text(MANY)
    assert second_run.run(PLAINLY, tmp_path) == 1
    assert "once more" not in capfd.readouterr().out
