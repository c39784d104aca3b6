"""SDKs for browsers, unmodified, and pages without one, on other origins than the service's."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.clients.browsing import HERE, Browser, Site
from tests.clients.proxy import Proxy
from tests.clients.sending import Call
from tests.clients.service import Scope, Service
from tests.start.running import until

PROGRAMS = HERE / "programs"
STANDALONE = (
    HERE / "node_modules" / "@segment" / "analytics-next" / "dist" / "umd" / "standalone.js"
)
SNIPPET = "<script>{snippet}</script><script type=module src=snippet_page.js></script>"


@dataclass(frozen=True)
class Page:
    """A page, and the settings of its SDK that a test of its own needs."""

    program: str
    settings: dict[str, Any] = field(default_factory=dict)

    def settings_for_leaving(self) -> dict[str, Any]:
        """Settings with which messages wait longer than the page is open."""
        match self.settings:
            case {"deliveryStrategy": {}}:
                return in_batches(size=100, timeout=60_000)
            case {"useBeacon": True}:
                return {"useBeacon": True, "beaconQueueOptions": {"flushQueueInterval": 60_000}}
        return self.settings


def in_batches(**config: int) -> dict[str, Any]:
    return {"deliveryStrategy": {"strategy": "batching", "config": config}}


PAGES = {
    "Segment": Page("segment_page"),
    "Segment in batches": Page("segment_page", in_batches(size=3, timeout=500)),
    "Segment's snippet": Page("snippet_page"),
    "RudderStack": Page("rudderstack_page"),
    "RudderStack with beacons": Page(
        "rudderstack_page",
        {"useBeacon": True, "beaconQueueOptions": {"flushQueueInterval": 500}},
    ),
}


@pytest.fixture(scope="module")
def site(node: str, service: Service) -> Iterator[int]:
    """The port of the application's pages."""
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        programs = [*{page.program for page in PAGES.values()}, "bare"]
        site.add(*(PROGRAMS / f"{program}.mjs" for program in programs))
        snippet = rendered_snippet(node, service)
        site.add_page("snippet_page", SNIPPET.format(snippet=snippet))
        with site.served() as port:
            yield port


def rendered_snippet(node: str, service: Service) -> str:
    """Segment's snippet with the service's host instead of Segment's, and without TLS."""
    command = [node, str(PROGRAMS / "render_snippet.cjs"), service.key, service.host]
    rendered = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    return str(rendered.stdout).replace("https://", "http://")


def says(service: Service, prefix: str, settings: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What the page with the SDK is told to do."""
    parameters = {"host": service.host, "key": service.key, "settings": settings, "visitor": []}
    return {**parameters, "calls": calls(prefix), **more}


def calls(prefix: str) -> list[Call]:
    ada, initech = f"{prefix}ada", f"{prefix}initech"
    return [
        {"type": "identify", "userId": ada, "traits": {"email": "ada@example.com"}},
        {"type": "group", "groupId": initech, "traits": {"name": "Initech"}},
        {"type": "track", "event": "Report exported", "context": {"groupId": initech}},
        {"type": "page", "name": "Pricing"},
    ]


def assert_arrived(service: Service, prefix: str) -> None:
    """Assert on what the read API returns, as soon as the messages count."""
    service.until_events(prefix, 2)
    ada, initech = f"{prefix}ada", f"{prefix}initech"
    once = {"Report exported": 1, "Viewed Pricing Page": 1}

    def described(scope: Scope, tracking_id: str) -> dict[str, Any]:
        """The record once it has traits. After an outage, an SDK may send them last."""

        def record() -> dict[str, Any] | None:
            counted = service.read_counted(scope, tracking_id, once)
            return counted if counted["traits"] else None

        described_record = until(record, f"the traits of {tracking_id}")
        assert described_record
        return described_record

    user = described("user", ada)
    assert user["traits"] == {"email": "ada@example.com"}
    assert user["account"]["tracking_id"] == initech
    assert described("account", initech)["traits"] == {"name": "Initech"}


@pytest.mark.parametrize("name", PAGES)
def test_what_the_sdk_sends_is_what_arrives(
    name: str, service: Service, prefix: str, site: int, browser: Browser
) -> None:
    dropped = service.dropped()
    page = PAGES[name]
    # The snippet holds calls until its SDK is loaded. By then, the user has done all of it.
    visits = 0 if page.program == "snippet_page" else 1
    visitor = visits * [{"type": "track", "event": "Looked around"}]
    parameters = says(service, prefix, page.settings, visitor=visitor)
    with browser.page_open(site, f"/{page.program}.html", parameters):
        assert_arrived(service, prefix)
        until(lambda: (service.dropped() - dropped)["anonymous"] == visits, "the visitor")
    assert set(service.dropped() - dropped) <= {"anonymous"}


@pytest.mark.parametrize("name", ["Segment", "Segment in batches", "RudderStack with beacons"])
def test_what_the_sdk_sends_while_its_page_is_left_arrives(
    name: str, service: Service, prefix: str, site: int, browser: Browser
) -> None:
    page = PAGES[name]
    parameters = says(service, prefix, page.settings_for_leaving(), leave=True)
    with browser.page_open(site, f"/{page.program}.html", parameters):
        assert_arrived(service, prefix)


@pytest.mark.parametrize("name", ["Segment", "Segment in batches", "RudderStack"])
def test_the_sdk_tries_again_after_an_outage(
    name: str, service: Service, prefix: str, site: int, browser: Browser
) -> None:
    page = PAGES[name]
    with Proxy(service.address).running() as proxy:
        host = proxy.address.removeprefix("http://")
        parameters = says(service, prefix, page.settings, host=host)
        with ExitStack() as stack:
            with service.outage():
                stack.enter_context(browser.page_open(site, f"/{page.program}.html", parameters))
                until(lambda: 503 in proxy.statuses(), "the SDK to be refused")
            assert_arrived(service, prefix)
        retries = [request for request in proxy.seen if "X-Retry-Count" in request.headers]
        assert {request.method for request in retries} <= {"POST"}


@pytest.mark.parametrize("way", ["preflight", "keepalive", "beacon"])
def test_a_page_without_an_sdk_may_send_too(
    way: str, service: Service, prefix: str, site: int, browser: Browser
) -> None:
    parameters = {"host": service.host, "key": service.key, "way": way, "event": f"Sent by {way}"}
    with browser.page_open(site, "/bare.html", {**parameters, "userId": f"{prefix}ada"}):
        service.until_events(prefix, 1)
    assert service.counts(prefix) == {(f"{prefix}ada", f"Sent by {way}"): 1}
