"""Whatever is sent to any address, the service answers 2xx, 3xx, 4xx or 503, and lives on.

Several clients send broken, huge, endless and odd requests over raw sockets to a whole service, as
fast as they are answered. Counted are the answers by address, processes that died, memory, and
whether the inbox is empty soon after.
"""

import argparse
import gzip
import json
import random
import socket
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, LiteralString, NamedTuple
from urllib.parse import quote, quote_from_bytes

import psutil
import psycopg

from harness.command import run_command
from harness.report import progress, table
from harness.service import HOST, until
from harness.whole import Whole, running

CLIENTS = 8
# Longer than the service waits for a client that says nothing.
ANSWER_TIMEOUT = 45.0
SETTLE_PATIENCE = 180.0
MEMORY_GROWTH_MB = 200.0
METRICS_TOKEN = "metrics-token-of-a-benchmark"
KEPT_FAULTS = 10
CSRF = "a" * 32

DOORS = (
    *(f"/v2/{name}" for name in ("identify", "group", "track")),
    *(f"/v1/{name}" for name in ("users", "groups", "events")),
    "/segment",
    *(f"/segment/v1/{name}" for name in ("batch", "import", "identify", "group", "track", "page")),
    *(f"/segment/v1/{letter}" for letter in "igtpb"),
)
READING = (
    "/v2/workspaces",
    "/v2/workspaces/{}",
    "/v2/accounts",
    "/v2/accounts/{}",
    "/v2/users",
    "/v2/users/{}",
    "/v2/segments",
    "/v2/segments/{}",
    "/v2/segments/{}/members",
    "/v1/accounts",
)
PAGES = ("/admin/login/", "/admin/", "/metrics", "/healthz", "/readyz", "/openapi.json", "/docs")
PARAMETERS: tuple[str, ...] = (
    "workspace_id",
    "limit",
    "cursor",
    "offset",
    "expand",
    "match_type",
    "match_value",
)
PARAMETERS += ("id", "scope", "traits", "segment_id", "sort", "next", "q", "\0", "é")
FIELDS: tuple[str, ...] = (
    "userId",
    "groupId",
    "event",
    "traits",
    "timestamp",
    "messageId",
    "context",
    "type",
)
FIELDS += ("user_id", "group_id", "message_id", "api_key", "properties", "batch", "sentAt")
FIELDS += ("originalTimestamp", "anonymousId", "previousId", "writeKey", "name", "integrations")
# Headers that a server may take for its own variables, or for those of a proxy in front of it.
STEERING = ("SCRIPT_NAME", "PATH_INFO", "X-Forwarded-Proto", "X-Forwarded-Ssl", "X-Forwarded-For")
CONTENT_TYPES = (
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "é;=",
    "text/plain; charset*=utf-8''%00",
    "text/plain; charset*=utf-7''+2AA-",
)
TIMES = (
    "2016-12-31T23:59:60Z",
    "2026-01-01T24:00:00Z",
    "0000-01-01T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-02-30T00:00:00Z",
    "2026-01-01T00:00:00+99:99",
    "2026-W01-1",
    "20260101",
)
NUMBERS: tuple[str, ...] = (
    "NaN",
    "-Infinity",
    "1e999",
    "-1e999",
    "-0",
    "1e-999",
    "0.1e400",
    "9" * 5000,
)
NUMBERS += ("1" + "0" * 30, str(2**63), str(-(2**63) - 1), "01", "1.", "0x10", "null", "true")
TEXTS: tuple[str, ...] = (
    "",
    " ",
    "\0",
    "a\0b",
    "\ud800",
    "\udfff\ud800",
    "\ufeff",
    "\u202e",
    "😀",
    "' OR 1=1 --",
)
TEXTS += ("a" * 513, "a" * 100_000, "%s%n{0}", "../../etc/passwd", "am.tier", "__proto__", *TIMES)


class Request(NamedTuple):
    """The bytes of a request, and the address it is counted under. *pause* is in its middle."""

    address: str
    data: bytes
    pause: float = 0.0


@dataclass
class Told:
    """What was answered, by address; "closed" and "silent" where there was no answer."""

    statuses: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, request: Request, status: str) -> None:
        with self.lock:
            self.statuses[request.address][status] += 1
            is_fault = status == "silent" or (status.startswith("5") and status != "503")
            if is_fault and len(self.faults) < KEPT_FAULTS:
                self.faults.append(f"{status}: {request.data[:400]!r}")


