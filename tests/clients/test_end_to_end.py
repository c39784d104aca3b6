"""The whole way: entered in the admin, synced by Celery from a marketplace over HTTP, and read back
as traits of accounts. The tests run in their order.
"""

import json
import os
import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg import sql

from harness.marketplace.faults import Endpoint, ErrorStatus, Latency
from harness.marketplace.records import create_site
from harness.marketplace.server import Simulator
from tests.clients.conftest import LICENSES
from tests.clients.service import Service
from tests.start.clicking import Admin
from tests.start.running import Up, fetch, survivors, until

pytestmark = pytest.mark.whole
PLANTED = "planted-token-Qw93"
FRESH = "planted-token-Fr27"
FIRST_SITE = create_site(1, 0)


@pytest.fixture(scope="module")
def admin(up: Up, simulator: Simulator) -> Iterator[Admin]:
    simulator.replace_token(PLANTED)
    with Admin(up) as admin:
        yield admin


@pytest.fixture(autouse=True)
def behaving(simulator: Simulator) -> Iterator[None]:
    yield
    simulator.clear_faults()


def details(simulator: Simulator) -> dict[str, Any]:
    vendor = simulator.vendor
    return {
        "user_name": vendor.user_name,
        "api_token": vendor.token,
        "vendor_id": vendor.vendor_id,
        "product_id": vendor.app.product_id,
    }


def status(admin: Admin) -> str:
    (address,) = admin.connections()
    return admin.page(f"{address}status/")


def press(admin: Admin, button: str, **values: Any) -> str:
    (address,) = admin.connections()
    return admin.press(f"{address}{button}/", **values)


def syncs(admin: Admin) -> list[str]:
    """The outcome of each sync, newest first."""
    table = status(admin).partition("eds-reports")[0]
    cells = re.findall(r'<td class="eds-result[^>]*>\s*(.*?)\s*</td>', table, re.DOTALL)
    return [" ".join(re.sub(r"<details>.*", "", cell, flags=re.DOTALL).split()) for cell in cells]


def synced(admin: Admin, times: int) -> None:
    """Wait until there are this many syncs and the newest has succeeded."""
    until(lambda: len(syncs(admin)) == times and syncs(admin)[0] == "Succeeded.", "a sync")


def traits(service: Service, account: str) -> dict[str, Any]:
    """The account's traits in the read API."""

    def read(path: str) -> Any:
        headers = {"Authorization": f"Bearer {service.read_token}"}
        status, body = fetch(f"{service.address}{path}", headers=headers)
        assert status == 200, body
        return json.loads(body)["data"]

    workspace = f"workspace_id={service.workspace_id}"
    match = f"/v2/accounts?{workspace}&match_type=tracking_id&match_value={account}"
    # It is in the ranking once it is scored, a moment after the sync.
    until(lambda: len(read(match)) == 1, f"{account} to be ranked")
    (record,) = read(match)
    expanded = read(f"/v2/accounts/{record['id']}?{workspace}&expand=traits")
    traits_of_account: dict[str, Any] = expanded["traits"]
    return traits_of_account


def offsets(simulator: Simulator) -> list[int]:
    """The offsets of the pages requested since the last call."""
    offsets = [
        request.offset for request in simulator.requests if request.endpoint == Endpoint.LICENSES
    ]
    simulator.requests.clear()
    return offsets


def test_the_accounts_of_a_connected_product_get_license_traits(
    service: Service, up: Up, admin: Admin, simulator: Simulator
) -> None:
    page = admin.press(
        "/admin/marketplace/connection/add/",
        product=up.credentials["product_id"],
        **details(simulator),
    )
    assert "is connected to Board Lens for Jira" in page
    synced(admin, 1)
    assert f'data-label="Licenses seen">{LICENSES}<' in status(admin)
    license_traits = traits(service, FIRST_SITE.cloud_id)
    assert license_traits["am.addonName"] == "Board Lens for Jira"
    assert license_traits["am.contactDetails.company"] == FIRST_SITE.company
    assert license_traits["am.tier"] == f"{license_traits['am.tier.number']} Users"
    assert not [
        name for name in license_traits if "Contact" in name.removeprefix("am.contactDetails")
    ]


