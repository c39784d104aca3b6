"""Helpers for tests of a connection to a simulated marketplace."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection as django_connection

from engagement.models import Account, Product
from harness.marketplace.endpoints import RecordedRequest
from harness.marketplace.faults import Endpoint
from harness.marketplace.server import Simulator
from marketplace import connecting
from marketplace.connecting import ConnectionDetails
from marketplace.models import Connection, License, SyncRun
from marketplace.runs import scheduling
from marketplace.runs.sync import SyncEnvironment, run_sync
from marketplace.source import client
from marketplace.source.client import Credentials, LicenseQuery, MarketplaceClient, RetryPolicy
from marketplace.source.pages import ReportPage

# The time of the simulator's records.
NOON = datetime(2026, 9, 24, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
# As many attempts as a sync's worker, without delays.
FAST_RETRY_POLICY = RetryPolicy(
    attempts=4,
    request_timeout=10.0,
    max_total_delay=60.0,
    total_timeout=600.0,
    sleep=lambda _: None,
    now=lambda: NOON,
)

# What the form asks for before it stores details.
CHECKED = (Endpoint.VENDOR, Endpoint.LISTING, Endpoint.LICENSES)

State, Kind, RunState = Connection.State, SyncRun.Kind, SyncRun.State


def fast_client(credentials: Credentials) -> MarketplaceClient:
    return client.create_client(credentials, FAST_RETRY_POLICY)


def with_page_callback(on_page: Callable[[int], None]) -> client.ClientFactory:
    """Creates clients that call *on_page* with the offset after each request for a page."""

    def client_for(credentials: Credentials) -> MarketplaceClient:
        client = fast_client(credentials)
        ask = client.licenses

        def licenses(developer_id: str, query: LicenseQuery, offset: int) -> ReportPage:
            try:
                return ask(developer_id, query, offset)
            finally:
                on_page(offset)

        client.licenses = licenses  # type: ignore[method-assign]
        return client

    return client_for


def details_of(simulator: Simulator, **changed: str) -> ConnectionDetails:
    """The four values that the simulator accepts."""
    vendor = simulator.vendor
    values = {
        "user_name": vendor.user_name,
        "api_token": vendor.token,
        "vendor_id": vendor.vendor_id,
        "product_id": vendor.app.product_id,
        **changed,
    }
    return ConnectionDetails(**values)


def connect(product: Product, simulator: Simulator, now: datetime = NOON) -> Connection:
    """Connect the product as the admin does. The first sync is due."""
    checked = connecting.verify_details(details_of(simulator), fast_client)
    return connecting.save_connection(product, checked, now)


def a_license(
    simulator: Simulator, number: int = 1, cloud: str = "", **fields: Any
) -> dict[str, Any]:
    """An active paid license of the app; each number is another license, on a site of its own
    unless *cloud* names one."""
    return {
        "appEntitlementNumber": f"E-{number:04}",
        "cloudId": cloud or f"site-{number:04}",
        "productId": simulator.vendor.app.product_id,
        "addonKey": simulator.vendor.app.key,
        "addonName": simulator.vendor.app.name,
        "hosting": "Cloud",
        "lastUpdated": "2026-09-01",
        "licenseType": "COMMERCIAL",
        "maintenanceEndDate": "2027-09-01",
        "status": "active",
        "tier": "10 Users",
        "cloudComplianceBoundaries": ["commercial"],
        **fields,
    }


def licenses(simulator: Simulator, number: int, first: int = 1) -> list[dict[str, Any]]:
    return [a_license(simulator, place) for place in range(first, first + number)]


def work(
    connection: Connection,
    now: datetime = NOON,
    is_out_of_time: Callable[[], bool] = lambda: False,
    on_pages_written: Callable[[], None] = lambda: None,
    create_client: client.ClientFactory = fast_client,
    prefetch_limit: int = 1,
) -> SyncRun:
    """Give the connection a worker's turn; return its latest run. It writes page by page, so a test
    knows when it does."""
    environment = SyncEnvironment(
        create_client, lambda: now, is_out_of_time, on_pages_written, prefetch_limit
    )
    run_sync(connection.pk, environment)
    return latest(connection)


def sync_now(
    connection: Connection, now: datetime = NOON, kind: SyncRun.Kind = Kind.RECENT
) -> SyncRun:
    """Request a sync and give it a worker's turn."""
    scheduling.request_sync(connection, kind, now)
    return work(connection, now)


def latest(connection: Connection) -> SyncRun:
    run = connection.runs.first()
    assert run is not None
    return run


def counters(run: SyncRun) -> dict[str, int]:
    """The run's counters, without zeros."""
    names = ["seen", "imported", "unchanged", "skipped", "failed", "without_cloud_id"]
    names += ["accounts_created", "accounts_updated"]
    return {name: number for name in names if (number := getattr(run, name))}


def traits(product: Product, cloud_id: str) -> dict[str, Any]:
    account = Account.objects.get(product=product, external_id=cloud_id)
    traits: dict[str, Any] = account.traits
    return traits


def accounts(product: Product) -> set[str]:
    identified = Account.objects.filter(product=product, is_identified=True)
    return set(identified.values_list("external_id", flat=True))


def keys(product: Product) -> set[str]:
    return set(License.objects.filter(product=product).values_list("key", flat=True))


def versions() -> dict[str, str]:
    """For each license and account, a text that changes with every write."""
    with django_connection.cursor() as cursor:
        cursor.execute(
            "SELECT key, xmin::text || ctid::text FROM marketplace_license UNION ALL "
            "SELECT external_id, xmin::text || ctid::text FROM engagement_account"
        )
        return dict(cursor.fetchall())


def license_requests(simulator: Simulator) -> list[RecordedRequest]:
    return [request for request in simulator.requests if request.endpoint == Endpoint.LICENSES]