class Attacker:
    """Makes requests. The same seed makes the same ones."""

    def __init__(self, whole: Whole, seed: int) -> None:
        self._chance = random.Random(seed)
        self._key = whole.key
        self._token = whole.credentials["api_token"]
        self._kinds = [self._to_door] * 6 + [self._to_reading] * 3
        self._kinds += [self._to_page, self._to_anywhere]

    def request(self) -> Request:
        return self._chance.choice(self._kinds)()

    def _to_door(self) -> Request:
        address = self._chance.choice(DOORS)
        body = self._damaged(self._body())
        headers = {"Authorization": self._authorization(f"Basic {self._key}")}
        if self._chance.random() < 0.3:
            headers["Content-Type"] = self._chance.choice(CONTENT_TYPES)
        if self._chance.random() < 0.2:
            headers["Idempotency-Key"] = self._header_text()
        if self._chance.random() < 0.3:
            headers["Content-Encoding"] = self._chance.choice(("gzip", "gzip", "br", "identity"))
            body = self._compressed(body)
        pause = 1.0 if self._chance.random() < 0.02 else 0.0
        return Request(address, self._spelled("POST", address, headers, body), pause)

    def _to_reading(self) -> Request:
        address = self._chance.choice(READING)
        path = address.replace("{}", self._in_path(self._chance.choice(("1", "2", self._odd()))))
        headers = {"Authorization": self._authorization(f"Bearer {self._token}")}
        method = self._chance.choice(("GET",) * 8 + ("HEAD", "POST", "OPTIONS", "TRACE"))
        return Request(address, self._spelled(method, path + self._query(), headers, b""))

    def _to_page(self) -> Request:
        address = self._chance.choice(PAGES)
        headers = {"Authorization": self._authorization(f"Bearer {METRICS_TOKEN}")}
        if address != "/admin/login/" or self._chance.random() < 0.3:
            return Request(address, self._spelled("GET", address + self._query(), headers, b""))
        form = {name: self._in_path(self._odd()) for name in ("username", "password", "next")}
        form["csrfmiddlewaretoken"] = CSRF
        body = "&".join(f"{name}={value}" for name, value in form.items()).encode()
        headers = {
            "Cookie": f"csrftoken={CSRF}; eds-session={self._header_text()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        return Request(address, self._spelled("POST", address, headers, body))

    def _to_anywhere(self) -> Request:
        """Hardly HTTP."""
        kind = self._chance.randrange(4)
        if kind == 0:
            return Request("(noise)", self._chance.randbytes(self._chance.randrange(1, 2000)))
        if kind == 1:
            path = "/" + self._in_path(self._odd())
            return Request("(any path)", self._spelled("GET", path, {}, b""))
        if kind == 2:
            headers = {f"X-{number}": "a" * 50 for number in range(self._chance.randrange(300))}
            headers[self._header_text()] = self._header_text()
            return Request("(headers)", self._spelled("GET", "/v2/users", headers, b""))
        head = f"POST /v2/track HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = (
            b"5\r\nabcde\r\n0\r\n\r\n",
            b"zz\r\n",
            b"-1\r\n",
            b"ffffffffffffffff\r\na",
            b"3\r\na",
        )
        return Request("(chunks)", head.encode() + self._chance.choice(chunks))

    # Pieces of requests

    def _spelled(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if self._chance.random() < 0.1:
            value = self._chance.choice(("x", "/x", "https", self._header_text()))
            lines.append(f"{self._chance.choice(STEERING)}: {value}")
        if method == "POST":
            lines.append(f"Content-Length: {self._length(body)}")
        head = "\r\n".join(lines) + "\r\n\r\n"
        return head.encode("utf-8", "replace") + body

    def _length(self, body: bytes) -> str:
        if self._chance.random() < 0.93:
            return str(len(body))
        wrong = (len(body) + 10, max(len(body) - 3, 0), -1, 10**12, 10**40, "", "abc", "1_0", "+5")
        return str(self._chance.choice(wrong))

    def _authorization(self, right: str) -> str:
        if self._chance.random() < 0.8:
            return right
        wrong = ("", "Basic", "Basic ", "Bearer", "Basic \x01", "Negotiate x", self._header_text())
        return self._chance.choice(wrong)

    def _header_text(self) -> str:
        return self._odd().replace("\n", " ").replace("\r", " ")[:3000]

    def _odd(self) -> str:
        return self._chance.choice((*TEXTS, *NUMBERS))

    def _in_path(self, text: str) -> str:
        if self._chance.random() < 0.1:
            return quote_from_bytes(self._chance.randbytes(20))
        return quote(text[:5000].encode("utf-8", "surrogatepass"))

    def _query(self) -> str:
        if self._chance.random() < 0.1:
            return "?" + self._chance.choice(("%00", "%ff=%ff", "&&=&", "a" * 7000, "%", "%zz"))
        names = self._chance.sample(PARAMETERS, self._chance.randrange(5))
        pairs = [f"{self._in_path(name)}={self._value(name)}" for name in names]
        if self._chance.random() < 0.7:
            pairs.append("workspace_id=1")
        return "?" + "&".join(pairs)

    def _value(self, name: str) -> str:
        good = {"limit": "20", "scope": "user", "expand": "traits,segments,events,history,insights"}
        good |= {"match_type": "email", "workspace_id": "1"}
        if name in good and self._chance.random() < 0.5:
            return good[name]
        return self._in_path(self._odd())

    def _body(self) -> bytes:
        kind = self._chance.randrange(20)
        if kind == 0:
            depth = self._chance.choice((10, 100, 10_000, 200_000))
            opening = self._chance.choice(('{"traits":', "[", '{"a":'))
            return opening.encode() * depth
        if kind == 1:
            return json.dumps({f"key {n}": n for n in range(self._chance.randrange(5000))}).encode()
        if kind == 2:
            return b'{"userId":"' + b"a" * 1_000_000 + b'"}'
        if kind == 3:
            return self._chance.choice((b"", b"null", b"[]", b'"a"', b"1", b"userId=a&event=b"))
        return self._object(2).encode("utf-8", "surrogatepass")

    def _object(self, depth: int) -> str:
        """An object that mostly means something, spelled by hand: JSON that no encoder writes."""
        pairs = [
            ("userId", '"u1"'),
            ("groupId", '"a1"'),
            ("event", '"opened"'),
            ("type", '"track"'),
        ]
        names = self._chance.choices(FIELDS, k=self._chance.randrange(4))
        pairs += [(name, self._json(depth)) for name in names]
        if self._chance.random() < 0.3:
            batch = ",".join(self._object(1) for _ in range(self._chance.randrange(4)) if depth > 1)
            pairs.append(("batch", f"[{batch}]"))
        self._chance.shuffle(pairs)
        return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in pairs) + "}"

    def _json(self, depth: int) -> str:
        kind = self._chance.randrange(6 if depth else 3)
        if kind == 0:
            return self._chance.choice(NUMBERS)
        if kind < 3:
            text = self._odd()[:2000]
            return json.dumps(text, ensure_ascii=self._chance.random() < 0.7)
        if kind == 3:
            return "[" + ",".join(self._json(depth - 1) for _ in range(3)) + "]"
        names = [json.dumps(self._odd()[:300]) for _ in range(3)]
        return "{" + ",".join(f"{name}:{self._json(depth - 1)}" for name in names) + "}"

    def _damaged(self, body: bytes) -> bytes:
        if self._chance.random() < 0.8:
            return body
        place = self._chance.randrange(len(body) + 1)
        put_in = self._chance.choice(
            (b"", b"\0", b"\xff", b"\xef\xbb\xbf", b'"', b"}", b"\xed\xa0\x80")
        )
        return body[:place] + put_in + body[place + self._chance.randrange(3) :]

    def _compressed(self, body: bytes) -> bytes:
        kind = self._chance.randrange(5)
        if kind == 0:
            return body
        if kind == 1:
            return BOMB
        packed = gzip.compress(body, 1)
        return packed[: self._chance.randrange(len(packed))] if kind == 2 else packed