def test_a_changed_license_arrives_with_the_next_sync(
    service: Service, admin: Admin, simulator: Simulator
) -> None:
    simulator.feed.touch(1, datetime.now(UTC).date(), tier="1,234 Users")
    offsets(simulator)
    assert "A sync is starting" in press(admin, "sync")
    synced(admin, 2)
    assert traits(service, FIRST_SITE.cloud_id)["am.tier.number"] == 1234
    since = {request.parameters.get("lastUpdated") for request in simulator.requests}
    assert None not in since, "it asked for changes only"


def test_a_sync_waits_for_a_rate_limit(admin: Admin, simulator: Simulator) -> None:
    simulator.add_faults(
        ErrorStatus(status=429, retry_after="1", on=Endpoint.LICENSES, offset=100, times=2)
    )
    press(admin, "full-sync")
    synced(admin, 3)


def test_a_sync_resumes_from_its_page_after_its_worker_was_killed(
    up: Up, admin: Admin, simulator: Simulator
) -> None:
    simulator.add_faults(Latency(seconds=0.5, on=Endpoint.LICENSES))
    simulator.requests.clear()
    press(admin, "full-sync")
    until(lambda: any(request.offset >= 150 for request in simulator.requests), "the fourth page")
    worker = up.named("worker --queues marketplace")[0]
    processes = [worker, *worker.children()]
    os.kill(worker.pid, signal.SIGKILL)
    until(lambda: not survivors(processes), "its end")
    offsets(simulator)
    simulator.clear_faults()
    until(lambda: survivors(up.named("worker --queues marketplace")), "a new worker")
    # Beat would ask within a minute; a person need not wait for it.
    press(admin, "sync")
    synced(admin, 4)
    assert offsets(simulator)[0] >= 50, "it did not begin anew"


def test_an_expired_token_pauses_syncs_until_all_four_are_entered_again(
    admin: Admin, simulator: Simulator
) -> None:
    simulator.replace_token(FRESH)
    press(admin, "sync")
    until(lambda: "<strong>Requires authentication.</strong>" in status(admin), "the state")
    simulator.requests.clear()
    assert "is not active" in press(admin, "sync")
    assert not simulator.requests

    before = len(syncs(admin))
    press(admin, "details", **details(simulator))
    synced(admin, before + 1)
    assert "<strong>Connected.</strong>" in status(admin)


def test_a_running_sync_writes_nothing_after_a_disconnect(
    service: Service, up: Up, admin: Admin, simulator: Simulator
) -> None:
    last = len(simulator.feed) - 1
    changed = simulator.feed.change(last, tier="4321 Users")
    simulator.add_faults(Latency(seconds=0.5, on=Endpoint.LICENSES))
    press(admin, "full-sync")
    until(lambda: "page 2," in status(admin), "the second page")
    assert "is disconnected" in press(admin, "disconnect")
    assert syncs(admin)[0].startswith("Stopped.")
    simulator.clear_faults()

    # Whatever was under way comes back first and finds that nobody wants it.
    def has_ended() -> bool:
        simulator.requests.clear()
        up.process.poll()
        return "<strong>Disconnected.</strong>" in status(admin) and not simulator.requests

    until(has_ended, "the end of its requests")
    traits_before = traits(service, changed["cloudId"])
    assert traits_before["am.tier"] != "4321 Users", "imported traits stay as they are"


def test_neither_token_is_in_the_output_or_in_a_dump_of_the_database(up: Up) -> None:
    assert "planted-token" not in up.text
    assert dumped_with(up, "planted-token") == []
    assert dumped_with(up, FIRST_SITE.cloud_id), "what is there is found"


def dumped_with(up: Up, text: str) -> list[str]:
    """The tables, queues included, in which a dump would hold the text."""
    with up.connect() as database:
        tables = database.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT LIKE 'pg\\_%' "
            "AND schemaname <> 'information_schema'"
        ).fetchall()
        look = sql.SQL("SELECT EXISTS (SELECT 1 FROM {} t WHERE position({} IN t::text) > 0)")
        return [
            table
            for schema, table in tables
            if database.execute(look.format(sql.Identifier(schema, table), text)).fetchall()[0][0]
        ]
