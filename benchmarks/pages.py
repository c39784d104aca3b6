"""How long the admin's pages take with 1,000,000 accounts and 3,000,000 users.

A superuser opens every kind of page over HTTP: the home page, lists in the order of each column,
both ways, at their beginning and in the middle, with filters and searches, single pages, and the
matches of the search box. Each page's time is compared with the same page of a product with 1,000
accounts, and its statements are counted. If Chromium is installed, it says when a page's first
content is painted.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from gzip import compress
from http.cookies import SimpleCookie
from secrets import token_hex
from typing import Any, NamedTuple
from urllib.parse import urlencode

from benchmarks import planting, reading
from benchmarks.painting import first_paints
from harness.command import run_command
from harness.http import Address, Client, bearer
from harness.processes import Failed
from harness.report import Report, Result, Table, progress
from harness.service import Service

# Each run logs in with a name of its own, because the large side may be kept.
NAME, PASSWORD = f"benchmark-{token_hex(4)}", token_hex(16)
# A person does not wait, for any page.
SECONDS = 0.3
# Nor for the matches of a search, or the page of the largest account.
SEARCH_SECONDS, LARGE_ACCOUNT_SECONDS = 0.2, 0.1
SEARCHES = {
    "one letter": "e",
    "two letters": "em",
    "a name": "ember",
    "the middle of a name": "er ca",
    "an email address": "mei.lind",
    "what all have": "example",
    "an id": "org-0777",
    "in vain": "qzxqzx",
    "two terms": "ember linden",
    "a name and two digits": "ember 10",
}
# Of a page as it is sent.
KILOBYTES = 16.0
SORTED = {
    "account": (
        *("score", "-score", "change", "-change", "last_active", "-last_active"),
        *("active_users", "-active_users", "renewal", "-renewal", "name", "-name", "mrr", "-mrr"),
    ),
    "user": (
        *("score", "-score", "change", "-change", "last_active", "-last_active"),
        *("account", "-account", "name", "-name"),
    ),
}
FEATURE_USES = ("uses", "stopped", "never")
WORKSPACE = "/admin/engagement/workspace/{}/"
# The background jobs whose results pages read.
NIGHTS = (
    *("count the use of events", "figures of days", "cohorts", "count segments", "what changed"),
)
INSIGHTS = ("renewal_at_risk", "trend_down", "one_person")
SEGMENTS = ("New", "Most Engaged", "Least Engaged", "Recently Inactive", "Red Hot", "Ice Cold")
NAMED, LARGEST = "p50 in ms", "account, its page"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Person(NamedTuple):
    """A superuser who is logged in: a connection, and what a browser needs for another one."""

    client: Client
    server: Address
    cookies: dict[str, str]


def log_in(service: Service, name: str) -> Person:
    """Start a web server of the service, and log a new superuser in."""
    login = f"{NAME}-{name}"
    service.run(
        *("manage.py", "createsuperuser", "--noinput", "--username", login),
        *("--email", "benchmark@example.com"),
        environment={"DJANGO_SUPERUSER_PASSWORD": PASSWORD},
    )
    address = service.start_web(name)
    client = Client(address, timeout=120)
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
    form = {
        "username": login,
        "password": PASSWORD,
        "csrfmiddlewaretoken": token,
        "next": "/admin/",
    }
    if request("POST", urlencode(form)) != 302:
        raise Failed("The admin does not let the benchmark log in.")
    return Person(client, address, cookies)


def paths(person: Client, product: int) -> dict[str, str]:
    """The addresses to open, by what they are."""
    addresses = {
        "home": "/admin/",
        "overview": f"/admin/?product={product}",
        "product": f"/admin/engagement/product/{product}/change/",
        "ingestion log": f"/admin/ingestion/ingestionlog/{product}/change/",
        "background jobs": "/admin/jobs/",
        **{
            f"search for {name}": f"/admin/search/?{urlencode({'q': term, 'suggestions': ''})}"
            for name, term in SEARCHES.items()
        },
    }
    features = person.read(f"/admin/engagement/feature/?product__id__exact={product}")
    events = person.read(f"/admin/engagement/eventname/?product__id__exact={product}")
    addresses |= {
        "features": f"/admin/engagement/feature/?product__id__exact={product}",
        "feature": _first(features, r"(/admin/engagement/feature/\d+/usage/)"),
        "events": f"/admin/engagement/eventname/?product__id__exact={product}",
        "event": _first(events, r"(/admin/engagement/eventname/\d+/change/)"),
    }
    for kind in ("account", "user"):
        list_url = f"/admin/engagement/{kind}/"
        workspace = _first(person.read(f"/admin/?product={product}"), r"\?workspace=(\d+)")
        ranked = f"{list_url}?workspace={workspace}"
        page = person.read(ranked)
        middle = _middle_page(page)
        subject = _first(page, rf"/admin/engagement/{kind}/(\d+)/change/")
        button = r'<button[^>]* name="segment" value="(\d+)"[^>]*>([^<]+)<'
        segments = {name: pk for pk, name in re.findall(button, page.decode())}
        segment = segments[SEGMENTS[0]]
        addresses |= {
            "workspace": f"{WORKSPACE.format(workspace)}change/",
            **{
                f"trends, {days} days": f"{WORKSPACE.format(workspace)}trends/?days={days}"
                for days in (30, 90, 365)
            },
            f"trends, a segment of {kind}s": (
                f"{WORKSPACE.format(workspace)}trends/?days=90&segment={segment}"
            ),
            **{
                f"accounts, {use} {name}": f"{ranked}&feature={use}-{name}"
                for use in FEATURE_USES
                for name in (planting.COMMON, planting.RARE)
                if kind == "account"
            },
            **{
                f"accounts, {name}": f"{ranked}&segment={segments[name]}"
                for name in (planting.USES_RARE, planting.NEVER_COMMON)
                if kind == "account"
            },
            "segments": f"/admin/engagement/segment/?workspace={workspace}",
            f"segment of {kind}s": f"/admin/engagement/segment/{segment}/change/",
            **{f"{kind}s, by {sort}": f"{ranked}&sort={sort}" for sort in SORTED[kind]},
            **{
                f"{kind}s, by {sort}, in the middle": f"{ranked}&sort={sort}&p={middle}"
                for sort in SORTED[kind]
            },
            f"{kind}s, last active before": f"{ranked}&active=before-14",
            **({"accounts, with much MRR": f"{ranked}&mrr=100000"} if kind == "account" else {}),
            f"{kind}s, search by id": f"{ranked}&q={'org-77' if kind == 'account' else 'u-77'}",
            f"{kind}s, search in vain": f"{ranked}&q=nobody@example.com",
            f"{kind}, its page": f"{list_url}{subject}/change/",
            f"{kind}, its timeline": f"{list_url}{subject}/timeline/",
            **{
                name: f"{WORKSPACE.format(workspace)}cohorts/?subjects={kind}{query}"
                for name, query in (
                    (f"cohorts of {kind}s", ""),
                    (f"cohorts of {kind}s, by event", f"&event={planting.EVENT}"),
                    (f"cohorts of {kind}s, by trait", f"&trait={planting.TRAITS[kind]}"),
                )
            },
            **{
                f"{kind}s, {insight}": f"{ranked}&insight={insight}"
                for insight in INSIGHTS
                if kind == "account"
            },
            **{f"{kind}s, {name}": f"{ranked}&segment={segments[name]}" for name in SEGMENTS},
        }
    return addresses


def is_kind(name: str) -> bool:
    """Whether it is a kind of page, and not a variant of a list or a part of a page."""
    is_variant = ", " in name and not name.endswith((", by -score", ", its page"))
    return not is_variant and not name.startswith("search ")


def _middle_page(page: bytes) -> int:
    """Half of the number of the list's last page."""
    numbers = re.findall(r"[?&;]p=(\d+)", page.decode())
    return max(map(int, numbers), default=2) // 2