# 100 MB of zeros, which take 100 KB.
BOMB = gzip.compress(b"0" * 100_000_000, 9)


def attack(whole: Whole, told: Told, over: threading.Event, seed: int) -> None:
    attacker = Attacker(whole, seed)
    while not over.is_set():
        request = attacker.request()
        told.note(request, send(whole.port, request))


def send(port: int, request: Request) -> str:
    """The answer's status; "closed" where the connection ended without one."""
    with socket.socket() as client:
        client.settimeout(ANSWER_TIMEOUT)
        try:
            client.connect((HOST, port))
        except OSError:
            return "refused"
        # Whoever answers before the end may close while we still send.
        with suppress(OSError):
            half = len(request.data) // 2 if request.pause else 0
            client.sendall(request.data[:half])
            time.sleep(request.pause)
            client.sendall(request.data[half:])
            client.shutdown(socket.SHUT_WR)
        try:
            said = client.makefile("rb").readline(100)
        except TimeoutError:
            return "silent"
        except OSError:
            return "closed"
    words = said.split()
    return words[1].decode("latin-1") if len(words) > 1 else "closed"


# --- What it did to the service ---------------------------------------------------------------

_NUMBERS: dict[str, LiteralString] = {
    "events": "SELECT count(*) FROM engagement_event",
    "users": "SELECT count(*) FROM engagement_user",
    "dropped": "SELECT count(*) FROM ingestion_droppedmessage",
    "quarantined": "SELECT count(*) FROM ingestion_quarantinedmessage",
}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    told, over = Told(), threading.Event()
    limits = {"EDS_METRICS_TOKEN": METRICS_TOKEN, "EDS_READ_REQUESTS_PER_MINUTE": "0"}
    with running(**limits) as whole:
        before, memory = alive(whole), [largest(whole)]
        progress(f"{CLIENTS} clients attack for {options.minutes:g} min.")
        clients = [
            threading.Thread(target=attack, args=(whole, told, over, options.seed + n), daemon=True)
            for n in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        until_time = time.monotonic() + options.minutes * 60
        while time.monotonic() < until_time:
            time.sleep(0.5)
            memory.append(largest(whole))
        over.set()
        for client in clients:
            client.join()
        progress("The inbox is to be emptied.")
        began = time.monotonic()
        until(lambda: count(whole, "ingestion_inboxmessage") == 0, "the inbox", SETTLE_PATIENCE)
        return {
            "seed": options.seed,
            "statuses": {
                address: dict(told.statuses[address]) for address in sorted(told.statuses)
            },
            "faults": told.faults,
            "died": sorted(before - alive(whole)),
            "memory_mb": {"at_first": memory[0], "at_most": max(memory)},
            "inbox_empty_after_s": time.monotonic() - began,
            **numbers(whole),
        }


def alive(whole: Whole) -> set[str]:
    """The processes of the service that must not die, by what they do and their ids."""
    return {
        f"{role} {process.pid}"
        for role, processes in whole.processes().items()
        if role != "PostgreSQL"
        for process in processes
    }


def largest(whole: Whole) -> float:
    """The memory of the largest web worker or Celery process, in MB."""
    sizes = [0]
    for role, processes in whole.processes().items():
        if role != "PostgreSQL":
            for process in processes:
                with suppress(psutil.Error):
                    sizes.append(process.memory_info().rss)
    return max(sizes) / 1024 / 1024


def count(whole: Whole, name: LiteralString) -> int:
    with suppress(psycopg.Error), whole.connect() as database:
        statement: LiteralString = "SELECT count(*) FROM " + name
        row = database.execute(statement).fetchone()
        assert row is not None
        return int(row[0])
    return -1


def numbers(whole: Whole) -> dict[str, int]:
    with whole.connect() as database:
        found = {name: database.execute(asked).fetchone() for name, asked in _NUMBERS.items()}
    return {name: int(row[0]) for name, row in found.items() if row is not None}


# --- The command ------------------------------------------------------------------------------


def show(figures: dict[str, Any]) -> None:
    seen = sorted({status for counts in figures["statuses"].values() for status in counts})
    rows = [
        [address, *(f"{counts.get(status, 0):,}" if status in counts else "" for status in seen)]
        for address, counts in figures["statuses"].items()
    ]
    total = sum(sum(counts.values()) for counts in figures["statuses"].values())
    memory = figures["memory_mb"]
    print(table(["", *seen], rows))
    print(
        f"{total:,} requests; {figures['events']:,} events and {figures['users']:,} users "
        f"recorded, {figures['dropped']:,} messages dropped, "
        f"{figures['quarantined']:,} quarantined.\n"
        f"Died: {', '.join(figures['died']) or 'nobody'}. The largest process had "
        f"{memory['at_first']:.0f} MB at first and {memory['at_most']:.0f} MB at most. The inbox "
        f"was empty after {figures['inbox_empty_after_s']:.1f} s."
    )


def faults(figures: dict[str, Any]) -> list[str]:
    memory = figures["memory_mb"]
    found = list(figures["faults"])
    found += [f"{one} died." for one in figures["died"]]
    if memory["at_most"] - memory["at_first"] > MEMORY_GROWTH_MB:
        found.append(f"A process grew to {memory['at_most']:.0f} MB.")
    if figures["quarantined"]:
        found.append(f"{figures['quarantined']} messages passed a door and could not be recorded.")
    return found


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to attack")
    parser.add_argument("--seed", type=int, default=1, help="draws the requests")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
