"""Every change told, with one id, in order, and none invented: accounts enter and leave a segment
while processes are killed at random, and a receiver that fails now and then accounts for each.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, LiteralString

import psycopg
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from harness import whole
from harness.command import run_command
from harness.database import number
from harness.http import Client, basic
from harness.processes import PROJECT, Failed, until
from harness.report import Report, Result, progress
from harness.service import own_environment
from harness.threads import serving, working
from harness.whole import Whole
from proofs.durability import kill_at_random

# The share of the requests that the receiver refuses, and of those that it answers too late.
REFUSED, LATE = 0.1, 0.02
LATE_SECONDS = 16.0
# Seconds between two changes.
PAUSE = 0.2
_WAITING: LiteralString = """
    SELECT count(*) FROM notifications_outboxmessage WHERE state = 'waiting'
"""
_ENTERED: LiteralString = """
    SELECT title FROM notifications_outboxmessage WHERE title LIKE '% entered Paying.'
"""
_STARTED: LiteralString = """
    SELECT count(*) FROM notifications_subscription WHERE started_at IS NOT NULL
"""


class NodeLibrary:
    """Verifies with npm's standardwebhooks, which ``tests/clients/install`` installs."""

    def __init__(self, secret: str) -> None:
        folder = PROJECT / "tests" / "clients"
        node = shutil.which("node")
        self.is_there = bool(node) and (folder / "node_modules" / "standardwebhooks").exists()
        self._lock = threading.Lock()
        if node and self.is_there:
            self._process = subprocess.Popen(
                [node, folder / "programs" / "webhooks.mjs", secret],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )

    def verify(self, body: bytes, headers: dict[str, str]) -> Any:
        """The content, or None if the signature is not valid."""
        assert self._process.stdin and self._process.stdout
        with self._lock:
            print(json.dumps({"headers": headers, "body": body.decode()}), file=self._process.stdin)
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        if self.is_there:
            self._process.communicate()


class Receiver:
    """What a receiver got: the ids with which it was told of each change, in their order, and
    those of the requests that it refused, too."""

    def __init__(self, seed: int) -> None:
        self.webhook: Webhook | None = None
        self.node: NodeLibrary | None = None
        self.ids: dict[str, set[str]] = {}
        self.all_ids: defaultdict[str, set[str]] = defaultdict(set)
        self.counts: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._lock = threading.Lock()

    def expect(self, secret: str) -> None:
        self.node, self.webhook = NodeLibrary(secret), Webhook(secret)

    def receive(self, headers: dict[str, str], body: bytes) -> int:
        """The status to answer with."""
        with self._lock:
            chance = self._chance.random()
            self.counts["requests"] += 1
        if self.webhook is None:
            return 503
        try:
            content = self.webhook.verify(body, headers)
        except WebhookVerificationError:
            self.counts["invalid signatures"] += 1
            return 400
        text = content["data"]["text"]
        with self._lock:
            self.all_ids[text].add(headers["webhook-id"])
            if chance < REFUSED:
                return 503
            ids = self.ids.setdefault(text, set())
            self.counts["repeats"] += headers["webhook-id"] in ids
            ids.add(headers["webhook-id"])
            self._verify_again(headers, body, content)
        if chance < REFUSED + LATE:
            time.sleep(LATE_SECONDS)
        return 204

    def _verify_again(self, headers: dict[str, str], body: bytes, content: Any) -> None:
        if self.node and self.node.is_there:
            agrees = self.node.verify(body, headers) == content
            self.counts["verified by npm's library" if agrees else "refused by it"] += 1

    def out_of_order(self) -> int:
        """How many accounts left the segment before they had entered it, as far as it was told."""
        places = {text: place for place, text in enumerate(self.ids)}
        return sum(
            places.get(text.replace(" left ", " entered "), len(places)) > place
            for text, place in places.items()
            if " left " in text
        )


