"""A pytest plugin that gives a test run a PostgreSQL of its own, in a folder that goes with it.

It is loaded with ``-p`` before Django's settings are, because they read the folder's place from
the environment.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg
import pytest

from config.local.postgres import ROLE, SUPERUSER, EmbeddedPostgres, stop_process

FOLDER = Path(tempfile.mkdtemp(prefix="eds-tests-"))
# The folder of the process that hands out the tests. It outlives those that run them.
SHARED_FOLDER = Path(os.environ.setdefault("TESTS_SHARED_FOLDER", str(FOLDER)))
# The tests' own: nothing of the service that may be set up in this shell leaks into them.
for name in [name for name in os.environ if name.startswith("EDS_")]:
    del os.environ[name]
os.environ.pop("DATABASE_URL", None)
# Wake-ups stay in this process; nobody acts on them.
os.environ["CELERY_BROKER_URL"] = "memory://localhost"
os.environ["EDS_DATA_DIR"] = str(FOLDER)

# What a test commits need not outlive a power cut.
FAST = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}

postgres: "subprocess.Popen[bytes] | None" = None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    global postgres
    # The wheel's root user must be able to reach the folder.
    FOLDER.chmod(0o711)
    server = EmbeddedPostgres(FOLDER / "postgres", FAST)
    server.initialise()
    if session.config.getoption("dist") != "no":
        # This process only hands tests to others. They find that the user is there whom the wheel
        # makes on its first use by root: two at once could not.
        return
    with (FOLDER / "postgres.log").open("ab") as log:
        postgres = server.popen(log.fileno())
    server.wait_until_ready(postgres)
    with superuser(server) as connection:
        # Django makes the tests' database, and some tests make others.
        connection.execute(f"ALTER ROLE {ROLE} CREATEDB")
        # Tables are emptied in any order.
        connection.execute(f"GRANT SET ON PARAMETER session_replication_role TO {ROLE}")


def superuser(server: EmbeddedPostgres, database: str = "postgres") -> psycopg.Connection[Any]:
    """A connection that may do what the service's own role may not."""
    return psycopg.connect(
        host=str(server.socket_dir), user=SUPERUSER, dbname=database, autocommit=True
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    if postgres is not None:
        stop_process(postgres, signal.SIGINT, timeout=30)
    shutil.rmtree(FOLDER, ignore_errors=True)
