"""Backups of a cluster: clients post, each server is backed up by itself and archives its log, and
all get a common restore point. All are then killed and restored to it, and every message that was
posted before it is accounted for.

Needs EDS_TEST_CITUS_BIN: the folder with the programs of a PostgreSQL that has Citus.
"""

import argparse
import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from harness import accounting, cluster
from harness.cluster import Cluster, Node
from harness.command import run_command
from harness.posting import CLIENTS, Posted, add_posting_arguments, posting
from harness.processes import Failed, stop, until
from harness.report import Report, Result, progress
from harness.service import Service, any_address, temporary_folder

POINT = "all servers"


def measure(options: argparse.Namespace) -> Report:
    with temporary_folder() as folder, temporary_folder() as backups, ExitStack() as stack:
        # The servers' user writes the archives.
        backups.chmod(0o777)
        servers = stack.enter_context(cluster.connected(folder, archiving(backups)))
        service = Service(folder, servers.coordinator, stack)
        service.run("manage.py", "migrate", "--verbosity", "0")
        before = Posted()
        yield from run(service, servers, backups, before, options)
        for server in servers.servers:
            server.stop(signal.SIGKILL)
        progress("Restoring.")
        started = time.monotonic()
        for server in (*servers.nodes, servers.coordinator):
            restore(server, backups)
        yield Result("seconds of the restore", time.monotonic() - started)
        service.start_beat("beat after")
        service.start_worker("worker after")
        yield from accounting.settle(before, servers.coordinator.connect)
        until(lambda: servers.prepared() == 0, "prepared transactions to be finished")


def run(
    service: Service, servers: Cluster, backups: Path, before: Posted, options: argparse.Namespace
) -> Report:
    """Clients post until the end. What they post after the restore point is not in *before*."""
    address = any_address()
    roles = [
        service.serve("web", address, EDS_WEB_WORKERS="1"),
        service.start_beat(),
        service.start_worker(),
    ]
    service.wait_until_ready(address)
    key = service.create_product()["ingestion_key"]
    with posting([[address]], key, options.seed, before, options.pause):
        time.sleep(options.seconds / 3)
        progress("Backing up.")
        started = time.monotonic()
        for server in servers.servers:
            back_up(server, backups)
        yield Result("seconds of the base backups", time.monotonic() - started)
        time.sleep(options.seconds / 3)
    started = time.monotonic()
    with servers.coordinator.connect() as connection:
        connection.execute("SELECT citus_create_restore_point(%s)", [POINT])
    yield Result("seconds of the restore point", time.monotonic() - started)
    after = Posted()
    with posting([[address]], key, options.seed + CLIENTS, after, options.pause):
        time.sleep(options.seconds / 3)
    yield Result("acknowledged after the restore point", len(after.acknowledged))
    for server in servers.servers:
        finish_segment(server, backups)
    for role in roles:
        stop(role)


def archiving(backups: Path) -> dict[str, str]:
    """Each server copies its log into a folder that has the name of its own."""
    wal = f'"{backups}/wal-$(basename "$PWD")"'
    return {
        "archive_mode": "on",
        "archive_command": f"mkdir -p {wal} && cp %p {wal}/%f",
        # In the same way, when it recovers.
        "restore_command": f"cp {wal}/%f %p",
    }


def back_up(server: Node, backups: Path) -> None:
    target = backups / server.folder.name
    command = server.client_command("pg_basebackup", "--checkpoint", "fast", "-D", str(target))
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise Failed(f"pg_basebackup failed: {process.stderr}")


def finish_segment(server: Node, backups: Path) -> None:
    """Return once everything that the server has written is in its archive."""
    with server.connect() as connection:
        row = connection.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone()
    assert row is not None
    segment = backups / f"wal-{server.folder.name}" / row[0]
    until(segment.exists, f"the archive of {server.folder.name}")


def restore(server: Node, backups: Path) -> None:
    """Put the base backup in the place of the server's files, and recover to the restore point."""
    owner = server.folder.stat()
    shutil.rmtree(server.folder)
    shutil.copytree(backups / server.folder.name, server.folder)
    (server.folder / "recovery.signal").touch()
    with (server.folder / "postgresql.auto.conf").open("a") as configuration:
        configuration.write(f"recovery_target_name = '{POINT}'\n")
        configuration.write("recovery_target_action = 'promote'\n")
    for path in (server.folder, *server.folder.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    server.folder.chmod(0o700)
    server.start()
    server.wait()
    until(lambda: has_recovered(server), f"{server.folder.name} to recover")


def has_recovered(server: Node) -> bool:
    with server.connect() as connection:
        return connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to post")
    add_posting_arguments(parser)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
