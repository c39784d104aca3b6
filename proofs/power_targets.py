"""Power cuts of what stands beside the service or beneath it: a base backup and its restore, the
tables of an older release, a replica, the machine of the database, and the servers of a cluster.
"""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import LiteralString

import psutil
import psycopg

from config.local.postgres import DATABASE, SUPERUSER, EmbeddedPostgres, stop_process
from harness import accounting
from harness.cluster import BIN_VARIABLE, Cluster, bin_folder
from harness.database import number
from harness.networks import Loopback
from harness.posting import Posted, posting
from harness.power import Disk, disk
from harness.processes import PROJECT, Failed, until
from harness.report import Report, Result, progress
from harness.service import (
    Service,
    any_address,
    database_url,
    own_environment,
    secrets_of_a_run,
    temporary_folder,
    temporary_service,
)
from harness.standby import Standby
from harness.whole import starting
from proofs import upgrade
from proofs.backups import timed

# Seconds: how long after its beginning a command is cut, and how long clients post before a cut.
COMMAND, RESTORING, POSTING = (0.3, 5.0), (2.0, 15.0), (0.5, 3.0)
# How many restores of a backup are cut.
RESTORES = 4
# The same of a start that migrates the tables of an older release.
MIGRATING, MIGRATIONS, OLD_RELEASE = (2.0, 25.0), 4, "0.5.0"
MIGRATED_WITHIN, STOP_TIMEOUT = 600.0, 15.0
WRONG = "lacks something"
_EVENTS: LiteralString = "SELECT count(*) FROM engagement_event"
_POSITION: LiteralString = "SELECT pg_current_wal_lsn()::text"
_REPLAYED: LiteralString = "SELECT (pg_last_wal_replay_lsn() >= %s::pg_lsn)::int"


# --- A base backup and its restore ------------------------------------------------------------


def cut_a_backup(name: str, data: Disk, folder: Path, log: Path, chance: random.Random) -> Report:
    """Cut the power while clients post and a base backup is made, and while the next one, which is
    complete, is restored. The restore is then repeated, and must bring back everything."""
    backups, posted = data.folder / "backups", Posted()
    backups.mkdir()
    data.make_durable()
    settings = {"EDS_BACKUP_FOLDER": str(backups)}
    with starting(folder, log, **settings) as service:
        service.wait_until_ready()
        doors, seed = [[service.address]], chance.randrange(10**6)
        with (
            posting(doors, service.key, seed, posted, 0.02),
            command(folder, settings, "backup"),
        ):
            time.sleep(chance.uniform(*COMMAND))
            data.cut(str(chance.random()), psutil.Process(service.process.pid))
    with starting(folder, log, **settings) as service:
        service.wait_until_ready()
        with service.explained():
            yield from accounting.settle(posted, service.connect, f"{name}, after the cut")
        timed(folder, backups, "backup")
    losses = 0
    for _ in range(RESTORES):
        with command(folder, settings, "restore") as restore:
            seconds = chance.uniform(*RESTORING)
            time.sleep(seconds)
            data.cut(str(chance.random()), psutil.Process(restore.pid))
        outcome = start_or_say(folder, log, posted)
        progress(f"{name}: a restore was cut after {seconds:.1f} s, and the start {outcome}.")
        losses += outcome.startswith(WRONG)
    yield Result(f"{name}: restores that were cut", RESTORES)
    yield Result(f"{name}: starts after these with a loss", losses, must_be=0)
    timed(folder, backups, "restore")
    with starting(folder, log) as service:
        service.wait_until_ready()
        with service.explained():
            yield from accounting.settle(posted, service.connect, f"{name}, restored")


def start_or_say(folder: Path, log: Path, posted: Posted) -> str:
    """What a start does: it has everything, has faults, or ends with a sentence."""
    with starting(folder, log) as service:
        try:
            service.wait_until_ready()
        except Failed:
            return f"said: {log.read_text('utf-8', 'replace').strip().splitlines()[-1]}"
        results = list(accounting.settle(posted, service.connect))
    faults = [part.name for part in results if isinstance(part, Result) and part.is_wrong]
    return f"{WRONG}: {', '.join(faults)}" if faults else "has everything"