@contextmanager
def receiving(receiver: Receiver) -> Iterator[str]:
    """Serve the receiver on this machine. Yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status = receiver.receive(headers, body)
            with suppress(OSError):
                self.send_response(status)
                self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with serving(server):
        yield f"http://127.0.0.1:{server.server_address[1]}/hook"


def measure(options: argparse.Namespace) -> Report:
    receiver = Receiver(options.seed)
    settings = {"EDS_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8"}
    with receiving(receiver) as url, whole.running(**settings) as service:
        subscribe(service, receiver, url)
        seconds = options.minutes * 60
        progress(f"Accounts enter and leave for {seconds:.0f} s.")
        changes = Changes(service)
        with working(changes.make, changes.unmake):
            kills = kill_at_random(service, seconds, 1, random.Random(options.seed))
        for role, count in sorted(kills.items()):
            yield Result(f"{role} killed", count)
        with service.explained():
            yield from account_for(service, receiver, changes, options.patience)
    assert receiver.node
    receiver.node.end()


def subscribe(service: Whole, receiver: Receiver, url: str) -> None:
    """Subscribe the receiver, and wait until the subscriptions have started."""
    command = [sys.executable, "-m", "proofs.subscribing"]
    command += [str(service.credentials["product_id"]), url]
    process = subprocess.run(
        command,
        cwd=PROJECT,
        env={**own_environment(service.folder), "DJANGO_SETTINGS_MODULE": "config.settings"},
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise Failed(f"Subscribing failed:\n{process.stderr[-2000:]}")
    receiver.expect(json.loads(process.stdout)["secret"])
    until(lambda: count(service, _STARTED) == 2, "the subscriptions to start")


def count(service: Whole, statement: LiteralString) -> int:
    """What the statement counts; -1 while the database is away."""
    with suppress(psycopg.Error), service.connect() as database:
        return number(database, statement)
    return -1


class Changes:
    """Posts accounts that enter the segment, each once. Every second one leaves it, as soon as what
    tells of its entering is in the outbox, whether or not it is delivered.
    """

    def __init__(self, service: Whole) -> None:
        self._service = service
        self.accounts = 0
        self.left: set[int] = set()

    def make(self, ended: threading.Event) -> None:
        client = self._client()
        while not ended.wait(PAUSE):
            if post(client, self.accounts, "pro"):
                self.accounts += 1

    def unmake(self, ended: threading.Event) -> None:
        client = self._client()
        while not ended.wait(PAUSE):
            for account in self._leaving():
                if post(client, account, "free"):
                    self.left.add(account)

    def finish(self) -> None:
        """Have the last account accepted, too: it may have been without a response."""
        until(lambda: post(self._client(), self.accounts, "pro"), "a 202")
        self.accounts += 1

    def finish_leaving(self) -> None:
        client = self._client()
        for account in self._leaving():
            until(lambda number=account: post(client, number, "free"), "a 202")  # type: ignore[misc]
            self.left.add(account)

    def _leaving(self) -> list[int]:
        """The accounts of the outbox that have not left yet, and will; none without a database."""
        leaving = set(range(0, self.accounts, 2)) - self.left
        with suppress(psycopg.Error), self._service.connect() as database:
            entered = {int(title.split()[1]) for (title,) in database.execute(_ENTERED)}
            return sorted(leaving & entered)
        return []

    def _client(self) -> Client:
        return Client(self._service.address, headers=basic(self._service.key))


def post(client: Client, account: int, plan: str) -> bool:
    """Whether the message was accepted. One that was not is posted again."""
    body = json.dumps({"groupId": f"account {account}", "traits": {"plan": plan}})
    response = client.request("POST", "/v2/group", body)
    return response is not None and response.status == 202


def account_for(service: Whole, receiver: Receiver, changes: Changes, patience: float) -> Report:
    """Compare what happened with what the receiver was told."""
    yield Result("accounts that left while processes were killed", len(changes.left))
    changes.finish()
    expected = {f"account {number} entered Paying." for number in range(changes.accounts)}
    wait_until_told(service, receiver, expected, patience)
    changes.finish_leaving()
    expected |= {f"account {number} left Paying." for number in range(0, changes.accounts, 2)}
    wait_until_told(service, receiver, expected, patience)
    ids, counts = receiver.ids, receiver.counts
    yield Result("changes", len(expected))
    yield Result("changes that nobody was told of", len(expected - ids.keys()), must_be=0)
    yield Result("changes that did not happen", len(ids.keys() - expected), must_be=0)
    doubled = sum(len(own) > 1 for own in receiver.all_ids.values())
    yield Result("changes told with two ids", doubled, must_be=0)
    yield Result("accounts told of in the wrong order", receiver.out_of_order(), must_be=0)
    yield Result("invalid signatures", counts["invalid signatures"], must_be=0)
    yield Result("verified by npm's library", counts["verified by npm's library"])
    yield Result("refused by npm's library", counts["refused by it"], must_be=0)
    yield Result("requests", counts["requests"])
    yield Result("repeats with the same id", counts["repeats"])


def wait_until_told(
    service: Whole, receiver: Receiver, expected: set[str], patience: float
) -> None:
    def is_told() -> bool:
        service.check()
        return expected <= receiver.ids.keys() and count(service, _WAITING) == 0

    progress(f"Waiting until all of {len(expected)} changes are told.")
    with suppress(Failed):
        until(is_told, "all changes to be told", patience)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=3.0, help="how long to post and kill")
    parser.add_argument("--seed", type=int, default=1, help="draws the kills and the failures")
    parser.add_argument(
        "--patience", type=float, default=600.0, help="seconds to wait for what is not told yet"
    )


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
