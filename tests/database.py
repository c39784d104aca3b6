"""A pytest plugin that gives a test run a PostgreSQL of its own, in a folder that goes with it.

It is loaded with ``-p`` before Django's settings are, because they read the folder's place from
the environment.
"""

import contextlib
import fcntl
import gc
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from config.local.postgres import DATABASE, ROLE, SUPERUSER, EmbeddedPostgres, stop_process
from harness.cluster import BIN_VARIABLE, Cluster, bin_folder
from harness.service import database_url, secrets_of_a_run
from tests import fan_outs, slow

# Compiling the sources would take a third of the time of each process that tests start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

PROJECT = Path(__file__).resolve().parent.parent
FOLDER = Path(tempfile.mkdtemp(prefix="eds-tests-"))
# The folder of the process that hands out the tests. It outlives those that run them.
SHARED_FOLDER = Path(os.environ.setdefault("TESTS_SHARED_FOLDER", str(FOLDER)))
# With the programs of a PostgreSQL that has Citus, the tests run on a cluster of three servers.
CITUS = bin_folder()
needs_citus = pytest.mark.skipif(
    CITUS is None, reason=f"{BIN_VARIABLE} names no folder with a PostgreSQL that has Citus."
)


def one_server_as(reason: str) -> pytest.MarkDecorator:
    """Skip a test on a cluster, for this reason."""
    return pytest.mark.skipif(CITUS is not None, reason=f"On a cluster: {reason}")


one_server = one_server_as("what it looks at is on the nodes.")
# A service that starts a PostgreSQL of its own has one server.
OWN_SERVER = "On a cluster: this test starts one server of its own."
own_server = pytest.mark.skipif(CITUS is not None, reason=OWN_SERVER)
SERVERS = {"up", "initdb", "postgres"}
# The tests' own: nothing of the service that may be set up in this shell leaks into them.
for name in [name for name in os.environ if name.startswith("EDS_")]:
    del os.environ[name]
os.environ.pop("DATABASE_URL", None)
if CITUS:
    # For the processes that run the tests, and for proofs.
    os.environ[BIN_VARIABLE] = str(CITUS)
# Wake-ups stay in this process; nobody acts on them.
os.environ["CELERY_BROKER_URL"] = "memory://localhost"
os.environ["EDS_DATA_DIR"] = str(FOLDER)

# What a test commits need not outlive a power cut.
NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}
FAST = {**NOT_DURABLE, "synchronous_commit": "off"}

# The name that Django gives to the tests' database.
TEST_DATABASE = f"test_{DATABASE}"

postgres: "subprocess.Popen[bytes] | None" = None
cluster: Cluster | None = None