def _first(page: bytes, pattern: str) -> str:
    match = re.search(pattern, page.decode())
    if match is None:
        raise Failed(f"The page has nothing like {pattern}.")
    return match[1]


def run_night(service: Service, name: str) -> dict[str, Any]:
    """What the job has to do takes; nothing if it was done before, in a service that is kept."""
    took = service.run_json("-m", "benchmarks.within", "run_night", name, timeout=3 * 3600)
    names = ("steps", "seconds", "processor_seconds", "database_seconds", "peak_mb")
    return {"job": name, **{each: took[each] for each in names}}


def _changes(
    server: Address, product: dict[str, Any], addresses: dict[str, str]
) -> dict[str, tuple[Client, str]]:
    client = Client(server, headers=bearer(product["api_token"]), timeout=120)
    path = f"/v2/workspaces/{product['workspace_id']}/changes"
    segment = _first(addresses["accounts, New"].encode(), r"segment=(\d+)")
    queries = {
        "changes": "",
        "changes of a day": "?period=day",
        "changes of a segment": f"?segment_id={segment}",
    }
    return {name: (client, path + query) for name, query in queries.items()}


def measure(options: argparse.Namespace) -> Report:
    with reading.both_sizes(options) as (small, few_product, large, many_product):
        nights: list[dict[str, Any]] = []
        for service, product in ((small, few_product), (large, many_product)):
            progress("Planting, and running the jobs of a night.")
            planting.plant(service, product)
            nights = [run_night(service, name) for name in NIGHTS]
        many = log_in(large, "first")
        many_paths = paths(many.client, many_product["product_id"])
        progress("Opening each page for the first time.")
        first = {name: many.client.seconds(path) for name, path in many_paths.items()}
        progress("Computing the stored orders, also those for which somebody waited.")
        seconds = large.run_json("-m", "benchmarks.within", "compute_orders", timeout=3600)
        # A web server ends a connection that waits meanwhile.
        few, many = log_in(small, "small"), log_in(large, "large")
        few_paths = paths(few.client, few_product["product_id"])
        progress("Opening pages in turn.")
        pages: list[dict[str, Any]] = []
        for name, path in many_paths.items():
            opened = {"small": (few.client, few_paths[name]), "large": (many.client, path)}
            times = reading.in_turn(opened, options.rounds)
            ratio = times["large"] / times["small"]
            kilobytes = len(compress(many.client.read(path))) / 1000
            row = {NAMED: name, **times, "large/small": ratio, "first": 1000 * first[name]}
            pages.append({**row, "compressed KB": kilobytes})
        progress("Asking the read API what changed.")
        changes = reading.in_turn(_changes(many.server, many_product, many_paths), options.rounds)
        progress("Looking when pages are painted.")
        kinds = {name: path for name, path in many_paths.items() if is_kind(name)}
        painted = first_paints(many.server.url, many.cookies, kinds)
        progress("Counting statements.")
        keys = (f"login:{NAME}-large", *many_paths.values())
        statements = large.run_json("-m", "benchmarks.statements", *keys, timeout=3600)
        costs = large.run_json("-m", "benchmarks.statements", "--costs", *keys, timeout=3600)
        for page in pages:
            page |= costs[many_paths[page[NAMED]]]
            page["statements"] = len(statements[many_paths[page[NAMED]]])
            page["first paint"] = painted.get(page[NAMED], "")
    yield Table("pages", pages)
    yield Result("seconds to compute all stored orders", sum(seconds.values()))
    yield Table("jobs of the large side's first night", nights)
    for name, milliseconds in changes.items():
        yield Result(f"read API, {name}, seconds", milliseconds / 1000, at_most=SECONDS)
    yield from _slowest(pages, painted)


