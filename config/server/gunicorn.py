"""Gunicorn's configuration for the web role: ``python manage.py serve``.

The master process imports neither Django nor the database driver. Each worker patches itself
for gevent before it loads the application, so nothing is imported unpatched.
"""

import resource
import signal
import socket
import sys
from typing import TYPE_CHECKING

from config.logging import json_streams
from config.server import handover, start_order
from config.server.parent_death import exit_with_parent

if TYPE_CHECKING:
    from gunicorn.arbiter import Arbiter
    from gunicorn.workers.base import Worker

json_streams.install()

wsgi_app = "config.wsgi:application"
worker_class = "config.server.webworker.WebWorker"
# Connections that a worker serves at once. More wait in the listen queue.
worker_connections = 1000
# Open files of a worker, apart from its connections.
RESERVED_FILES = 200
# Seconds. A load balancer must close an idle connection before we do, or it may send a request
# into one that is closing. Load balancers usually wait for 60 s.
keepalive = 75
timeout = 60
graceful_timeout = 5
# Bytes, gunicorn's maximum. An id of 512 characters takes up to 6,144 bytes in an address.
limit_request_line = handover.MAX_REQUEST_LINE
# A line per request would cost more than many requests do.
accesslog = None
loglevel = "warning"
logger_class = "config.logging.json_lines." + (
    "JsonGunicornLogger" if json_streams.is_wanted() else "GunicornLogger"
)
control_socket_disable = True
# No header may change the mount point (SCRIPT_NAME) or the scheme of a request. X-Forwarded-*
# still reach Django, which trusts them only where EDS_HTTPS is set.
forwarder_headers = ""
header_map = "drop"
secure_scheme_headers: dict[str, str] = {}

# Linux spreads new connections over the sockets that share a port. Other systems use only one.
HAS_BALANCED_REUSEPORT = sys.platform == "linux"
# The variable that tells the master how many of its workers serve pages.
PAGE_PROCESSES = "PAGE_PROCESSES"


def gunicorn_command(host: str, port: int, ingestion: int, pages: int) -> list[str]:
    """Return the command line that serves with *ingestion* and *pages* processes on one port.

    Ingestion processes alone answer 404 to page requests. Page processes alone also accept data,
    so a wrong routing rule loses none.
    """
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    options = ["--config", "python:config.server.gunicorn", "--bind", address]
    options += ["--workers", str(ingestion + pages), "--env", f"{PAGE_PROCESSES}={pages}"]
    return [sys.executable, "-m", "gunicorn", *options]


class WorkerPlan:
    """The kind of each worker, by slot. The replacement of a dead worker takes over its slot.

    The first slots are for ingestion. Without PAGE_PROCESSES every worker serves everything.
    """

    def __init__(self, workers: int, variables: dict[str, str]) -> None:
        self.slots = workers
        pages = int(variables.get(PAGE_PROCESSES, workers))
        self.ingestion = workers - pages
        self.pages = handover.HandoverQueue() if self.ingestion and pages else None
        self.order = start_order.make(variables)

    @property
    def listening(self) -> int:
        """The number of processes that accept connections on the port."""
        return self.ingestion or self.slots

    def kind(self, slot: int) -> str:
        if slot < self.ingestion:
            return handover.INGESTION
        return handover.PAGES if self.pages else handover.ANY


def on_starting(server: "Arbiter") -> None:
    """Open a listening socket for each worker, before gunicorn opens one for all of them.

    On a shared socket the worker that is awake takes most connections. With a socket for each
    worker the kernel spreads them. The sockets belong to the master, so the replacement of a
    killed worker serves the connections that waited for it.
    """
    server.plan = WorkerPlan(server.cfg.workers, server.cfg.env)
    _allow_files(2 * server.cfg.worker_connections + RESERVED_FILES)
    if not HAS_BALANCED_REUSEPORT:
        return
    from gunicorn.sock import create_sockets  # needed on Linux only

    server.cfg.set("reuse_port", True)
    for _ in range(server.plan.listening):
        server.LISTENERS.extend(create_sockets(server.cfg, server.log))
    server.cfg.set("reuse_port", False)


def _allow_files(number: int) -> None:
    """Raise the limit of open files to *number*, or as far as the system permits.

    A lent connection takes two files, and the default of many systems is 1,024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        number = min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))


def pre_fork(server: "Arbiter", worker: "Worker") -> None:
    """Give the new worker the slot, and so the socket, that the fewest workers have."""
    plan: WorkerPlan = server.plan
    taken_slots = [other.slot for other in server.WORKERS.values()]
    worker.slot = min(range(plan.slots), key=taken_slots.count)
    worker.kind, worker.pages, worker.order = plan.kind(worker.slot), plan.pages, plan.order
    worker.address = server.LISTENERS[0].getsockname()
    if worker.slot >= plan.listening:
        worker.sockets = []
    elif HAS_BALANCED_REUSEPORT:
        worker.sockets = [server.LISTENERS[worker.slot]]


def post_fork(server: "Arbiter", worker: "Worker") -> None:
    exit_with_parent(signal.SIGTERM)()
    for listener in server.LISTENERS:
        if listener not in worker.sockets:
            listener.close()


def port_error(host: str, port: int) -> str:
    """Return why the address cannot be listened on, or an empty string if it can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers do: recently closed connections do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return f"cannot listen on {host}:{port} ({reason}); choose another --port or --host."
    return ""
