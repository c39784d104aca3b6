"""A pytest plugin that tells slow tests from all others.

A slow test starts another program (the service, a browser, PgBouncer), or takes seconds by itself.
``pytest`` leaves the slow tests out, and ``pytest -m slow`` runs them. With the name of a file or a
folder, all of its tests run.
"""

import os
import sys
from collections.abc import Generator
from typing import Any

import pytest

# The service as a whole, which the checks try, too.
WHOLE = ("tests/browser/", "tests/start/")
FOLDERS = (*WHOLE, "tests/clients/", "tests/proofs/")
# Half of the examples of properties. A run of all tests, as in the checks, draws all of them.
FEW_EXAMPLES = "0.5"
STARTS = {"os.exec", "os.posix_spawn", "os.system", "subprocess.Popen"}

_running: pytest.Item | None = None


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    sys.addaudithook(_require_slow)
    names_no_folder = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if names_no_folder and not config.option.markexpr:
        config.option.markexpr = "not slow"
        # For the processes that run the tests, too.
        os.environ.setdefault("EXAMPLES", FEW_EXAMPLES)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(FOLDERS):
            item.add_marker(pytest.mark.slow)
        if item.nodeid.startswith(WHOLE):
            item.add_marker(pytest.mark.whole)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    global _running
    _running = item
    try:
        return (yield)
    finally:
        _running = None


def running() -> pytest.Item | None:
    """The test that runs now."""
    return _running


def _require_slow(event: str, arguments: tuple[Any, ...]) -> None:
    """Fail a test that starts a program and is not marked."""
    if event in STARTS and _running is not None and not _running.get_closest_marker("slow"):
        raise AssertionError(
            f"{_running.nodeid} starts {arguments[0]}. Mark the test with pytest.mark.slow."
        )