def _slowest(pages: Sequence[dict[str, Any]], painted: Mapping[str, float]) -> Report:
    """The pages that come closest to the bars, or miss them. *painted* is in milliseconds."""
    bars: dict[str, tuple[str, float]] = {
        "list by a column": ("s, by ", SECONDS),
        "search": ("search ", SEARCH_SECONDS),
        "page": ("", SECONDS),
    }
    for name, (part, at_most) in bars.items():
        chosen_pages = [page for page in pages if part in page[NAMED]]
        slowest = max(chosen_pages, key=lambda page: float(page["large"]))
        yield Result(f"the slowest {name} of the large side", slowest[NAMED])
        yield Result(f"its seconds ({name})", slowest["large"] / 1000, at_most=at_most)
    (largest,) = (page["large"] for page in pages if page[NAMED] == LARGEST)
    yield Result(
        "seconds of the largest account's page", largest / 1000, at_most=LARGE_ACCOUNT_SECONDS
    )
    if painted:
        latest = max(painted, key=lambda name: painted[name])
        yield Result("the page that is painted last", latest)
        yield Result("seconds until that", painted[latest] / 1000, at_most=SECONDS)
    heaviest = max(pages, key=lambda page: float(page["compressed KB"]))
    yield Result("the heaviest page of the large side", heaviest[NAMED])
    yield Result("its kilobytes, compressed", heaviest["compressed KB"], at_most=KILOBYTES)


def arguments(parser: argparse.ArgumentParser) -> None:
    reading.sizes(parser)
    parser.add_argument("--rounds", type=int, default=15, help="times that each page is opened")


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, arguments, measure)
