"""Draws hostile requests and sends them over raw sockets."""

import gzip
import json
import random
import re
import socket
import time
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, quote_from_bytes

from harness.http import Address, basic, bearer
from harness.processes import HOST
from harness.whole import Whole
from proofs.hostile_input import (
    BODIES,
    FIELDS,
    GOOD,
    GZIPPED,
    HEADERS,
    NUMBERS,
    QUERIES,
    SERVER_HEADERS,
    TEXTS,
)

# Longer than the service waits for a client that sends nothing.
RESPONSE_TIMEOUT = 45.0
METRICS_TOKEN = "metrics-token-of-a-proof"
CSRF = "a" * 32
ALL_HEADERS = (*HEADERS.values(), *SERVER_HEADERS.values())

PAGES = ("/admin/login/", "/admin/", "/metrics", "/healthz", "/readyz", "/openapi.json", "/docs")
BATCH_DOORS = ("/batch", "/import", "/b")
# Headers that a server may take for its own variables, or for those of a proxy in front of it.
STEERING = ("SCRIPT_NAME", "PATH_INFO", "X-Forwarded-Proto", "X-Forwarded-Ssl", "X-Forwarded-For")
# What the description cannot say of a good value.
GOOD_VALUES = {
    "match_type": ("email", "domain", "tracking_id", "plan"),
    "match_value": ("ada", "initech", "ada@example.com", "pro"),
    "traits": ("plan", "plan,email", "am.tier"),
}


class Request(NamedTuple):
    """The bytes of a request, and the address it is counted under. *pause* is in its middle."""

    address: str
    data: bytes
    pause: float = 0.0


