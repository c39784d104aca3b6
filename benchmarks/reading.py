"""How much longer a page of the read API takes with a million accounts than with a thousand.

Each size has a database and a web server of its own; the same requests go to both in turns. The
large one is also read with the limit of requests a minute switched on, which is held against off.
What each page asks the database is counted on the large one.
"""

import argparse
import http.client
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from harness import report
from harness.command import run_command
from harness.report import progress
from harness.service import Failed, Service, service_in, temporary_service

SMALL_ACCOUNTS, SMALL_USERS = 1_000, 3_000
PAGE = 100
EXPANSIONS = "insights,traits,segments,events,history"
GENERATING = 6 * 3600.0
NEVER_REACHED = "1000000000"
FIRST, DEEP, ACCOUNT = "first page", "deep page", "account, expanded"
HIGHEST, MEMBERS, COUNTS = "highest account, expanded", "segment members", "segment counts"
# The pages that may take so many times as long as on the small side.
COMPARED = (FIRST, DEEP, ACCOUNT)
TIMES_THE_SMALL = 1.5
# The pages of a list that may ask the database so often.
LISTS = (FIRST, DEEP, MEMBERS)
STATEMENTS_A_PAGE = 6


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


class Walked(NamedTuple):
    """The page of the number asked for, or the last one; its number; and the active users of each
    account on the way there, in the order of scores."""

    deep: str
    depth: int
    active_users: dict[int, int]

    def account_like(self, active_users: int) -> int:
        """The account whose number of active users comes closest."""
        return min(self.active_users, key=lambda id: abs(self.active_users[id] - active_users))


def walk(reader: Reader, path: str, depth: int) -> Walked:
    active_users: dict[int, int] = {}
    for number in range(1, depth + 1):
        page = reader.get(path)
        active_users |= {one["id"]: one["active_users"] for one in page["data"]}
        following = page["_links"].get("next")
        if following is None or number == depth:
            break
        path = "{0.path}?{0.query}".format(urlsplit(following))
    return Walked(path, number, active_users)


class Side(NamedTuple):
    """What is measured on a side, by name, and how large that is."""

    paths: dict[str, str]
    depth: int
    active_users: int
    highest_active_users: int


def sides(few: Reader, many: Reader, depth: int) -> tuple[Side, Side]:
    """The small and the large side, each with an account of about the same size, because what an
    account costs goes by its own."""
    progress(f"Walking to page {depth:,}.")
    fewer, more = (
        walk(reader, reader.path("/v2/accounts", limit=PAGE), depth) for reader in (few, many)
    )
    highest = next(iter(fewer.active_users))
    alike = more.account_like(fewer.active_users[highest])
    return side(few, fewer, highest), side(many, more, alike)


def side(reader: Reader, walked: Walked, account: int) -> Side:
    highest = next(iter(walked.active_users))
    members = f"/v2/segments/{largest_segment(reader)}/members"
    paths = {
        FIRST: reader.path("/v2/accounts", limit=PAGE),
        DEEP: walked.deep,
        ACCOUNT: reader.path(f"/v2/accounts/{account}", expand=EXPANSIONS),
        HIGHEST: reader.path(f"/v2/accounts/{highest}", expand=EXPANSIONS),
        MEMBERS: reader.path(members, limit=PAGE),
        COUNTS: reader.path("/v2/segments", expand="counts"),
    }
    active_users = walked.active_users
    return Side(paths, walked.depth, active_users[account], active_users[highest])


def largest_segment(reader: Reader) -> int:
    """Of the segments that are not everybody, the one with most accounts in it."""
    path = reader.path("/v2/segments", scope="account", expand="counts", limit=PAGE)
    limited = [one for one in reader.get(path)["data"] if one["conditions"]]
    largest: int = max(limited, key=lambda one: int(one["member_count"]))["id"]
    return largest


def generate(service: Service, accounts: int, users: int, days: int) -> dict[str, Any]:
    progress(f"Generating {accounts:,} accounts and {users:,} users.")
    sizes = [f"--accounts={accounts}", f"--users={users}", f"--days={days}"]
    made: dict[str, Any] = json.loads(
        service.run("manage.py", "generate_data", "--json", *sizes, timeout=GENERATING)
    )
    return made


