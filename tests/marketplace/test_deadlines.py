"""A request ends at its deadline, whatever the marketplace does."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from django.contrib.auth.models import User as Person
from django.urls import reverse
from pytest_django import Settings

from config.local import service
from engagement.models import Product
from harness.marketplace.faults import Endpoint, Fault, Trickle
from harness.marketplace.server import LOOPBACK, Simulator
from marketplace.models import Connection
from marketplace.runs import lifecycle, scheduling
from marketplace.source import client, deadlines
from marketplace.source.client import Credentials, LicenseQuery
from marketplace.source.errors import MarketplaceNotFound, MarketplaceUnavailable
from tests.admin.conftest import logged_in
from tests.marketplace.connections import (
    CHECKED,
    FAST_RETRY_POLICY,
    NOON,
    RunState,
    connect,
    details_of,
    licenses,
    sync_now,
    work,
)
from tests.start.running import until

# Short enough that no read times out, and a response takes minutes.
SECONDS = 0.1
IMPATIENT = replace(FAST_RETRY_POLICY, attempts=1, request_timeout=0.5)
DRIPS = [Trickle(seconds=SECONDS), Trickle(seconds=SECONDS, headers=True)]
TOO_LONG = "its response takes too long"


def a_client(patience: client.RetryPolicy = IMPATIENT) -> client.MarketplaceClient:
    return client.create_client(Credentials("me", "token"), patience)


@pytest.fixture
def at_rest() -> Iterator[Callable[[], None]]:
    """Waits until every request of the test has ended."""
    before = set(threading.enumerate())

    def wait() -> None:
        def is_over() -> bool:
            others = set(threading.enumerate()) - before
            return not any(thread.name.startswith(deadlines.THREAD_NAME) for thread in others)

        until(is_over, "the end of the request")

    yield wait


@pytest.mark.parametrize("drip", DRIPS, ids=["body", "headers"])
def test_a_trickling_response_is_cut_off_and_leaves_nothing_running(
    simulator: Simulator, drip: Fault, at_rest: Callable[[], None]
) -> None:
    simulator.feed.add(*licenses(simulator, 3))
    vendor = simulator.vendor
    patient = client.create_client(Credentials(vendor.user_name, vendor.token), IMPATIENT)
    query = LicenseQuery(vendor.app.product_id)
    assert len(patient.licenses(vendor.developer_id, query, 0).records) == 3
    # On the connection that the previous request kept open.
    simulator.add_faults(drip)
    with pytest.raises(MarketplaceUnavailable, match=TOO_LONG):
        patient.licenses(vendor.developer_id, query, 0)
    at_rest()
    simulator.clear_faults()
    assert len(patient.licenses(vendor.developer_id, query, 0).records) == 3


def test_a_slow_response_before_the_deadline_is_used(simulator: Simulator) -> None:
    simulator.add_faults(Trickle(seconds=0.001))
    vendor = simulator.vendor
    patient = client.create_client(Credentials(vendor.user_name, vendor.token), FAST_RETRY_POLICY)
    assert patient.developer_id(vendor.vendor_id) == vendor.developer_id


@pytest.fixture
def dripping() -> Iterator[int]:
    """The port of a server that sends the beginning of a TLS handshake, a byte at a time."""

    def drip(connected: socket.socket) -> None:
        with connected, suppress(OSError):
            connected.sendall(b"\x16\x03\x03\x40\x00\x02")
            while True:
                connected.sendall(b"\x00")
                time.sleep(SECONDS)

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=drip, args=[server.accept()[0]], daemon=True).start()

    with socket.create_server((LOOPBACK, 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def test_a_trickling_tls_handshake_is_cut_off(
    settings: Settings, dripping: int, at_rest: Callable[[], None]
) -> None:
    settings.MARKETPLACE_API_URL = f"https://{LOOPBACK}:{dripping}"
    with pytest.raises(MarketplaceUnavailable):
        a_client().developer_id("1")
    at_rest()


def test_a_connection_that_opens_after_the_deadline_is_shut_down(simulator: Simulator) -> None:
    """For example, because its name took long to resolve."""
    go_on = threading.Event()
    ended = threading.Event()

    def request() -> None:
        assert go_on.wait(timeout=20)
        try:
            client.new_session().get(simulator.url, timeout=20)
        finally:
            ended.set()

    simulator.add_faults(Trickle(seconds=SECONDS))
    with pytest.raises(deadlines.DeadlineExceeded):
        deadlines.DeadlineRunner().run(0.01, request)
    go_on.set()
    assert ended.wait(timeout=20)


def test_the_error_of_a_request_is_raised() -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        deadlines.DeadlineRunner().run(20.0, fail)


def test_all_requests_of_a_client_share_its_time(simulator: Simulator) -> None:
    vendor = simulator.vendor
    credentials = Credentials(vendor.user_name, vendor.token)
    late = client.create_client(credentials, replace(FAST_RETRY_POLICY, total_timeout=0.0))
    with pytest.raises(MarketplaceUnavailable, match="its responses take too long"):
        late.developer_id(vendor.vendor_id)
    assert not simulator.requests


GEVENT = """
from gevent import monkey
monkey.patch_all()
import sys, django
django.setup()
from dataclasses import replace
from django.conf import settings
from marketplace.source import client
from marketplace.source.errors import MarketplaceUnavailable
settings.MARKETPLACE_API_URL = sys.argv[1]
patience = replace(client.INTERACTIVE_RETRY_POLICY, attempts=1, request_timeout=0.5)
try:
    client.create_client(client.Credentials(*sys.argv[2:4]), patience).developer_id(sys.argv[4])
