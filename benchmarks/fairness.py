"""How long a product's message waits until it is recorded while others flood the service: with a
backlog of 200,000 messages of one product, with constant sending, and without a valid key.
"""

import argparse
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, LiteralString
from urllib.parse import urlsplit

import psycopg

from harness import report
from harness.command import run_command
from harness.report import progress
from harness.service import Service, temporary_service, until

SECONDS = 3.0
SENDERS = 4
BATCH = 500
PATIENCE = 120.0

_RECORDED: LiteralString = """
    SELECT count(*) FROM engagement_event e JOIN engagement_user u ON u.id = e.user_id
    WHERE u.product_id = %s
"""
_INBOX: LiteralString = "SELECT count(*) FROM ingestion_inboxmessage"
_LISTED: LiteralString = "SELECT count(*) FROM ingestion_droppedmessage"
_COUNTED: LiteralString = "SELECT COALESCE(sum(count), 0) FROM ingestion_dropcount"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with temporary_service() as service:
        # The limit is part of this measurement.
        service.environment.pop("EDS_INBOX_LIMIT", None)
        bench = Bench(service, options.seconds)
        return {
            "floods": [
                bench.beside("nothing", bench.nothing),
                bench.beside(
                    f"{options.messages:,} messages of one product in the inbox",
                    lambda: bench.backlog(options.messages),
                ),
                bench.beside(
                    "one product that sends as fast as it can",
                    lambda: bench.flood(bench.flooding_key, options.unknown),
                ),
                bench.beside(
                    "messages without a key, as fast as possible",
                    lambda: bench.flood("", options.unknown),
                    is_dropped=True,
                ),
            ]
        }


class Bench:
    """A service with a product that floods it, and a neighbor that sends single messages."""

    def __init__(self, service: Service, seconds: float) -> None:
        self._service = service
        self._seconds = seconds
        self._database = service.connect()
        self.flooding_key: str = service.create_product()["ingestion_key"]
        output = service.run("manage.py", "create_product", "Neighbor", "--json")
        self._neighbor: dict[str, Any] = json.loads(output)
        self._product = _number(self._database, "SELECT max(id) FROM engagement_product")
        self._address = urlsplit(service.start_web("web"))
        service.start_workers()
        service.start_beat()
        self._send_identify()

    def beside(
        self, what: str, flood: Callable[[], Any], *, is_dropped: bool = False
    ) -> dict[str, Any]:
        """How long the neighbor's messages wait, one after another, during the flood."""
        progress(f"Beside {what}.")
        listed, counted = (_number(self._database, query) for query in (_LISTED, _COUNTED))
        waits: list[float] = []
        refused = 0
        with flood() as sent:
            deadline = time.monotonic() + self._seconds
            while time.monotonic() < deadline:
                waited = self._wait_for_one()
                waits += [waited] if waited is not None else []
                refused += waited is None
            depth = _number(self._database, _INBOX)
        until(lambda: not _number(self._database, _INBOX), "the inbox to be empty", PATIENCE)
        if is_dropped:
            # Web processes write the counts every ten seconds.
            enough = counted + sent[0]
            until(lambda: _number(self._database, _COUNTED) >= enough, "the counts", PATIENCE)
        progress(f"Median {median(waits):.2f} s, at most {max(waits):.2f} s.")
        return {
            "beside": what,
            "sent": sent[0],
            "inbox": depth,
            "messages": len(waits),
            "refused": refused,
            "median_s": median(waits),
            "longest_s": max(waits),
            "is_dropped": is_dropped,
            "dropped_listed": _number(self._database, _LISTED) - listed,
            "dropped_counted": _number(self._database, _COUNTED) - counted,
        }

    @contextmanager
    def nothing(self) -> Iterator[list[int]]:
        yield [0]

    @contextmanager
    def backlog(self, messages: int) -> Iterator[list[int]]:
        self._service.run(
            "-m",
            "benchmarks.within",
            "fill_and_wake",
            str(messages),
            self.flooding_key,
            timeout=300,
        )
        yield [messages]

    @contextmanager
    def flood(self, key: str, most: int) -> Iterator[list[int]]:
        """Send batches from several connections, up to *most* messages."""
        sent, over = [0], threading.Event()

        def send() -> None:
            connection = self._connect()
            while not over.is_set() and sent[0] < most:
                status = self._post(connection, "/segment/v1/batch", _BATCH, key)
                if status == 200:
                    sent[0] += BATCH
                else:
                    over.wait(0.2)

        senders = [threading.Thread(target=send, daemon=True) for _ in range(SENDERS)]
        for sender in senders:
            sender.start()
        try:
            yield sent
        finally:
            over.set()
            for sender in senders:
                sender.join()

    def _wait_for_one(self) -> float | None:
        """Seconds from posting a message until it is recorded, or None if it is rejected."""
        before = self._recorded()
        started = time.monotonic()
        body = b'{"userId": "gil", "event": "opened"}'
        if self._post(self._connect(), "/v2/track", body, self._neighbor["ingestion_key"]) != 202:
            time.sleep(0.2)
            return None
        until(lambda: self._recorded() > before, "the message to be recorded", PATIENCE)
        return time.monotonic() - started

    def _send_identify(self) -> None:
        key = self._neighbor["ingestion_key"]
        self._post(self._connect(), "/v2/identify", b'{"userId": "gil"}', key)
        self._wait_for_one()

    def _recorded(self) -> int:
        return _number(self._database, _RECORDED, self._product)

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(
            self._address.hostname or "", self._address.port, timeout=PATIENCE
        )

    def _post(
        self, connection: http.client.HTTPConnection, path: str, body: bytes, key: str
    ) -> int:
        headers = {"Host": "localhost", "Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Basic {key}"
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status


_BATCH = json.dumps(
    {"batch": [{"type": "track", "userId": f"u{n}", "event": "opened"} for n in range(BATCH)]}
).encode()


def _number(database: "psycopg.Connection[Any]", statement: LiteralString, *values: Any) -> int:
    row = database.execute(statement, values or None).fetchone()
    assert row is not None
    return int(row[0])


def show(figures: dict[str, Any]) -> None:
    header = ["beside", "sent", "inbox", "waited, median", "at most", "listed", "dropped"]
    rows = [
        [
            flood["beside"],
            f"{flood['sent']:,}",
            f"{flood['inbox']:,}",
            f"{flood['median_s']:.2f} s",
            f"{flood['longest_s']:.2f} s",
            f"{flood['dropped_listed']:,}",
            f"{flood['dropped_counted']:,}",
        ]
        for flood in figures["floods"]
    ]
    print("\n".join(" | ".join(row) for row in [header, *rows]))
    for flood in figures["floods"]:
        print(report.verdict(f"Beside {flood['beside']}, s", flood["longest_s"], at_most=SECONDS))


def faults(figures: dict[str, Any]) -> list[str]:
    refused = [
        f"Beside {flood['beside']} {flood['refused']} messages of the neighbor were rejected."
        for flood in figures["floods"]
        if flood["refused"]
    ]
    miscounted = [
        f"Beside {flood['beside']} {flood['dropped_counted']:,} of {flood['sent']:,} were counted."
        for flood in figures["floods"]
        if flood["dropped_counted"] != (flood["sent"] if flood["is_dropped"] else 0)
    ]
    return refused + miscounted


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--messages", type=int, default=200_000, help="messages in the inbox")
    parser.add_argument("--unknown", type=int, default=1_000_000, help="messages sent at most")
    parser.add_argument("--seconds", type=float, default=15.0, help="for each flood")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
