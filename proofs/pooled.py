"""PgBouncer between the roles and PostgreSQL: what works through it while clients post and read.

Accepting, a web server that only reads, two workers and beat, with Redis as the broker.
"""

import argparse
import os
import time

from config.local.postgres import DATABASE, ROLE
from harness import accounting
from harness.brokers import BROKERS
from harness.command import run_command
from harness.http import Reader
from harness.networks import Loopback
from harness.ports import free_port
from harness.posting import Posted, add_posting_arguments, posting
from harness.processes import HOST, program
from harness.report import Report, Result, progress
from harness.service import Service, any_address, database_url, temporary_service

# Connections to PostgreSQL that are shared; all roles together want more.
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


def measure(options: argparse.Namespace) -> Report:
    network = Loopback(("postgres", "broker"))
    database_host = network.address("postgres")
    with (
        temporary_service({"listen_addresses": database_host}) as service,
        BROKERS["redis"].started(service.folder, network.address("broker")) as broker,
    ):
        pooled = start_pgbouncer(service, database_host, options.mode)
        direct = database_url(database_host)
        service.separate_roles()
        service.environment |= {"CELERY_BROKER_URL": broker, "DATABASE_URL": direct}
        service.environment["EDS_WEB_WORKERS"] = "1"
        product = service.create_product()
        service.environment["DATABASE_URL"] = pooled
        accepting, reading = any_address(), any_address()
        service.serve("accepting", accepting, DATABASE_URL=pooled if options.everything else direct)
        service.serve("reading", reading)
        service.start_worker("worker 1")
        service.start_worker("worker 2")
        service.start_beat()
        service.wait_until_ready(accepting, reading)

        progress(f"Posting for {options.seconds:.0f} s.")
        posted = Posted()
        path = f"/v2/accounts?workspace_id={product['workspace_id']}"
        reader = Reader(path, product["api_token"], reading)
        with (
            reader.reading(),
            posting([[accepting]], product["ingestion_key"], options.seed, posted, options.pause),
        ):
            time.sleep(options.seconds)
        yield from accounting.settle(posted, service.connect, f"{options.mode} pooling")
        yield Result("posts that got 503", posted.statuses[503])
        yield Result("reads", reader.statuses[200])
        yield Result("reads that failed", reader.statuses.total() - reader.statuses[200], must_be=0)
        yield Result("tracebacks", service.tracebacks(), must_be=0)


def start_pgbouncer(service: Service, database_host: str, mode: str) -> str:
    """Run PgBouncer in front of the service's PostgreSQL; the address that leads through it."""
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
    service.start("pgbouncer", [program("pgbouncer"), *identity, str(path)])
    return database_url(HOST, port)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=15.0, help="how long to post and read")
    parser.add_argument("--mode", choices=["transaction", "session"], default="transaction")
    parser.add_argument(
        "--everything", action="store_true", help="accepting goes through PgBouncer, too"
    )
    add_posting_arguments(parser)


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
