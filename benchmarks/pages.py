"""How long the admin's pages take with 1,000,000 accounts and 3,000,000 users.

A superuser opens every kind of page over HTTP: the home page, lists of every order, filter and
search, and single pages. Each page's time is held against the same page of a product with 1,000
accounts.
"""

import argparse
import http.client
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.cookies import SimpleCookie
from secrets import token_hex
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from benchmarks import reading
from harness import report
from harness.command import run_command
from harness.report import progress
from harness.service import Failed, Service, temporary_service

# Each run logs in as somebody of its own, because the large side may be kept.
NAME, PASSWORD = f"benchmark-{token_hex(4)}", token_hex(16)
# A person does not wait, for any page.
SECONDS = 1.0
SEGMENTS = ("New", "Most Engaged", "Least Engaged", "Recently Inactive", "Red Hot", "Ice Cold")


class Person:
    """A superuser who is logged in, over one connection."""

    def __init__(self, service: Service, address: str) -> None:
        place = urlsplit(address)
        assert place.hostname is not None
        self._connection = http.client.HTTPConnection(place.hostname, place.port, timeout=120)
        self._cookies: dict[str, str] = {}
        service.run(
            *("manage.py", "createsuperuser", "--noinput", "--username", NAME),
            *("--email", "benchmark@example.com"),
            environment={"DJANGO_SUPERUSER_PASSWORD": PASSWORD},
        )
        self._log_in()

    def _log_in(self) -> None:
        self._ask("GET", "/admin/login/")
        form = {
            "username": NAME,
            "password": PASSWORD,
            "csrfmiddlewaretoken": self._cookies["csrftoken"],
            "next": "/admin/",
        }
        status, page = self._ask("POST", "/admin/login/", urlencode(form))
        if status != 302:
            raise Failed(f"The admin did not let the benchmark in: {page[:300]}")

    def open(self, path: str) -> str:
        status, page = self._ask("GET", path)
        if status != 200:
            raise Failed(f"GET {path} was answered {status}: {page[:300]}")
        return page

    def seconds(self, path: str) -> float:
        started = time.perf_counter()
        self.open(path)
        return time.perf_counter() - started

    def _ask(self, method: str, path: str, form: str | None = None) -> tuple[int, str]:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        self._connection.request(method, path, form, headers)
        answer = self._connection.getresponse()
        page = answer.read().decode()
        for _, said in filter(lambda one: one[0].lower() == "set-cookie", answer.getheaders()):
            self._cookies |= {name: one.value for name, one in SimpleCookie(said).items()}
        return answer.status, page


class Found(NamedTuple):
    """What the lists link to."""

    workspace: str
    segments: dict[str, str]
    subject: str


def find(person: Person, kind: str) -> Found:
    """The workspace and segments that the list of users or accounts offers, and its first row."""
    listed = f"/admin/engagement/{kind}/"
    workspace = _first(person.open(listed), r"\?workspace=(\d+)")
    page = person.open(f"{listed}?workspace={workspace}")
    offered = re.findall(r'href="\?(?:[^"]*&amp;)?segment=(\d+)[^"]*"[^>]*>\s*([^<]+?)\s*<', page)
    return Found(
        workspace,
        {name: pk for pk, name in offered},
        _first(page, rf"/admin/engagement/{kind}/(\d+)/change/"),
    )


def _first(page: str, pattern: str) -> str:
    match = re.search(pattern, page)
    if match is None:
        raise Failed(f"The page has nothing like {pattern}.")
    return match[1]


def paths(person: Person, product: int) -> dict[str, str]:
    """The addresses to open, by what they are."""
    found = {
        "home": "/admin/",
        "product": f"/admin/engagement/product/{product}/change/",
        "segments": "/admin/engagement/segment/",
    }
    for kind in ("account", "user"):
        listed, known = f"/admin/engagement/{kind}/", find(person, kind)
        found["workspace"] = f"/admin/engagement/workspace/{known.workspace}/change/"
        ranked = f"{listed}?workspace={known.workspace}"
        found |= {
            f"{kind}s": listed,
            f"{kind}s, page 20": f"{listed}?p=20",
            f"{kind}s, by score": ranked,
            f"{kind}s, by score, page 20": f"{ranked}&p=20",
            f"{kind}s, search by id": f"{listed}?q={'org-7' if kind == 'account' else 'u-7'}",
            f"{kind}s, search in vain": f"{listed}?q=nobody@example.com",
            f"{kind}, its page": f"{listed}{known.subject}/change/",
        }
        for name in SEGMENTS:
            found[f"{kind}s, {name}"] = f"{ranked}&segment={known.segments[name]}"
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with ExitStack() as stack:
        small = stack.enter_context(temporary_service())
        large, much = stack.enter_context(reading.much_data(options))
        made = reading.generate(small, reading.SMALL_ACCOUNTS, reading.SMALL_USERS, options.days)
        few = Person(small, small.start_web("small"))
        many = Person(large, large.start_web("large"))
        few_paths, many_paths = paths(few, made["product_id"]), paths(many, much["product_id"])
        progress("Opening pages in turns.")
        return {
            "accounts": options.accounts,
            "users": options.users,
            "pages": [
                {
                    "page": name,
                    **in_turns(few, few_paths[name], many, path, options.rounds),
                }
                for name, path in many_paths.items()
            ],
        }


def in_turns(
    few: Person, few_path: str, many: Person, many_path: str, rounds: int
) -> dict[str, float]:
    """The median milliseconds of both; the first opening warms up."""
    times = [
        (few.seconds(few_path) * 1000, many.seconds(many_path) * 1000) for _ in range(rounds + 1)
    ]
    small, large = zip(*times[1:], strict=True)
    return {"small_ms": median(small), "large_ms": median(large)}


def show(figures: dict[str, Any]) -> None:
    print(
        f"small: {reading.SMALL_ACCOUNTS:,} accounts; large: {figures['accounts']:,} accounts and "
        f"{figures['users']:,} users"
    )
    rows = [
        [
            row["page"],
            f"{row['small_ms']:.0f}",
            f"{row['large_ms']:.0f}",
            f"{row['large_ms'] / row['small_ms']:.2f}",
        ]
        for row in figures["pages"]
    ]
    print(report.table(["p50 in ms", "small", "large", "large/small"], rows))
    print("\n".join(verdicts(figures)))


def verdicts(figures: dict[str, Any]) -> Iterator[str]:
    slowest = max(figures["pages"], key=lambda row: float(row["large_ms"]))
    name = f"the slowest page of the large side ({slowest['page']}), seconds"
    yield report.verdict(name, slowest["large_ms"] / 1000, at_most=SECONDS)


def faults(figures: dict[str, Any]) -> list[str]:
    """A page that is not answered fails at once."""
    return []


def arguments(parser: argparse.ArgumentParser) -> None:
    reading.sizes(parser)
    parser.add_argument("--rounds", type=int, default=15, help="times that each page is opened")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure, show, faults)
