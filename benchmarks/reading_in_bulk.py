"""All accounts of a large product with five traits, read by one token within its limit of requests.

The list is followed page by page, as by a client that waits for each page, and for the next minute
when the limit is used up. At every tenth page the same page without traits is read, too, just
before it or just after it, and the two are compared.
"""

import argparse
import gzip
import json
import time
from statistics import median
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from benchmarks.reading import FIVE, Product, large_product, sizes
from harness.command import run_command
from harness.processes import Failed
from harness.report import Report, Result, progress

PAGE = 500
# The default of EDS_READ_REQUESTS_PER_MINUTE.
REQUESTS_PER_MINUTE = 600
COMPARED = 10
MINUTES = 15
TIMES_THE_LEAN = 2.0


class Reader:
    """Reads compressed pages with a token, and waits when its limit is used up."""

    def __init__(self, product: Product) -> None:
        self._client = product.client
        self.requests = self.refused = 0

    def read(self, path: str) -> dict[str, Any]:
        while True:
            self.requests += 1
            response = self._client.request("GET", path, headers={"Accept-Encoding": "gzip"})
            if response is None or response.status not in {200, 429}:
                raise Failed(f"GET {path} failed: {response and response.status}")
            if response.status == 200:
                page: dict[str, Any] = json.loads(gzip.decompress(response.body))
                return page
            self.refused += 1
            time.sleep(int(response.headers["Retry-After"]))

    def seconds(self, path: str) -> float:
        started = time.perf_counter()
        self.read(path)
        return time.perf_counter() - started


class Walk:
    """Follows the list of accounts with five traits to its end."""

    def __init__(self, limited: Product, unlimited: Product) -> None:
        self.reader, self._unlimited = Reader(limited), Reader(unlimited)
        self._first = limited.path("/v2/accounts", limit=PAGE, expand="traits", traits=FIVE)
        self.ids: set[int] = set()
        self.incomplete = 0
        # The seconds of the compared pages, with traits and without.
        self.expanded: list[float] = []
        self.lean: list[float] = []

    def follow(self) -> float:
        """Return the seconds that it took, without those of comparing."""
        compared, pages, path = 0.0, 0, self._first
        started = time.perf_counter()
        while path:
            if pages % COMPARED == 0:
                compared += self._compare(path)
            page = self.reader.read(path)
            self.ids.update(row["id"] for row in page["data"])
            self.incomplete += sum(
                len(row["traits"]) != FIVE.count(",") + 1 for row in page["data"]
            )
            pages += 1
            following = urlsplit(page["_links"].get("next", ""))
            path = following.path and f"{following.path}?{following.query}"
        return time.perf_counter() - started - compared

    def _compare(self, path: str) -> float:
        """Read the page with traits and without. Which one comes first alternates."""
        started = time.perf_counter()
        both = [(path, self.expanded), (_lean(path), self.lean)]
        for each, times in both if len(self.lean) % 2 else both[::-1]:
            times.append(self._unlimited.seconds(each))
        return time.perf_counter() - started


def _lean(path: str) -> str:
    """The path of the same page without traits."""
    address, _, query = path.partition("?")
    pairs = [pair for pair in parse_qsl(query) if pair[0] not in {"expand", "traits"}]
    return f"{address}?{urlencode(pairs)}"


def measure(options: argparse.Namespace) -> Report:
    with large_product(options) as (service, ids):
        limited = Product(service, "limited", ids, str(REQUESTS_PER_MINUTE))
        walk = Walk(limited, Product(service, "unlimited", ids, "0"))
        progress("Reading all accounts.")
        seconds = walk.follow()
    yield Result("accounts read", len(walk.ids), must_be=options.accounts)
    yield Result("accounts without all of the five traits", walk.incomplete, must_be=0)
    yield Result("minutes until all were read", seconds / 60, at_most=MINUTES)
    yield Result("accounts/s", len(walk.ids) / seconds)
    yield Result("requests", walk.reader.requests)
    yield Result("requests beyond the limit", walk.reader.refused)
    yield Result("pages compared", len(walk.lean))
    for name, times in (("with five traits", walk.expanded), ("without", walk.lean)):
        in_ms = [each * 1000 for each in times]
        yield Result(f"ms of a page {name}", median(in_ms), rounds=in_ms)
    ratios = [expanded / lean for expanded, lean in zip(walk.expanded, walk.lean, strict=True)]
    yield Result("with five traits / without", median(ratios), at_most=TIMES_THE_LEAN,
                 rounds=ratios)  # fmt: skip


if __name__ == "__main__":
    run_command(__spec__.name, __doc__, sizes, measure)
