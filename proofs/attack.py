"""Asks every URL of every kind of process, by each method, and below each prefix for what does not
exist: no response is a 500, each has the security headers, and the log stays short.

The kinds are a server that only accepts data, one that only serves pages, and one of both. A
superuser who is signed in asks for the pages of the admin.
"""

import argparse
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

from config.server.security_headers import HEADERS
from harness.command import run_command
from harness.http import Address, Client, Response, bearer, status_of
from harness.processes import Failed, until
from harness.report import Report, Result, Table, progress
from harness.service import Service, any_address, temporary_service

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
DATA_ONLY = "data only"
KINDS = {DATA_ONLY: ("--only", "ingestion"), "pages only": ("--only", "pages"), "both": ()}
CLIENTS = 4
# Requests for a path that does not exist, as a flood of them.
FLOOD, FLOODED = 2_000, "/segment/analytics-next/bundles/x.js"
# Lines that a flood may log: of other things that happen meanwhile.
MOST_LINES_OF_A_FLOOD = 10
MOST_FAULTS = 10
PAGE_HEADERS = ("Content-Security-Policy", "Permissions-Policy", "X-Frame-Options")
NAME, PASSWORD = "attacker", "a long phrase of a proof"
LOGIN, ENDING = "/admin/login/", ("/admin/login", "/admin/logout")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SETTINGS = {
    "EDS_WEB_WORKERS": "1",
    "EDS_METRICS_TOKEN": "metrics-token-of-a-proof",
    "EDS_READ_REQUESTS_PER_MINUTE": "0",
    # Nothing listens there.
    "MARKETPLACE_API_URL": "http://127.0.0.1:9",
}


@dataclass
class Server:
    """A web server of one kind, and what it answered."""

    kind: str
    address: Address
    log: Path
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _session: "Session | None" = None

    def session(self) -> "Session | None":
        """The session of a superuser; None if the server has no admin."""
        if self.kind == DATA_ONLY:
            return None
        # One at a time: who signs in twice at once must wait.
        with self.lock:
            self._session = self._session or Session(self.address)
            return self._session

    def sign_in_again(self, ended: "Session") -> None:
        with self.lock:
            if self._session is ended:
                self._session = None

    def note(self, what: str, response: Response | None) -> None:
        self.statuses[response.status if response else 0] += 1
        if (fault := find_fault(response)) and len(self.faults) < MOST_FAULTS:
            self.faults.append(f"{self.kind}: {what}: {fault}")

    def lines(self) -> list[str]:
        return self.log.read_text("utf-8", "replace").splitlines()


def find_fault(response: Response | None) -> str:
    """What is wrong with the response; empty if nothing is."""
    if response is None:
        return "no response"
    if response.status >= 500 and response.status != 503:
        return f"status {response.status}"
    headers = response.headers
    missing = [name for name, value in HEADERS if headers.get(name) != value]
    if headers.get("Content-Type", "").startswith("text/html"):
        # Views of the APIs answer some methods with an empty body of that type.
        missing += [name for name in PAGE_HEADERS if response.body and name not in headers]
    return f"without {', '.join(missing)}" if missing else ""


class Visitor:
    """A client of one server, with the session that all of them share."""

    def __init__(self, server: Server, token: str) -> None:
        self._server, self._token = server, token
        self._client = Client(server.address, timeout=60)

    def visit(self, method: str, path: str) -> None:
        # Anybody asks for these two; with a session, they would end it.
        is_page = path.startswith("/admin") and not path.startswith(ENDING)
        session = self._server.session() if is_page else None
        headers = session.headers if session else bearer(self._token)
        response = self._client.request(method, path, headers=headers)
        self._server.note(f"{method} {path}", response)
        if session and response and "/admin/login/" in response.headers.get("Location", ""):
            # Another page has ended the session.
            self._server.sign_in_again(session)

    def close(self) -> None:
        self._client.close()


