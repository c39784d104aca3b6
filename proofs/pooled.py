"""PgBouncer between the roles and PostgreSQL: what goes through it while clients post and read.

Accepting, a web server that only reads, two workers and beat, with Redis as the broker.
"""

import argparse
import os
import random
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from config.local.postgres import DATABASE, ROLE
from harness import accounting
from harness.asking import Reader, status_of
from harness.brokers import BROKERS
from harness.command import run_command
from harness.posting import Address, Posted, posting
from harness.report import progress, table
from harness.service import (
    HOST,
    PATIENCE,
    Failed,
    Service,
    celery,
    free_port,
    temporary_service,
    until,
)

# So many connections to PostgreSQL are shared; all roles together want more.
SERVER_CONNECTIONS = 12
CONFIGURATION = """
[databases]
{database} = host={host} port=5432 user={role} dbname={database}
[pgbouncer]
listen_addr = {listen}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
tcp_keepidle = 5
tcp_keepintvl = 5
tcp_keepcnt = 2
tcp_user_timeout = 15000
idle_transaction_timeout = 60
"""
WORKERS = ("worker 1", "worker 2")
WEBS = ("accepting", "reading")
ROLES = (*WEBS, *WORKERS, "beat")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    network = f"127.0.{random.randrange(1, 255)}"
    direct = f"postgresql://{ROLE}@{network}.2/{DATABASE}"
    with temporary_service({"listen_addresses": f"{network}.2"}) as service, ExitStack() as stack:
        pooled = stack.enter_context(pgbouncer(service, f"{network}.2", options.mode))
        broker = BROKERS["redis"].started(service.folder, f"{network}.3", free_port())
        service.environment |= {
            "CELERY_BROKER_URL": stack.enter_context(broker),
            "EDS_SECRET_KEY": "only-for-this-benchmark" * 3,
            "EDS_ENCRYPTION_KEYS": service.run("manage.py", "generate_key").strip(),
            "DATABASE_URL": direct,
        }
        made = service.create_product()
        service.environment["DATABASE_URL"] = pooled
        accepts = serve(service, "accepting", pooled if options.everything else direct)
        reads = serve(service, "reading", pooled)
        for name in WORKERS:
            service.start(name, celery("config", "worker", "--hostname", f"{name[-1]}@%h"))
        service.start("beat", celery("config", "beat"))
        for address in (accepts, reads):
            until(lambda at=address: status_of(at, "/readyz") == 200, "the roles", PATIENCE)  # type: ignore[misc]

        progress(f"Posting for {options.seconds:.0f} s.")
        posted = Posted()
        reader = Reader(made["api_token"], made["workspace_id"])
        reader.addresses.append(reads)
        with reader.reading(), posting([(accepts,)], made["ingestion_key"], 1, posted):
            time.sleep(options.seconds)
        settled_after = accounting.until_settled(service.connect)
        run = {
            "broker": f"{options.mode} pooling",
            **accounting.account_for(posted, service.connect()),
            "settled_after_s": settled_after,
            "answered_503": posted.statuses[503],
            "reads": reader.statuses[200],
            "reads_without_200": reader.statuses.total() - reader.statuses[200],
            "tracebacks": sum(service.output(name).count("Traceback (") for name in ROLES),
        }
    return {"run": run}


@contextmanager
def pgbouncer(service: Service, database_host: str, mode: str) -> Iterator[str]:
    """Run PgBouncer in front of the service's PostgreSQL; the address that leads through it."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        raise Failed("pgbouncer is not installed; on Debian: apt-get install pgbouncer")
    port = free_port()
    path = service.folder / "pgbouncer.ini"
    path.write_text(
        CONFIGURATION.format(
            database=DATABASE,
            role=ROLE,
            host=database_host,
            listen=HOST,
            port=port,
            mode=mode,
            size=SERVER_CONNECTIONS,
        )
    )
    # It refuses to run as root.
    identity = ["-u", "nobody"] if os.geteuid() == 0 else []
    service.start("pgbouncer", [program, *identity, str(path)])
    yield f"postgresql://{ROLE}@{HOST}:{port}/{DATABASE}"


def serve(service: Service, name: str, database: str) -> Address:
    """Start a web server on the database's address; its own."""
    port = free_port()
    command = [sys.executable, "manage.py", "serve", "--port", str(port)]
    folder: Path = service.folder / name
    service.start(name, command, DATABASE_URL=database, EDS_DATA_DIR=str(folder))
    return HOST, port


def show(figures: dict[str, Any]) -> None:
    run = figures["run"]
    more = ("answered_503", "reads", "reads_without_200", "tracebacks")
    rows = [[name.replace("_", " "), f"{run[name]:,}"] for name in more]
    settled = ["settled after, seconds", f"{run['settled_after_s']:.1f}"]
    print(table(["", run["broker"]], [*accounting.rows([run]), *rows, settled]))


def faults(figures: dict[str, Any]) -> list[str]:
    return accounting.faults(figures["run"])


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=15.0, help="how long to post and read")
    parser.add_argument("--mode", choices=["transaction", "session"], default="transaction")
    parser.add_argument(
        "--everything", action="store_true", help="accepting goes through PgBouncer, too"
    )


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
