"""A running service, and the tools that the clients need besides Python packages.

``tests/clients/run`` installs them, and makes the tests fail if one is missing. Otherwise such
tests are skipped, because all other tests need only Python.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from tests.clients.browsing import Browser
from tests.clients.service import Service
from tests.start.folders import data_folder
from tests.start.running import Up

HERE = Path(__file__).parent
HOW = "run tests/clients/run once, which installs it"


def need(found: object, what: str) -> None:
    """Without the tool, fail if it is required, or else skip."""
    if not found:
        end = pytest.fail if os.environ.get("CLIENTS") == "required" else pytest.skip
        end(f"{what} is not installed; {HOW}")


@pytest.fixture(scope="package")
def service() -> Iterator[Service]:
    """One for all clients. It ends with their tests: one that is idle takes processor time, too."""
    with data_folder("clients") as folder:
        up = Up(folder)
        try:
            running = Service(up.wait_until_running())
            yield running
            running.close()
        finally:
            if up.process.poll() is None:
                up.end()


@pytest.fixture(scope="session")
def node() -> str:
    """Node.js, with the SDKs of package.json."""
    found = shutil.which("node")
    need(found, "Node.js")
    need((HERE / "node_modules").is_dir(), "what tests/clients/package.json names")
    assert found
    return found


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    need(found, "Chromium")
    assert found
    return found


@pytest.fixture(scope="package")
def browser(node: str, chromium: str) -> Iterator[Browser]:
    """Chromium, for the pages that Node.js bundles."""
    with closing(Browser(chromium)) as browser:
        yield browser


@pytest.fixture
def prefix() -> str:
    """The prefix of a test's ids. All tests share one service."""
    return f"{uuid4().hex[:8]}-"
