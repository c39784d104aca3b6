"""How much longer a page of the read API takes with a million accounts than with a thousand.

Each size has a database and a web server of its own; the same requests go to both in turns. The
large one is also read with the limit of requests a minute switched on, which is held against off.
"""

import argparse
import http.client
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median
from typing import Any
from urllib.parse import urlencode, urlsplit

from benchmarks import report
from benchmarks.command import run_command
from benchmarks.report import progress
from benchmarks.service import Failed, Service, temporary_service

SMALL_ACCOUNTS, SMALL_USERS = 1_000, 3_000
PAGE = 100
EXPANSIONS = "insights,traits,segments,events,history"
GENERATING = 6 * 3600.0
NEVER_REACHED = "1000000000"


class Reader:
    """Reads one product over one connection."""

    def __init__(self, address: str, made: dict[str, Any]) -> None:
        place = urlsplit(address)
        assert place.hostname is not None
        self._connection = http.client.HTTPConnection(place.hostname, place.port, timeout=600)
        self._headers = {"Authorization": f"Bearer {made['api_token']}"}
        self._workspace = made["workspace_id"]

    def path(self, path: str, **parameters: object) -> str:
        return f"{path}?{urlencode({'workspace_id': self._workspace, **parameters})}"

    def get(self, path: str) -> dict[str, Any]:
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise Failed(f"GET {path} was answered {answer.status}: {body[:300]!r}")
        read: dict[str, Any] = json.loads(body)
        return read

    def seconds(self, path: str) -> float:
        started = time.perf_counter()
        self.get(path)
        return time.perf_counter() - started


def requests(reader: Reader, depth: int) -> dict[str, str]:
    """What is measured, by name; the deep page is the last one where there are fewer."""
    first = reader.path("/v2/accounts", limit=PAGE)
    pages = list(walk(reader, first, depth))
    account = reader.get(first)["data"][0]["id"]
    segments = reader.get(reader.path("/v2/segments", scope="account"))["data"]
    members = f"/v2/segments/{segments[0]['id']}/members"
    return {
        "first page": first,
        "deep page": pages[-1],
        "account, expanded": reader.path(f"/v2/accounts/{account}", expand=EXPANSIONS),
        "segment members": reader.path(members, limit=PAGE),
        "segment counts": reader.path("/v2/segments", expand="counts"),
    }


def walk(reader: Reader, first: str, depth: int) -> Iterator[str]:
    path: str | None = first
    for _ in range(depth):
        if path is None:
            return
        yield path
        following = reader.get(path)["_links"].get("next")
        if isinstance(following, dict):
            following = following["href"]
        path = None if following is None else "{0.path}?{0.query}".format(urlsplit(following))


def generate(service: Service, accounts: int, users: int, days: int) -> dict[str, Any]:
    progress(f"Generating {accounts:,} accounts and {users:,} users.")
    sizes = [f"--accounts={accounts}", f"--users={users}", f"--days={days}"]
    made: dict[str, Any] = json.loads(
        service.run("manage.py", "generate_data", "--json", *sizes, timeout=GENERATING)
    )
    return made


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with ExitStack() as stack:
        small = stack.enter_context(temporary_service())
        large = stack.enter_context(temporary_service())
        made = generate(small, SMALL_ACCOUNTS, SMALL_USERS, options.days)
        much = generate(large, options.accounts, options.users, options.days)
        off = {"EDS_READ_REQUESTS_PER_MINUTE": "0"}
        on = {"EDS_READ_REQUESTS_PER_MINUTE": NEVER_REACHED}
        few = Reader(small.start_web("small", **off), made)
        many = Reader(large.start_web("large", **off), much)
        limited = Reader(large.start_web("limited", **on), much)
        return compared(few, many, limited, options)


def compared(
    few: Reader, many: Reader, limited: Reader, options: argparse.Namespace
) -> dict[str, Any]:
    small, large = requests(few, options.depth), requests(many, options.depth)
    rows = []
    for name in large:
        times: list[list[float]] = [[], [], []]
        for turn in range(options.rounds + 1):
            asked = ((few, small[name]), (many, large[name]), (limited, large[name]))
            for place, (reader, path) in enumerate(asked):
                taken = reader.seconds(path)
                if turn:  # The first turn warms up.
                    times[place].append(taken * 1000)
        a, b, c = (median(values) for values in times)
        rows.append({"page": name, "small_ms": a, "large_ms": b, "limited_ms": c})
    return {"accounts": options.accounts, "users": options.users, "pages": rows}


def show(figures: dict[str, Any]) -> None:
    heads = ["p50 in ms", "small", "large", "large/small", "limit on", "on/off"]
    print(f"small: {SMALL_ACCOUNTS:,} accounts; large: {figures['accounts']:,} accounts")
    print(report.table(heads, [cells(row) for row in figures["pages"]]))


def cells(row: dict[str, Any]) -> list[str]:
    small, large, limited = row["small_ms"], row["large_ms"], row["limited_ms"]
    ratios = f"{large / small:.2f}", f"{limited / large:.2f}"
    return [row["page"], f"{small:.1f}", f"{large:.1f}", ratios[0], f"{limited:.1f}", ratios[1]]


def faults(figures: dict[str, Any]) -> list[str]:
    """A page that is not answered fails at once."""
    return []


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--accounts", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=3_000_000)
    parser.add_argument("--days", type=int, default=30, help="days of counts")
    parser.add_argument("--depth", type=int, default=1000, help="number of the deep page")
    parser.add_argument("--rounds", type=int, default=50, help="turns of each page")


if __name__ == "__main__":
    run_command("reading", __doc__, arguments, measure, show, faults)
