"""How much longer a page of the read API takes with a million accounts than with a thousand.

Each size has a database and a web server of its own; the same requests go to both in turn. The
large one is also read with the limit of requests a minute switched on, which is compared with off.
What each page asks the database is counted on the large one. At the end all accounts are exported
to files.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from benchmarks.multiply import multiply
from harness.command import run_command
from harness.http import Client, bearer
from harness.report import Report, Result, Table, progress
from harness.service import Service, service_in, temporary_service

SMALL_ACCOUNTS, SMALL_USERS = 1_000, 3_000
# A larger product has copies of the rows of one of this size.
GENERATED_ACCOUNTS = 5_000
PAGE = 100
EXPANSIONS = "insights,traits,segments,events,history"
GENERATING = 6 * 3600.0
READ_TIMEOUT = 600.0
NEVER_REACHED = "1000000000"
FIRST, DEEP, ACCOUNT = "first page", "deep page", "account, expanded"
HIGHEST, MEMBERS, COUNTS = "highest account, expanded", "segment members", "segment counts"
# The pages that are compared with the small side.
COMPARED = (FIRST, DEEP, ACCOUNT)
TIMES_THE_SMALL = 1.5
TRAITS, METRICS = "first page with five traits", "first page with traits and metrics"
FIVE = "domain,country,industry,plan,createdAt"
# The pages of a list whose statements are limited.
LISTS = (FIRST, DEEP, MEMBERS, TRAITS, METRICS)
STATEMENTS_A_PAGE = 6
EXPORT_MB = 300


class Product:
    """A product of one side, and the web server that it is read from."""

    def __init__(self, service: Service, name: str, product: dict[str, Any], limit: str) -> None:
        address = service.start_web(name, EDS_READ_REQUESTS_PER_MINUTE=limit)
        self.client = Client(address, headers=bearer(product["api_token"]), timeout=READ_TIMEOUT)
        self._workspace = product["workspace_id"]

    def path(self, path: str, **parameters: object) -> str:
        return f"{path}?{urlencode({'workspace_id': self._workspace, **parameters})}"

    def largest_segment(self) -> int:
        """Of the segments that have conditions, the one with most accounts in it."""
        path = self.path("/v2/segments", scope="account", expand="counts", limit=PAGE)
        segments = [row for row in self.client.read_json(path)["data"] if row["conditions"]]
        largest: int = max(segments, key=lambda row: int(row["member_count"]))["id"]
        return largest

    def walk(self, depth: int) -> "Walk":
        """Follow the list of accounts to the page of this number, or to the last one."""
        active_users: dict[int, int] = {}
        path = self.path("/v2/accounts", limit=PAGE)
        for place in range(1, depth + 1):
            page = self.client.read_json(path)
            active_users |= {row["id"]: row["active_users"] for row in page["data"]}
            following = page["_links"].get("next")
            if following is None or place == depth:
                break
            path = "{0.path}?{0.query}".format(urlsplit(following))
        return Walk(path, place, active_users)


class Walk(NamedTuple):
    """The path of the page that was reached, its number, and the active users of each account on
    the way there, in the order of scores."""

    path: str
    depth: int
    active_users: dict[int, int]

    @property
    def highest(self) -> int:
        return next(iter(self.active_users))

    def account_like(self, active_users: int) -> int:
        """The account whose number of active users comes closest."""
        return min(self.active_users, key=lambda id: abs(self.active_users[id] - active_users))


def paths(product: Product, walk: Walk, account: int) -> dict[str, str]:
    """What is measured on a side, by name."""
    members = f"/v2/segments/{product.largest_segment()}/members"
    return {
        FIRST: product.path("/v2/accounts", limit=PAGE),
        DEEP: walk.path,
        ACCOUNT: product.path(f"/v2/accounts/{account}", expand=EXPANSIONS),
        HIGHEST: product.path(f"/v2/accounts/{walk.highest}", expand=EXPANSIONS),
        MEMBERS: product.path(members, limit=PAGE),
        TRAITS: product.path("/v2/accounts", limit=PAGE, expand="traits", traits=FIVE),
        METRICS: product.path("/v2/accounts", limit=PAGE, expand="traits,metrics", traits=FIVE),
        COUNTS: product.path("/v2/segments", expand="counts"),
    }


def generate(service: Service, accounts: int, users: int, days: int) -> dict[str, Any]:
    """A scored product of this size. Beyond GENERATED_ACCOUNTS, it has copies of its rows."""
    copies = max(1, accounts // GENERATED_ACCOUNTS)
    progress(f"Generating {accounts // copies:,} accounts and {users // copies:,} users.")
    sizes = [f"--accounts={accounts // copies}", f"--users={users // copies}", f"--days={days}"]
    product = service.run_json("manage.py", "generate_data", "--json", *sizes, timeout=GENERATING)
    if copies > 1:
        multiply(service, product["product_id"], copies)
        progress("Scoring and counting.")
        service.run_json("-m", "benchmarks.within", "score_all", timeout=GENERATING)
    return product


@contextmanager
def kept_service(
    folder: Path | None, make: Callable[[Service], dict[str, Any]]
) -> Iterator[tuple[Service, dict[str, Any]]]:
    """A service, and what *make* has made in it and returned.

    If a folder is named, it is made there once, and used again from then on.
    """
    if folder is None:
        with temporary_service() as service:
            yield service, make(service)
    else:
        with service_in(folder.resolve()) as service:
            product = folder / "made.json"
            if not product.exists():
                product.write_text(json.dumps(make(service)))
            yield service, json.loads(product.read_text())


@contextmanager
def large_product(options: argparse.Namespace) -> Iterator[tuple[Service, dict[str, Any]]]:
    """A service with a large product, and the product."""
    size = options.accounts, options.users, options.days
    with kept_service(options.keep, lambda service: generate(service, *size)) as large:
        yield large


@contextmanager
def both_sizes(
    options: argparse.Namespace,
) -> Iterator[tuple[Service, dict[str, Any], Service, dict[str, Any]]]:
    """A service with a small product and one with a large product, each with its product."""
    with temporary_service() as small:
        few = generate(small, SMALL_ACCOUNTS, SMALL_USERS, options.days)
        with large_product(options) as (large, many):
            yield small, few, large, many


def measure(options: argparse.Namespace) -> Report:
    with both_sizes(options) as (small, few, large, many):
        small_side = Product(small, "small", few, "0")
        large_side = Product(large, "large", many, "0")
        limited = Product(large, "limited", many, NEVER_REACHED)
        progress(f"Walking to page {options.depth:,}.")
        fewer, more = small_side.walk(options.depth), large_side.walk(options.depth)
        # An account of about the same size on both sides, because it costs what its size costs.
        alike = more.account_like(fewer.active_users[fewer.highest])
        small_paths = paths(small_side, fewer, fewer.highest)
        large_paths = paths(large_side, more, alike)
        # What each path asks the database, with the plans.
        command = ("benchmarks.statements", many["api_token"], *large_paths.values())
        statements = large.run_json("-m", *command, timeout=GENERATING)
        progress("Reading in turn.")
        pages: list[dict[str, Any]] = []
        for name, path in large_paths.items():
            read = {
                "small": (small_side.client, small_paths[name]),
                "large": (large_side.client, path),
                "limit on": (limited.client, path),
            }
            times = in_turn(read, options.rounds)
            pages.append(
                {
                    "p50 in ms": name,
                    **times,
                    "large/small": times["large"] / times["small"],
                    "on/off": times["limit on"] / times["large"],
                    "statements": len(statements[path]),
                }
            )
            if options.explain:
                yield Table(name, statements[path])
        progress("Exporting.")
        exported = export(large, many["product_id"])
    yield Table("pages", pages)
    yield Result("number of the deep page, small", fewer.depth)
    yield Result("number of the deep page, large", more.depth, must_be=options.depth)
    yield Result("active users of the account, small", fewer.active_users[fewer.highest])
    yield Result("active users of the account, large", more.active_users[alike])
    yield Result("active users of the highest account, large", more.active_users[more.highest])
    complete, changes = exported["complete"], exported["changes"]
    yield Result("accounts exported/s, with all traits", complete["rows"] / complete["seconds"])
    yield Result("accounts exported when nothing had changed", changes["rows"], must_be=0)
    yield Result("seconds of that export", changes["seconds"])
    yield Result("memory of the export, MB", exported["peak_mb"], at_most=EXPORT_MB)
    for page in pages:
        name = page["p50 in ms"]
        if name in COMPARED:
            yield Result(f"{name}: large / small", page["large/small"], at_most=TIMES_THE_SMALL)
        if name in LISTS:
            yield Result(f"{name}: statements", page["statements"], at_most=STATEMENTS_A_PAGE)


def export(service: Service, product: int) -> dict[str, Any]:
    """What an export of all accounts to files takes, and one right after it."""
    folder = service.folder / "exports"
    folder.mkdir(exist_ok=True)
    command = ("benchmarks.within", "export_files", str(folder), str(product))
    return service.run_json("-m", *command, timeout=GENERATING)


def in_turn(read: dict[str, tuple[Client, str]], rounds: int) -> dict[str, float]:
    """The median milliseconds of each; which one comes first changes with each round."""
    times: dict[str, list[float]] = {name: [] for name in read}
    for place in range(rounds + 1):
        for name in sorted(read, reverse=bool(place % 2)):
            client, path = read[name]
            seconds = client.seconds(path)
            if place:  # The first round warms up.
                times[name].append(seconds * 1000)
    return {name: median(values) for name, values in times.items()}


def sizes(parser: argparse.ArgumentParser) -> None:
    """How large the large side is."""
    parser.add_argument("--accounts", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=3_000_000)
    parser.add_argument("--days", type=int, default=30, help="days of counts")
    keep(parser)


def keep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the large side there, for the next time"
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    sizes(parser)
    parser.add_argument("--depth", type=int, default=1000, help="number of the deep page")
    parser.add_argument("--explain", action="store_true", help="print the plans of the large side")
    parser.add_argument("--rounds", type=int, default=50, help="turns of each page")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
