"""A backup and a dump of a service that has read every report contain no contact of a customer."""

import os
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.local.postgres import DATABASE, SUPERUSER
from harness.marketplace.reports import PLANTED
from harness.ports import free_port
from harness.processes import HOST, listens, until
from harness.service import Service, temporary_service
from tests.config.test_backup import program
from tests.database import own_server

pytestmark = [pytest.mark.slow, own_server]

LICENSES = 200
# What is kept of the same rows, so a search that finds it would find the others.
KEPT = b"not-meeting-needs"


@pytest.fixture
def service() -> Iterator[Service]:
    """A service that has read licenses, their history, transactions, and feedback."""
    with temporary_service() as running:
        port = free_port()
        running.environment["MARKETPLACE_API_URL"] = f"http://{HOST}:{port}"
        command = [sys.executable, "-m", "benchmarks.syncing", "simulate", str(LICENSES), str(port)]
        running.start("simulator", command)
        until(lambda: listens(HOST, port), "the simulated marketplace")
        connection = str(syncing(running, "connect")["connection"])
        assert syncing(running, "work", connection)["state"] == "succeeded"
        syncing(running, "ledger", connection)
        for report in ("history", "transactions", "feedback"):
            reading = syncing(running, "read", connection, report)
            assert reading["problem"] == "" and int(str(reading["rows"])) > 5, report
        syncing(running, "ledger", connection)
        yield running


def syncing(service: Service, *arguments: str) -> dict[str, object]:
    return service.run_json("-m", "benchmarks.syncing", *arguments)


def texts_of(folder: Path) -> Iterator[tuple[str, bytes]]:
    """What is in the files of a base backup, and in those of the archives among them."""
    for path in folder.rglob("*"):
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                for member in archive:
                    if (file := archive.extractfile(member)) is not None:
                        yield f"{path.name}/{member.name}", file.read()
        elif path.suffix == ".gz":
            yield path.name, zlib.decompress(path.read_bytes(), wbits=31)
        elif path.is_file():
            yield path.name, path.read_bytes()


def test_no_planted_contact_is_in_a_backup_a_dump_or_a_log(
    service: Service, tmp_path: Path, db: None
) -> None:
    backups = service.folder / "backups"
    service.run("manage.py", "backup", "--to", str(backups))
    command = [program("pg_dump"), f"--host={service.postgres.socket_dir}"]
    dump = subprocess.run(
        [*command, f"--username={SUPERUSER}", DATABASE],
        capture_output=True,
        check=True,
        env={**os.environ, "PGPASSWORD": ""},
    ).stdout
    contents = dict(texts_of(backups))
    assert any(KEPT in content for content in contents.values()) and KEPT in dump
    logs = {log.name: log.read_bytes() for log in service.folder.glob("*.log")}
    planted = PLANTED.encode()
    for name, content in {**contents, **logs, "dump": dump}.items():
        assert planted not in content.lower(), name
