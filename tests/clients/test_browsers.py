"""Segment's SDK for browsers, unmodified, and pages without one, on another origin."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.clients.browsing import Site, page_open
from tests.clients.conftest import HERE
from tests.clients.proxy import Proxy
from tests.clients.sending import Call
from tests.clients.service import Service
from tests.start.running import until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("node")]

ONE_BY_ONE: dict[str, Any] = {}
IN_BATCHES = {"deliveryStrategy": {"strategy": "batching", "config": {"size": 3, "timeout": 500}}}


@pytest.fixture(scope="module")
def site(node: str, chromium: str) -> Iterator[str]:
    """The address of the application's pages."""
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        for name in ("browser.mjs", "bare.mjs"):
            site.add(HERE / "programs" / name)
        with site.served() as address:
            yield address


def says(service: Service, prefix: str, settings: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What the page with the SDK is told to do."""
    told = {"host": service.host, "key": service.key, "settings": settings, "visitor": []}
    return {**told, "calls": calls(prefix), **more}


def calls(prefix: str) -> list[Call]:
    ada, initech = f"{prefix}ada", f"{prefix}initech"
    return [
        {"type": "identify", "userId": ada, "traits": {"email": "ada@example.com"}},
        {"type": "group", "groupId": initech, "traits": {"name": "Initech"}},
        {"type": "track", "event": "Report exported", "context": {"groupId": initech}},
        {"type": "page", "name": "Pricing"},
    ]


def assert_arrived(service: Service, prefix: str) -> None:
    service.until_events(prefix, 2)
    ada, initech = f"{prefix}ada", f"{prefix}initech"
    until(lambda: service.accounts(prefix) == {initech: {"name": "Initech"}}, "the account")
    until(lambda: service.users(prefix) == {ada: {"email": "ada@example.com"}}, "the user")
    assert sorted(one[:3] for one in service.events(prefix)) == [
        (ada, "Report exported", initech),
        (ada, "Viewed Pricing Page", initech),
    ]


@pytest.mark.parametrize("settings", [ONE_BY_ONE, IN_BATCHES], ids=["one by one", "in batches"])
def test_what_the_sdk_sends_is_what_arrives(
    settings: dict[str, Any], service: Service, prefix: str, site: str, chromium: str
) -> None:
    dropped = service.dropped()
    visitor = [{"type": "track", "event": "Looked around"}]
    told = says(service, prefix, settings, visitor=visitor)
    with page_open(chromium, f"{site}/browser.html", told):
        assert_arrived(service, prefix)
        until(lambda: service.dropped() - dropped == {"anonymous": 1}, "what was anonymous")


@pytest.mark.parametrize("settings", [ONE_BY_ONE, IN_BATCHES], ids=["one by one", "in batches"])
def test_what_the_sdk_sends_while_its_page_is_left_arrives(
    settings: dict[str, Any], service: Service, prefix: str, site: str, chromium: str
) -> None:
    slow = {"size": 100, "timeout": 60_000}
    if settings:
        settings = {"deliveryStrategy": {"strategy": "batching", "config": slow}}
    told = says(service, prefix, settings, leave=True)
    with page_open(chromium, f"{site}/browser.html", told):
        assert_arrived(service, prefix)


@pytest.mark.parametrize("settings", [ONE_BY_ONE, IN_BATCHES], ids=["one by one", "in batches"])
def test_the_sdk_tries_again_after_an_outage(
    settings: dict[str, Any], service: Service, prefix: str, site: str, chromium: str
) -> None:
    with Proxy(service.address).running() as proxy:
        host = proxy.address.removeprefix("http://")
        told = says(service, prefix, settings, host=host)
        with ExitStack() as stack:
            with service.outage():
                stack.enter_context(page_open(chromium, f"{site}/browser.html", told))
                until(lambda: 503 in proxy.statuses(), "the SDK to be refused")
            assert_arrived(service, prefix)
        counted = [one for one in proxy.seen if one.headers.get("X-Retry-Count")]
        assert {one.method for one in counted} == {"POST"}
    assert len(service.events(prefix)) == 2


@pytest.mark.parametrize("way", ["preflight", "keepalive", "beacon"])
def test_a_page_without_an_sdk_may_send_too(
    way: str, service: Service, prefix: str, site: str, chromium: str
) -> None:
    told = {"host": service.host, "key": service.key, "way": way, "event": f"Sent by {way}"}
    with page_open(chromium, f"{site}/bare.html", {**told, "userId": f"{prefix}ada"}):
        service.until_events(prefix, 1)
    assert service.counts(prefix) == {(f"{prefix}ada", f"Sent by {way}"): 1}