class Description:
    """The service's addresses, as its own OpenAPI description lists them."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.doors = [path for path, methods in content["paths"].items() if "post" in methods]
        # The query parameters of each address that is read, with their schemas.
        self.readers: dict[str, dict[str, dict[str, Any]]] = {
            path: {
                parameter["name"]: parameter["schema"]
                for parameter in methods["get"].get("parameters", ())
                if parameter["in"] == "query"
            }
            for path, methods in content["paths"].items()
            if "get" in methods
        }


class Attacker:
    """Draws requests. The same seed draws the same ones, except for cursors."""

    def __init__(self, service: Whole, description: Description, seed: int) -> None:
        self.cursor = "none"
        self._chance = random.Random(seed)
        self._description = description
        self._key = service.key
        self._token = service.credentials["api_token"]
        self._workspace = str(service.credentials["workspace_id"])
        self._kinds = [self._to_door] * 6 + [self._to_reader] * 3
        self._kinds += [self._to_page, self._to_anywhere]

    def request(self) -> Request:
        return self._chance.choice(self._kinds)()

    def _to_door(self) -> Request:
        address = self._chance.choice(self._description.doors)
        body = self._damaged(self._body(address.endswith(BATCH_DOORS)))
        headers = basic(self._key)
        if self._happens(0.15):
            headers |= self._chance.choice(ALL_HEADERS)
        if self._happens(0.1):
            headers["Idempotency-Key"] = self._header_text()
        if self._happens(0.2):
            headers["Content-Encoding"] = self._chance.choice(("gzip", "gzip", "br", "identity"))
            body = self._compressed(body)
        data = self._spelled("POST", address, headers, body)
        return Request(address, data, pause=1.0 if self._happens(0.02) else 0.0)

    def _to_reader(self) -> Request:
        address = self._chance.choice(list(self._description.readers))
        path = re.sub(r"\{\w+\}", lambda match: self._path_id(match[0]), address)
        headers = bearer(self._token)
        if self._happens(0.1):
            headers |= self._chance.choice(ALL_HEADERS)
        method = self._chance.choice(("GET",) * 12 + ("HEAD", "POST", "OPTIONS", "TRACE"))
        path += self._query(self._description.readers[address])
        return Request(address, self._spelled(method, path, headers, b""))

    def _to_page(self) -> Request:
        address = self._chance.choice(PAGES)
        if address != "/admin/login/" or self._happens(0.3):
            path = address + self._query({"next": {}, "q": {}})
            return Request(address, self._spelled("GET", path, bearer(METRICS_TOKEN), b""))
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
            headers = {f"X-{place}": "a" * 50 for place in range(self._chance.randrange(300))}
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

    def _happens(self, probability: float) -> bool:
        return self._chance.random() < probability

    def _spelled(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bytes:
        headers = {"Host": HOST, **headers}
        if self._happens(0.1):
            value = self._chance.choice(("x", "/x", "https", self._header_text()))
            headers[self._chance.choice(STEERING)] = value
        if method == "POST":
            headers.setdefault("Content-Length", self._length(body))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
        encoding = "latin-1" if self._happens(0.5) else "utf-8"
        return ("\r\n".join(lines) + "\r\n\r\n").encode(encoding, "replace") + body

    def _length(self, body: bytes) -> str:
        if self._happens(0.93):
            return str(len(body))
        wrong_lengths = (
            len(body) + 10,
            max(len(body) - 3, 0),
            -1,
            10**12,
            10**40,
            "",
            "abc",
            "1_0",
            "+5",
        )
        return str(self._chance.choice(wrong_lengths))

    def _header_text(self) -> str:
        return self._odd().replace("\n", " ").replace("\r", " ")[:3000]

    def _odd(self) -> str:
        return self._chance.choice((*TEXTS, *NUMBERS))

    def _in_path(self, text: str) -> str:
        if self._happens(0.1):
            return quote_from_bytes(self._chance.randbytes(20))
        return quote(text[:5000].encode("utf-8", "surrogatepass"))

    def _path_id(self, name: str) -> str:
        if self._happens(0.1):
            return self._in_path(self._odd())
        return self._workspace if name == "{workspace_id}" else str(self._chance.randrange(1, 7))

    def _query(self, parameters: dict[str, dict[str, Any]]) -> str:
        """A query that an address mostly understands, because others go no further than the names
        of the parameters."""
        if self._happens(0.05):
            return "?" + self._chance.choice(list(QUERIES.values()))
        names = {name for name in parameters if self._happens(0.3)}
        if self._happens(0.9):
            if names & {"match_type", "match_value"}:
                names = (names - {"cursor", "id"}) | {"match_type", "match_value"}
            if "cursor" in names:
                names.discard("offset")
            names |= {"workspace_id"} & parameters.keys()
        if self._happens(0.05):
            names.add(self._chance.choice((*FIELDS, "sort", "\0", "é")))
        pairs = [
            f"{self._in_path(name) if name not in parameters else name}="
            f"{self._value(name, parameters.get(name, {}))}"
            for name in sorted(names)
        ]
        return "?" + "&".join(pairs + pairs[: self._happens(0.02)])

    def _value(self, name: str, schema: dict[str, Any]) -> str:
        if not schema or self._happens(0.15):
            return self._in_path(self._odd())
        if name == "workspace_id":
            return self._workspace
        if name == "cursor":
            # A part of it may be no base64.
            is_cut = self._happens(0.2)
            return self.cursor[: -self._chance.randint(1, 4)] if is_cut else self.cursor
        if name in GOOD_VALUES:
            return self._chance.choice(GOOD_VALUES[name])
        if schema["type"] == "array":
            names = schema["items"]["enum"]
            return ",".join(self._chance.sample(names, self._chance.randint(1, len(names))))
        if schema["type"] == "integer":
            return str(self._chance.choice((1, 2, 20, schema["minimum"], schema["maximum"])))
        choices: list[str] = schema.get("enum", ["true", "false"])
        return self._chance.choice(choices)

    def _body(self, is_batch: bool) -> bytes:
        if self._happens(0.3):
            return self._chance.choice(list(BODIES.values()))(is_batch)
        return self._object(2).encode("utf-8", "surrogatepass")

    def _object(self, depth: int) -> str:
        """An object that mostly means something, spelled by hand: JSON that no encoder writes."""
        pairs = [(name, json.dumps(value)) for name, value in GOOD.items() if self._happens(0.8)]
        names = self._chance.choices(FIELDS, k=self._chance.randrange(4))
        pairs += [(name, self._json(depth)) for name in names]
        if self._happens(0.3):
            batch = ",".join(self._object(1) for _ in range(self._chance.randrange(4)) if depth > 1)
            pairs.append(("batch", f"[{batch}]"))
        self._chance.shuffle(pairs)
        return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in pairs) + "}"

    def _json(self, depth: int) -> str:
        kind = self._chance.randrange(6 if depth else 3)
        if kind == 0:
            return self._chance.choice(NUMBERS)
        if kind < 3:
            return json.dumps(self._odd()[:2000], ensure_ascii=self._happens(0.7))
        if kind == 3:
            return "[" + ",".join(self._json(depth - 1) for _ in range(3)) + "]"
        names = [json.dumps(self._odd()[:300]) for _ in range(3)]
        return "{" + ",".join(f"{name}:{self._json(depth - 1)}" for name in names) + "}"

    def _damaged(self, body: bytes) -> bytes:
        if self._happens(0.8):
            return body
        place = self._chance.randrange(len(body) + 1)
        piece = self._chance.choice(
            (b"", b"\0", b"\xff", b"\xef\xbb\xbf", b'"', b"}", b"\xed\xa0\x80")
        )
        return body[:place] + piece + body[place + self._chance.randrange(3) :]

    def _compressed(self, body: bytes) -> bytes:
        if self._happens(0.4):
            return self._chance.choice((body, *GZIPPED.values()))
        return gzip.compress(body, 1)


def send(address: Address, request: Request) -> tuple[str, bytes]:
    """Send the request. Return the status, "closed" if the connection ended without one, and what
    else has arrived by then."""
    with socket.socket() as client:
        client.settimeout(RESPONSE_TIMEOUT)
        try:
            client.connect(address)
        except OSError:
            return "refused", b""
        # A server that responds before the end may close while we still send.
        with suppress(OSError):
            half = len(request.data) // 2 if request.pause else 0
            client.sendall(request.data[:half])
            time.sleep(request.pause)
            client.sendall(request.data[half:])
            client.shutdown(socket.SHUT_WR)
        try:
            received = client.recv(100_000)
        except TimeoutError:
            return "silent", b""
        except OSError:
            return "closed", b""
    words = received[:100].split()
    return words[1].decode("latin-1") if len(words) > 1 else "closed", received