# Looking for garbage took a tenth of the time of collecting the tests, and 6% of running them.
gc.disable()
gc.set_threshold(50_000, 20, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    # The wheel's root user must be able to reach the folder.
    FOLDER.chmod(0o711)
    if session.config.getoption("dist") != "no" and not CITUS:
        # This process only hands tests to others, which collect them meanwhile.
        threading.Thread(target=migrated_cluster, daemon=True).start()


def _skip_own_servers(event: str, arguments: tuple[Any, ...]) -> None:
    """On a cluster, skip a test once it starts a server of its own, or a service that does."""
    if event == "subprocess.Popen" and slow.running():
        _, command, _, environment = arguments
        names = {str(word).rsplit("/", 1)[-1] for word in command[:3]}
        if any(str(word).startswith(f"{FOLDER}/") for word in command):
            # A node of the cluster that a test has ended.
            return
        if names & SERVERS and "DATABASE_URL" not in (environment or os.environ):
            pytest.skip(OWN_SERVER)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    global postgres
    if not session.items or session.config.option.collectonly:
        return
    # What was imported and collected stays: the collector need not look through it again.
    gc.freeze()
    gc.enable()
    if CITUS:
        start_cluster(CITUS)
        sys.addaudithook(_skip_own_servers)
        # Django is set up by now.
        from django.db.backends.signals import connection_created

        connection_created.connect(fan_outs.watch)
        return
    server = EmbeddedPostgres(FOLDER / "postgres", FAST)
    copy_migrated_cluster(server.folder)
    server.initialise()
    postgres = server.start_with_log(FOLDER / "postgres.log")
    allow_tests(server)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """On a cluster, fail a test in which the service asked several nodes."""
    fan_outs.unnamed.clear()
    result = yield
    assert not fan_outs.unnamed, f"On several nodes: {sorted(fan_outs.unnamed)}"
    return result


def start_cluster(programs: Path) -> None:
    """Start three servers. The coordinator is where the one server would be."""
    global cluster
    cluster = Cluster(programs, FOLDER / "postgres", FAST)
    cluster.start()
    cluster.connect_nodes(TEST_DATABASE)
    for server in cluster.servers:
        allow_tests(server)


def service_settings() -> dict[str, str]:
    """The settings of a service on a database of the cluster, which it migrates; else none."""
    if cluster is None:
        return {}
    cluster.connect_nodes()
    return {"DATABASE_URL": database_url(cluster.coordinator.address), **secrets_of_a_run()}


def allow_tests(server: EmbeddedPostgres) -> None:
    """Give the service's role what only tests need."""
    with superuser(server) as connection:
        # Django makes the tests' database, and some tests make others.
        connection.execute(f"ALTER ROLE {ROLE} CREATEDB")
        # Tables are emptied in any order.
        connection.execute(f"GRANT SET ON PARAMETER session_replication_role TO {ROLE}")


def migrated_cluster() -> Path:
    """The files of a PostgreSQL that does not run, with the service's empty tables.

    Creating and migrating it takes about eight seconds of processor time. The first process that
    asks does it, and the others wait. It is kept for later runs, until a migration changes.
    """
    cache = PROJECT / ".pytest_cache" / f"migrated-{_digest_of_migrations()}"
    with (SHARED_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not cache.exists():
            _keep(_migrate(SHARED_FOLDER / "migrated"), cache)
    return cache


def _migrate(folder: Path) -> Path:
    folder.mkdir(mode=0o711)
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    # Services have their queue in the database, and the tests' own is in memory.
    environment = {**os.environ, "EDS_DATA_DIR": str(folder)}
    del environment["CELERY_BROKER_URL"]
    subprocess.run(command, cwd=PROJECT, env=environment, check=True)
    with (folder / "postgres" / "postgresql.conf").open("a") as configuration:
        configuration.write("".join(f"{name} = {value}\n" for name, value in NOT_DURABLE.items()))
    return folder / "postgres"


def _keep(cluster: Path, cache: Path) -> None:
    """Move the files to their place at once, and remove those of other migrations."""
    cache.parent.mkdir(exist_ok=True)
    copy = Path(tempfile.mkdtemp(prefix="migrating-", dir=cache.parent))
    subprocess.run(["cp", "-a", cluster, copy / "postgres"], check=True)
    for old in cache.parent.glob("migrated-*"):
        shutil.rmtree(old, ignore_errors=True)
    # Another run may have been faster.
    with contextlib.suppress(OSError):
        (copy / "postgres").rename(cache)
    shutil.rmtree(copy, ignore_errors=True)


def _digest_of_migrations() -> str:
    """Changes with whatever the empty tables are made of."""
    digest = hashlib.sha256()
    sources = [*PROJECT.glob("*/migrations/*.py"), *PROJECT.glob("*/models/**/*.py")]
    for path in [PROJECT / "requirements.txt", *sorted(sources)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def copy_migrated_cluster(folder: Path) -> None:
    subprocess.run(["cp", "-a", migrated_cluster(), folder], check=True)


def superuser(server: EmbeddedPostgres, database: str = "postgres") -> psycopg.Connection[Any]:
    """A connection that may do what the service's own role may not."""
    return psycopg.connect(
        host=str(server.socket_dir), user=SUPERUSER, dbname=database, autocommit=True
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    if cluster is not None:
        cluster.stop()
    if postgres is not None:
        stop_process(postgres, signal.SIGINT, timeout=30)
    shutil.rmtree(FOLDER, ignore_errors=True)