class Session:
    """What a browser sends that is signed in."""

    def __init__(self, address: Address) -> None:
        self._cookies: dict[str, str] = {}
        with closing(Client(address, timeout=60)) as client:
            self._take_cookies(client.request("GET", LOGIN))
            form = {"username": NAME, "password": PASSWORD, "next": "/admin/"}
            form["csrfmiddlewaretoken"] = self._cookies["csrftoken"]
            headers = {**FORM, **self.headers}
            response = client.request("POST", LOGIN, urlencode(form), headers)
        self._take_cookies(response)
        if response is None or response.status != 302:
            raise Failed(f"The admin does not let the proof sign in: {response}")

    @property
    def headers(self) -> Mapping[str, str]:
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        return {"Cookie": cookies, "X-CSRFToken": self._cookies.get("csrftoken", "")}

    def _take_cookies(self, response: Response | None) -> None:
        for header in response.headers.get_all("Set-Cookie", ()) if response else ():
            cookies = SimpleCookie(header)
            self._cookies.update({name: morsel.value for name, morsel in cookies.items()})


def measure(options: argparse.Namespace) -> Report:
    with temporary_service() as service:
        service.environment |= SETTINGS
        content = service.run_json(
            *("manage.py", "generate_data", "--json", "--accounts", "5", "--users", "20")
        )
        service.run(
            *("manage.py", "createsuperuser", "--noinput", "--username", NAME),
            *("--email", "proof@example.com"),
            environment={"DJANGO_SUPERUSER_PASSWORD": PASSWORD},
        )
        paths: list[str] = json.loads(service.run("-m", "proofs.urls"))
        servers = [start(service, kind) for kind in KINDS]
        progress(f"{len(paths):,} URLs, {len(METHODS)} methods, {len(servers)} kinds of servers.")
        for server in servers:
            ask(server, paths[:: options.every], content["api_token"])
        flooded = {server.kind: flood(server) for server in servers}
        yield from report(servers, flooded)
        yield Result("URLs", len(paths[:: options.every]))
        yield Result("tracebacks", service.tracebacks(), must_be=0)


def start(service: Service, kind: str) -> Server:
    address = any_address()
    arguments = ["--host", address.host, "--port", str(address.port), *KINDS[kind]]
    service.start(kind, [sys.executable, "manage.py", "serve", *arguments])
    until(lambda: status_of(address, "/healthz") == 200, f"the server of {kind}")
    return Server(kind, address, service.folder / f"{kind.replace(' ', '-')}.log")


def ask(server: Server, paths: Sequence[str], token: str) -> None:
    """Ask for each path by each method, with several clients."""
    requests = list(product(paths, METHODS))
    began = time.monotonic()

    def visit(share: Sequence[tuple[str, str]]) -> None:
        with closing(Visitor(server, token)) as visitor:
            for path, method in share:
                visitor.visit(method, path)

    shares = [requests[number::CLIENTS] for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as clients:
        # Raises what a client raised.
        list(clients.map(visit, shares))
    seconds = time.monotonic() - began
    progress(f"{server.kind}: {len(requests):,} requests in {seconds:.0f} s.")


def flood(server: Server) -> int:
    """Ask again and again for what does not exist. Returns how many lines that logs."""
    before = len(server.lines())
    with closing(Client(server.address)) as client:
        for _ in range(FLOOD):
            server.note(f"GET {FLOODED}", client.request("GET", FLOODED))
    return len(server.lines()) - before


def report(servers: Sequence[Server], flooded: Mapping[str, int]) -> Report:
    statuses = sorted({status for server in servers for status in server.statuses})
    yield Table(
        "responses",
        [
            {
                "": server.kind,
                **{str(status or "none"): server.statuses[status] for status in statuses},
                "lines of log": len(server.lines()),
                "KiB of log": server.log.stat().st_size / 1024,
            }
            for server in servers
        ],
    )
    total = sum(server.statuses.total() for server in servers)
    yield Result("requests", total)
    internal = sum(server.statuses[500] for server in servers)
    yield Result("responses 500", internal, must_be=0)
    faults = [fault for server in servers for fault in server.faults]
    yield Result("faults", "\n".join(faults) or "none", must_be="none")
    lines = sum(len(server.lines()) for server in servers)
    yield Result("lines of log a request", lines / total)
    yield Result("more lines than requests", str(lines > total), must_be="False")
    is_long = max(flooded.values()) > MOST_LINES_OF_A_FLOOD
    yield Result(f"lines of log of {FLOOD:,} equal requests", max(flooded.values()))
    yield Result("a flood fills the log", str(is_long), must_be="False")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--every", type=int, default=1, help="ask for each URL (1), or for one of so many"
    )


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
