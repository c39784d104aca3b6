"""How long the admin's pages take with 1,000,000 accounts and 3,000,000 users.

A superuser opens every kind of page over HTTP: the home page, lists in the order of each column,
both ways, at their beginning and in the middle, with filters and searches, and single pages. Each
page's time is compared with the same page of a product with 1,000 accounts, and its statements are
counted.
"""

import argparse
import re
from http.cookies import SimpleCookie
from secrets import token_hex
from typing import Any
from urllib.parse import urlencode

from benchmarks import reading
from harness.command import run_command
from harness.http import Client
from harness.processes import Failed
from harness.report import Report, Result, Table, progress
from harness.service import Service

# Each run logs in with a name of its own, because the large side may be kept.
NAME, PASSWORD = f"benchmark-{token_hex(4)}", token_hex(16)
# A person does not wait, for any page.
SECONDS = 1.0
# Of a page's HTML before compression.
KILOBYTES = 60.0
# Nor for a list, whichever column it is sorted by.
LIST_SECONDS = 0.3
SORTED = {
    "account": (
        *("score", "-score", "change", "-change", "last_active", "-last_active"),
        *("active_users", "-active_users", "renewal", "-renewal", "name", "-name"),
    ),
    "user": (
        *("score", "-score", "change", "-change", "last_active", "-last_active"),
        *("account", "-account", "name", "-name"),
    ),
}
SEGMENTS = ("New", "Most Engaged", "Least Engaged", "Recently Inactive", "Red Hot", "Ice Cold")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def log_in(service: Service, name: str) -> Client:
    """A superuser's connection to a web server of the service."""
    service.run(
        *("manage.py", "createsuperuser", "--noinput", "--username", NAME),
        *("--email", "benchmark@example.com"),
        environment={"DJANGO_SUPERUSER_PASSWORD": PASSWORD},
    )
    client = Client(service.start_web(name), timeout=120)
    cookies: dict[str, str] = {}

    def request(method: str, form: str | None = None) -> int:
        response = client.request(method, "/admin/login/", form, FORM if form else {})
        if response is None:
            raise Failed("The admin does not respond.")
        for header in response.headers.get_all("Set-Cookie", ()):
            cookies.update({name: morsel.value for name, morsel in SimpleCookie(header).items()})
        client.headers["Cookie"] = "; ".join(f"{key}={value}" for key, value in cookies.items())
        return response.status

    request("GET")
    token = cookies["csrftoken"]
    form = {"username": NAME, "password": PASSWORD, "csrfmiddlewaretoken": token, "next": "/admin/"}
    if request("POST", urlencode(form)) != 302:
        raise Failed("The admin does not let the benchmark log in.")
    return client


def paths(person: Client, product: int) -> dict[str, str]:
    """The addresses to open, by what they are."""
    addresses = {
        "home": "/admin/",
        "product": f"/admin/engagement/product/{product}/change/",
        "segments": "/admin/engagement/segment/",
    }
    for kind in ("account", "user"):
        listed = f"/admin/engagement/{kind}/"
        workspace = _first(person.read(f"/admin/?product={product}"), r"\?workspace=(\d+)")
        ranked = f"{listed}?workspace={workspace}"
        page = person.read(ranked)
        middle = _middle_page(page)
        subject = _first(page, rf"/admin/engagement/{kind}/(\d+)/change/")
        link = r'href="\?(?:[^"]*&amp;)?segment=(\d+)[^"]*"[^>]*>\s*([^<]+?)\s*<'
        segments = {name: pk for pk, name in re.findall(link, page.decode())}
        addresses |= {
            "workspace": f"/admin/engagement/workspace/{workspace}/change/",
            **{f"{kind}s, by {sort}": f"{ranked}&sort={sort}" for sort in SORTED[kind]},
            **{
                f"{kind}s, by {sort}, in the middle": f"{ranked}&sort={sort}&p={middle}"
                for sort in SORTED[kind]
            },
            f"{kind}s, last active before": f"{ranked}&active=before-14",
            f"{kind}s, search by id": f"{ranked}&q={'org-77' if kind == 'account' else 'u-77'}",
            f"{kind}s, search in vain": f"{ranked}&q=nobody@example.com",
            f"{kind}, its page": f"{listed}{subject}/change/",
            **{f"{kind}s, {name}": f"{ranked}&segment={segments[name]}" for name in SEGMENTS},
        }
    return addresses


def _middle_page(page: bytes) -> int:
    """Half of the number of the list's last page."""
    numbers = re.findall(r"[?&;]p=(\d+)", page.decode())
    return max(map(int, numbers), default=2) // 2


def _first(page: bytes, pattern: str) -> str:
    match = re.search(pattern, page.decode())
    if match is None:
        raise Failed(f"The page has nothing like {pattern}.")
    return match[1]


def measure(options: argparse.Namespace) -> Report:
    with reading.both_sizes(options) as (small, few_product, large, many_product):
        few, many = log_in(small, "small"), log_in(large, "large")
        progress("Computing the stored orders.")
        seconds = large.run_json("-m", "benchmarks.within", "compute_orders", timeout=3600)
        few_paths = paths(few, few_product["product_id"])
        many_paths = paths(many, many_product["product_id"])
        statements = large.run_json(
            "-m", "benchmarks.statements", f"login:{NAME}", *many_paths.values(), timeout=3600
        )
        progress("Opening pages in turn.")
        pages: list[dict[str, Any]] = []
        for name, path in many_paths.items():
            opened = {"small": (few, few_paths[name]), "large": (many, path)}
            times = reading.in_turn(opened, options.rounds)
            ratio = times["large"] / times["small"]
            kilobytes = len(many.read(path)) / 1000
            row = {"p50 in ms": name, **times, "large/small": ratio}
            pages.append({**row, "HTML in KB": kilobytes, "statements": len(statements[path])})
    yield Table("pages", pages)
    yield Result("seconds to compute all stored orders", sum(seconds.values()))
    by_column = [page for page in pages if ", by " in page["p50 in ms"]]
    slowest = max(by_column, key=lambda page: float(page["large"]))
    yield Result("the slowest list by a column", slowest["p50 in ms"])
    yield Result("seconds of that list", slowest["large"] / 1000, at_most=LIST_SECONDS)
    slowest = max(pages, key=lambda page: float(page["large"]))
    yield Result("the slowest page of the large side", slowest["p50 in ms"])
    yield Result("its seconds", slowest["large"] / 1000, at_most=SECONDS)
    heaviest = max(pages, key=lambda page: float(page["HTML in KB"]))
    yield Result("the heaviest page of the large side", heaviest["p50 in ms"])
    yield Result("its kilobytes of HTML", heaviest["HTML in KB"], at_most=KILOBYTES)


def arguments(parser: argparse.ArgumentParser) -> None:
    reading.sizes(parser)
    parser.add_argument("--rounds", type=int, default=15, help="times that each page is opened")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
