"""A pytest plugin that runs all tests in three processes, each with a PostgreSQL of its own.

A part of the tests runs in one, which starts sooner, as everything does with ``-n 0``.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

# Browsers give up what they are loading when the machine's network changes, which a test does that
# cuts machines off. And all clients send to one service.
CLIENTS = "tests/clients/"
ONE_AFTER_ANOTHER = (CLIENTS, "tests/browser/", "tests/config/test_liveness.py")
# The ids that a document shows are those of a new service, which other tests use later.
FIRST = "tests/clients/test_walk.py"
# Three on two cores, because tests that start services mostly wait for them.
PROCESSES = 3
# Files that take long, mostly waiting. The last to run should be short.
LONG = (
    "tests/proofs/",
    "tests/start/test_database_comes_later.py",
    "tests/start/test_demo.py",
    "tests/start/test_up.py",
)


class ByFile(LoadFileScheduling):
    """A process runs the tests of a whole file; one of them, those that come one after another."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(ONE_AFTER_ANOTHER):
            return "one after another"
        return super()._split_scope(nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return PROCESSES if config.args_source is pytest.Config.ArgsSource.TESTPATHS else 0


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What one process has to do alone comes first, while there is enough for the others."""

    def rank(item: pytest.Item) -> int:
        ranks: list[str | tuple[str, ...]] = [FIRST, CLIENTS, ONE_AFTER_ANOTHER, LONG, ""]
        return next(place for place, names in enumerate(ranks) if item.nodeid.startswith(names))

    if hasattr(config, "workerinput"):
        items.sort(key=rank)
    else:
        items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    return ByFile(config, log)