except MarketplaceUnavailable as failure:
    print(failure)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["body", "headers", "TLS"])
def test_deadlines_hold_in_web_workers(simulator: Simulator, dripping: int, way: str) -> None:
    """They run on gevent, which replaces threads by greenlets."""
    simulator.add_faults(Trickle(seconds=SECONDS, headers=way == "headers"))
    address = f"https://{LOOPBACK}:{dripping}" if way == "TLS" else simulator.url
    vendor = simulator.vendor
    details = [vendor.user_name, vendor.token, vendor.vendor_id]
    command = [sys.executable, "-c", GEVENT, address, *details]
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert process.stdout.strip() == TOO_LONG


# --- The form -------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("endpoint", CHECKED)
@pytest.mark.parametrize("headers", [False, True], ids=["body", "headers"])
def test_a_form_that_gives_up_says_so_and_stores_nothing(
    acme: Product,
    simulator: Simulator,
    monkeypatch: pytest.MonkeyPatch,
    endpoint: Endpoint,
    headers: bool,
    at_rest: Callable[[], None],
) -> None:
    brief = partial(
        client.create_client,
        retry_policy=replace(client.INTERACTIVE_RETRY_POLICY, total_timeout=1.0),
    )
    monkeypatch.setattr(client, "create_client", brief)
    simulator.add_faults(Trickle(seconds=SECONDS, on=endpoint, headers=headers))
    browser = logged_in(Person.objects.create_superuser("root"))
    data = {"product": acme.pk, **vars(details_of(simulator))}
    answer = browser.post(reverse("admin:marketplace_connection_add"), data)
    (sentence,) = answer.context["adminform"].form.non_field_errors()
    assert sentence.startswith("The marketplace is unavailable: its response")
    assert "Nothing was saved." in sentence
    at_rest()
    assert not Connection.objects.exists()


# --- Syncs ----------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("drip", DRIPS, ids=["body", "headers"])
def test_a_sync_with_a_trickling_page_is_suspended_and_its_worker_continues_with_others(
    acme: Product, globex: Product, simulator: Simulator, drip: Trickle
) -> None:
    simulator.feed.add(*licenses(simulator, 60))
    slow, other = connect(acme, simulator), connect(globex, simulator)
    fast_client: Callable[[Credentials], client.MarketplaceClient] = partial(
        client.create_client, retry_policy=IMPATIENT
    )
    drip = Trickle(seconds=SECONDS, headers=drip.headers, offset=50, times=1)
    simulator.add_faults(drip)
    run = work(slow, create_client=fast_client)
    assert (run.state, run.seen) == (RunState.WAITING, 50)
    assert TOO_LONG in run.error
    assert work(other).state == RunState.SUCCEEDED
    assert sync_now(slow).state == RunState.SUCCEEDED


def test_the_turn_of_a_sync_is_bounded() -> None:
    """A request and a turn are bounded, and several connections sync at once."""
    assert (
        client.BACKGROUND_RETRY_POLICY.request_timeout
        < client.BACKGROUND_RETRY_POLICY.total_timeout
        <= 120
    )
    assert service.SYNC_CONCURRENCY > 1


@pytest.mark.django_db
def test_connections_take_turns(acme: Product, globex: Product, simulator: Simulator) -> None:
    first, second = connect(acme, simulator), connect(globex, simulator)
    simulator.feed.add(*licenses(simulator, 200))
    work(first, NOON + lifecycle.BACKOFF.first, is_out_of_time=lambda: True)
    assert scheduling.due_connection_ids(NOON + lifecycle.BACKOFF.first) == [second.pk, first.pk]


def test_the_thread_of_a_client_ends_with_it(
    simulator: Simulator, at_rest: Callable[[], None]
) -> None:
    vendor = simulator.vendor
    patient = client.create_client(Credentials(vendor.user_name, vendor.token), FAST_RETRY_POLICY)
    assert patient.developer_id(vendor.vendor_id) == vendor.developer_id
    with pytest.raises(MarketplaceNotFound):
        patient.developer_id("1")
    del patient
    at_rest()