@contextmanager
def much_data(options: argparse.Namespace) -> Iterator[tuple[Service, dict[str, Any]]]:
    """A service with the large product, and what ``generate_data`` said of it.

    Where a folder is named it is made there, once, and found there again.
    """
    sizes = options.accounts, options.users, options.days
    if options.keep is None:
        with temporary_service() as service:
            yield service, generate(service, *sizes)
        return
    with service_in(options.keep.resolve()) as service:
        made = options.keep / "made.json"
        if not made.exists():
            made.write_text(json.dumps(generate(service, *sizes)))
        yield service, json.loads(made.read_text())


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with ExitStack() as stack:
        small = stack.enter_context(temporary_service())
        large, much = stack.enter_context(much_data(options))
        made = generate(small, SMALL_ACCOUNTS, SMALL_USERS, options.days)
        off = {"EDS_READ_REQUESTS_PER_MINUTE": "0"}
        on = {"EDS_READ_REQUESTS_PER_MINUTE": NEVER_REACHED}
        few = Reader(small.start_web("small", **off), made)
        many = Reader(large.start_web("large", **off), much)
        limited = Reader(large.start_web("limited", **on), much)
        small_side, large_side = sides(few, many, options.depth)
        asked = statements(large, much["api_token"], list(large_side.paths.values()))
        progress("Reading in turns.")
        return {
            "accounts": options.accounts,
            "users": options.users,
            "explain": options.explain,
            "depth": {"small": small_side.depth, "large": large_side.depth, "asked": options.depth},
            "active_users": {
                "small": small_side.active_users,
                "large": large_side.active_users,
                "highest of large": large_side.highest_active_users,
            },
            "pages": [
                {
                    "page": name,
                    **in_turns(
                        {
                            "small_ms": (few, small_side.paths[name]),
                            "large_ms": (many, path),
                            "limited_ms": (limited, path),
                        },
                        options.rounds,
                    ),
                    "statements": asked[path],
                }
                for name, path in large_side.paths.items()
            ],
        }


def in_turns(compared: dict[str, tuple[Reader, str]], rounds: int) -> dict[str, float]:
    """The median milliseconds of each; who comes first changes with each round."""
    times: dict[str, list[float]] = {name: [] for name in compared}
    for number in range(rounds + 1):
        for name in sorted(compared, reverse=bool(number % 2)):
            reader, path = compared[name]
            taken = reader.seconds(path)
            if number:  # The first round warms up.
                times[name].append(taken * 1000)
    return {name: median(values) for name, values in times.items()}


def statements(service: Service, token: str, paths: list[str]) -> dict[str, list[dict[str, str]]]:
    """What each path asks the database, with the plans."""
    said = service.run("-m", "benchmarks.statements", token, *paths, timeout=GENERATING)
    read: dict[str, list[dict[str, str]]] = json.loads(said)
    return read


def show(figures: dict[str, Any]) -> None:
    depth = figures["depth"]
    heads = ["p50 in ms", "small", "large", "large/small", "limit on", "on/off", "statements"]
    print(
        f"small: {SMALL_ACCOUNTS:,} accounts; large: {figures['accounts']:,} accounts; the deep "
        f"page is number {depth['small']:,} and {depth['large']:,}"
    )
    users = figures["active_users"]
    print(
        f"the account has {users['small']:,} and {users['large']:,} active users, the highest one "
        f"of the large side {users['highest of large']:,}"
    )
    print(report.table(heads, [cells(row) for row in figures["pages"]]))
    print("\n".join(verdicts(figures)))
    if figures["explain"]:
        print("\n".join(plans(figures)))


def cells(row: dict[str, Any]) -> list[str]:
    small, large, limited = row["small_ms"], row["large_ms"], row["limited_ms"]
    ratios = f"{large / small:.2f}", f"{limited / large:.2f}"
    times = [f"{small:.1f}", f"{large:.1f}", ratios[0], f"{limited:.1f}", ratios[1]]
    return [row["page"], *times, str(len(row["statements"]))]


def verdicts(figures: dict[str, Any]) -> Iterator[str]:
    for row in figures["pages"]:
        if row["page"] in COMPARED:
            times = row["large_ms"] / row["small_ms"]
            yield report.verdict(f"{row['page']}, large / small", times, at_most=TIMES_THE_SMALL)
    for row in figures["pages"]:
        if row["page"] in LISTS:
            name = f"{row['page']}, statements"
            yield report.verdict(name, len(row["statements"]), at_most=STATEMENTS_A_PAGE)


def plans(figures: dict[str, Any]) -> Iterator[str]:
    for row in figures["pages"]:
        yield f"\n{row['page']}"
        for one in row["statements"]:
            yield f"\n{one['statement']}\n{one['plan']}"


def faults(figures: dict[str, Any]) -> list[str]:
    """A page that is not answered fails at once."""
    reached, asked = figures["depth"]["large"], figures["depth"]["asked"]
    if reached < asked:
        return [
            f"The large side has only {reached:,} pages and must have {asked:,}: more accounts."
        ]
    return []


def sizes(parser: argparse.ArgumentParser) -> None:
    """How large the large side is."""
    parser.add_argument("--accounts", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=3_000_000)
    parser.add_argument("--days", type=int, default=30, help="days of counts")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="have the large side there, for the next time"
    )


def arguments(parser: argparse.ArgumentParser) -> None:
    sizes(parser)
    parser.add_argument("--depth", type=int, default=1000, help="number of the deep page")
    parser.add_argument("--explain", action="store_true", help="print the plans of the large side")
    parser.add_argument("--rounds", type=int, default=50, help="turns of each page")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
