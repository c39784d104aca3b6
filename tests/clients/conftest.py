"""A running service, and the tools that the clients need besides Python packages.

``tests/clients/run`` installs them, and makes the tests fail if one is missing. Otherwise such
tests are skipped, because all other tests need only Python.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from harness.marketplace.server import Simulator
from tests.clients.browsing import Browser
from tests.clients.service import Service
from tests.database import service_settings
from tests.start.folders import data_folder
from tests.start.running import Up, manage

LICENSES = 260
HERE = Path(__file__).parent
HOW = "run tests/clients/run once, which installs it"


def need(program: object, what: str) -> None:
    """Without the tool, fail if it is required, or else skip."""
    if not program:
        end = pytest.fail if os.environ.get("CLIENTS") == "required" else pytest.skip
        end(f"{what} is not installed; {HOW}")


@pytest.fixture(scope="package")
def simulator() -> Iterator[Simulator]:
    with Simulator.with_licenses(LICENSES, today=datetime.now(UTC).date()) as served:
        yield served


@pytest.fixture(scope="package")
def up(simulator: Simulator) -> Iterator[Up]:
    """A new service, started at a terminal: one for all clients, because a start is dear.

    It ends with their tests, by Ctrl-C: one that is idle takes processor time, too.
    """
    own_settings = service_settings()
    with data_folder("clients", is_new=bool(own_settings)) as folder:
        started = Up(folder, terminal=True, MARKETPLACE_API_URL=simulator.url, **own_settings)
        try:
            yield started.wait_until_running()
            assert started.end(signal.SIGINT) == 0
        finally:
            if started.process.poll() is None:
                started.end()


@pytest.fixture(scope="package")
def service(up: Up) -> Iterator[Service]:
    """With a read token of its own: the walk uses up what the first one may ask in a minute."""
    make = "from engagement.models import Product; from readapi.models import ApiToken; "
    make += "print(ApiToken.create(Product.objects.get(), 'clients').secret)"
    result = manage(up.data_dir, "shell", "-v", "0", "-c", make, **up.settings_given)
    assert result.returncode == 0, result.stderr
    running = Service(up, result.stdout.strip())
    yield running
    running.close()


@pytest.fixture(scope="session")
def node() -> str:
    """Node.js, with the SDKs of package.json."""
    program = shutil.which("node")
    need(program, "Node.js")
    need((HERE / "node_modules").is_dir(), "what tests/clients/package.json names")
    assert program
    return program


@pytest.fixture(scope="session")
def chromium() -> str:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    need(program, "Chromium")
    assert program
    return program


@pytest.fixture(scope="package")
def browser(node: str, chromium: str) -> Iterator[Browser]:
    """Chromium, for the pages that Node.js bundles."""
    with closing(Browser(chromium)) as browser:
        yield browser


@pytest.fixture
def prefix() -> str:
    """The prefix of a test's ids. All tests share one service."""
    return f"{uuid4().hex[:8]}-"