@contextmanager
def command(
    folder: Path, settings: dict[str, str], *arguments: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """A command of the service, which a cut ends."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT,
        env=own_environment(folder, **settings),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


# --- Migrations -------------------------------------------------------------------------------


def cut_migrations(name: str, data: Disk, log: Path, chance: random.Random) -> Report:
    """Cut the power while a new release migrates the tables of an old one, again and again until
    it is ready."""
    folder, posted = data.folder / "data", Posted()
    folder.mkdir(mode=0o711)
    release = upgrade.RELEASES[OLD_RELEASE]
    with upgrade.exported(release) as old, starting(folder, log, old) as service:
        service.wait_until_ready()
        with posting([[service.address]], service.key, chance.randrange(10**6), posted, 0.02):
            time.sleep(POSTING[1])
    data.make_durable()
    for _ in range(MIGRATIONS):
        with starting(folder, log) as service:
            seconds = chance.uniform(*MIGRATING)
            time.sleep(seconds)
            progress(f"{name}: cut after {seconds:.1f} s of the new release.")
            data.cut(str(chance.random()), psutil.Process(service.process.pid))
    yield Result(f"{name}: migrations that were cut", MIGRATIONS)
    with starting(folder, log) as service:
        service.wait_until_ready()
        with service.explained():
            yield from accounting.settle(posted, service.connect, name)


# --- A replica --------------------------------------------------------------------------------


def cut_a_replica(cuts: int, chance: random.Random) -> Report:
    """Cut the power of the replica's machine while clients post: it must come back by itself, and
    catch up."""
    network = Loopback(("primary", "replica"))
    options = {"listen_addresses": network.address("primary")}
    with disk() as data, temporary_service(options) as service, ExitStack() as stack:
        follows = {"listen_addresses": network.address("replica"), "hot_standby": "on"}
        standby = Standby(service.postgres, data.folder / "replica", follows)
        standby.copy()
        data.make_durable()
        standby.start()
        stack.callback(standby.stop)
        yield from _cut(
            "the replica", cuts, chance, data, service, lambda: [standby.pid], standby.start
        )
        yield Result("events that the replica lacks", _lacks(service, standby), must_be=0)


def _lacks(service: Service, standby: Standby) -> int:
    socket = str(standby.server.socket_dir)
    with (
        service.connect() as primary,
        psycopg.connect(host=socket, user=SUPERUSER, dbname=DATABASE, autocommit=True) as replica,
    ):
        [(position,)] = primary.execute(_POSITION).fetchall()
        until(lambda: number(replica, _REPLAYED, position), "the replica to catch up")
        return number(primary, _EVENTS) - number(replica, _EVENTS)


# --- Servers beneath roles that keep running --------------------------------------------------


def cut_the_database(cuts: int, chance: random.Random) -> Report:
    """Cut the power of the machine of PostgreSQL, with the settings of ``up``, while web server,
    worker, and beat run on another one."""
    options = {"listen_addresses": Loopback(("database",)).address("database")}
    with disk() as data, temporary_folder() as folder, ExitStack() as stack:
        postgres = EmbeddedPostgres(data.folder / "postgres", options)
        postgres.initialise()
        running: list[subprocess.Popen[bytes]] = []

        def start() -> None:
            running[:] = [postgres.start_with_log(folder / "postgres.log")]

        start()
        stack.callback(lambda: stop_process(running[0], signal.SIGINT, timeout=STOP_TIMEOUT))
        service = _service(folder, postgres, options["listen_addresses"], stack)
        service.migrate()
        yield from _cut(
            "the database", cuts, chance, data, service, lambda: [running[0].pid], start
        )


def cut_a_cluster(cuts: int, chance: random.Random) -> Report:
    """Cut the power of all servers of a Citus cluster at once."""
    programs = bin_folder()
    if programs is None:
        raise Failed(f"{BIN_VARIABLE} names no folder with a PostgreSQL that has Citus.")
    with disk() as data, temporary_folder() as folder, ExitStack() as stack:
        cluster = Cluster(programs, data.folder / "postgres")
        stack.callback(cluster.stop)
        cluster.start()
        cluster.connect_nodes()
        service = _service(folder, cluster.coordinator, cluster.coordinator.address, stack)
        service.run("manage.py", "migrate", "--verbosity", "0", timeout=MIGRATED_WITHIN)

        def servers() -> list[int]:
            return [each.process.pid for each in cluster.servers if each.process]

        yield from _cut("the cluster", cuts, chance, data, service, servers, cluster.start)
        until(lambda: cluster.prepared() == 0, "prepared transactions to end")


def _service(folder: Path, postgres: EmbeddedPostgres, address: str, stack: ExitStack) -> Service:
    service = Service(folder, postgres, stack)
    service.environment["DATABASE_URL"] = database_url(address)
    service.environment |= secrets_of_a_run()
    return service


def _cut(
    name: str,
    cuts: int,
    chance: random.Random,
    data: Disk,
    service: Service,
    servers: Callable[[], list[int]],
    start: Callable[[], None],
) -> Report:
    """Cut the power of the servers again and again while clients post, and start them again."""
    posted, door = Posted(), any_address()
    key = service.create_product()["ingestion_key"]
    service.serve("web", door)
    service.start_worker()
    service.start_beat()
    service.wait_until_ready(door)
    for each in range(cuts):
        progress(f"Cut {each + 1} of {name}.")
        with posting([[door]], key, chance.randrange(10**6), posted, 0.02):
            time.sleep(chance.uniform(*POSTING))
            data.cut(str(chance.random()), *map(psutil.Process, servers()))
            start()
    yield Result(f"power cuts of {name}", cuts)
    yield from accounting.settle(posted, service.connect, name)
