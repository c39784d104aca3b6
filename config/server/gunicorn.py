"""How gunicorn serves the web role: ``python manage.py serve``.

The master process imports neither Django nor the database driver. Each worker patches itself
for gevent before it loads the application, so nothing is imported unpatched.
"""

import resource
import signal
import socket
import sys
from typing import TYPE_CHECKING

from config.parent_death import exit_with_parent
from config.server import handover

if TYPE_CHECKING:
    from gunicorn.arbiter import Arbiter
    from gunicorn.workers.base import Worker

wsgi_app = "config.wsgi:application"
worker_class = "config.server.webworker.WebWorker"
# A worker serves at most so many connections at once; more wait in the listen queue.
worker_connections = 1000
# Files that a worker has open besides its connections.
RESERVED_FILES = 200
# Seconds. A load balancer must give up an idle connection before we do, or it would send a
# request into one that closes; theirs usually wait 60.
keepalive = 75
timeout = 60
graceful_timeout = 5
# Bytes, the most that gunicorn can: a look-up of 512 characters takes up to 6,144 in an address.
limit_request_line = 8190
# The service logs what matters; a line per request costs more than many requests do.
accesslog = None
loglevel = "warning"
control_socket_disable = True
# No header steers the server: not where the application is mounted, and not whether a request came
# by HTTPS. X-Forwarded-* still reach Django, which trusts them only where EDS_HTTPS is set.
forwarder_headers = ""
header_map = "drop"
secure_scheme_headers: dict[str, str] = {}

# Linux spreads new connections evenly over sockets that share a port; elsewhere one takes all.
HAS_BALANCED_REUSEPORT = sys.platform == "linux"


# How the command line tells the master how many of its workers serve pages.
PAGE_PROCESSES = "PAGE_PROCESSES"


def gunicorn_command(
    host: str, port: int, ingestion: int, pages: int, *, json_lines: bool = False
) -> list[str]:
    """The command line that serves on the address with so many processes of each kind.

    With both they share the port. Ingestion processes alone answer 404 to everything else; page
    processes alone accept data as well, so that none is lost that was sent to the wrong place.
    """
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    options = ["--config", "python:config.server.gunicorn", "--bind", address]
    options += ["--workers", str(ingestion + pages), "--env", f"{PAGE_PROCESSES}={pages}"]
    if json_lines:
        options += ["--logger-class", "config.json_lines.GunicornLogger"]
    return [sys.executable, "-m", "gunicorn", *options]


class WorkerPlan:
    """Which worker serves what, by slot. One that dies leaves its slot to its replacement.

    Ingestion processes come first. A server that is told nothing has processes for everything.
    """

    def __init__(self, workers: int, told: dict[str, str]) -> None:
        self.slots = workers
        pages = int(told.get(PAGE_PROCESSES, workers))
        self.ingestion = workers - pages
        self.pages = handover.HandoverQueue() if self.ingestion and pages else None

    @property
    def listening(self) -> int:
        """How many processes take connections from the port."""
        return self.ingestion or self.slots

    def kind(self, slot: int) -> str:
        if slot < self.ingestion:
            return handover.INGESTION
        return handover.PAGES if self.pages else handover.ANY


def on_starting(server: "Arbiter") -> None:
    """Open a listening socket for each worker, before gunicorn opens one for all of them.

    With one shared socket a worker that is awake takes most connections. With a socket for each
    the kernel spreads them. They belong to the master, so connections that wait for a worker
    that was killed are served by its replacement.
    """
    server.plan = WorkerPlan(server.cfg.workers, server.cfg.env)
    _allow_files(2 * server.cfg.worker_connections + RESERVED_FILES)
    if not HAS_BALANCED_REUSEPORT:
        return
    from gunicorn.sock import create_sockets  # not for other platforms' start

    server.cfg.set("reuse_port", True)
    for _ in range(server.plan.listening):
        server.LISTENERS.extend(create_sockets(server.cfg, server.log))
    server.cfg.set("reuse_port", False)


def _allow_files(number: int) -> None:
    """Let the workers open so many files, as far as the system lets us decide.

    A connection with a page process takes two, and many systems allow 1,024 at first.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        number = min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))


def pre_fork(server: "Arbiter", worker: "Worker") -> None:
    """Give the new worker the slot, and so the socket, that fewest others serve."""
    plan: WorkerPlan = server.plan
    served = [other.slot for other in server.WORKERS.values()]
    worker.slot = min(range(plan.slots), key=served.count)
    worker.kind, worker.pages = plan.kind(worker.slot), plan.pages
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
    """Why nobody can listen on the address, in a sentence; empty where somebody can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As a server that starts: connections that were just closed do not stand in its way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return f"cannot listen on {host}:{port} ({reason}); choose another --port or --host."
    return ""
