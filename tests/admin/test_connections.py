"""Connecting a product to its marketplace app, and the state of that connection."""

import logging
import re
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from access.models import TrailEntry
from engagement.models import Product, ProductMember
from harness.marketplace.faults import Endpoint, ErrorStatus, HtmlPage
from harness.marketplace.server import Simulator
from marketplace import connecting
from marketplace.models import Connection, SyncRun
from marketplace.source import client
from tests.admin.conftest import logged_in
from tests.admin.rows import a_connection
from tests.marketplace.connections import CHECKED
from tests.pipeline.waiting import places_of
from tests.start.running import free_port

pytestmark = pytest.mark.django_db

State, Kind = Connection.State, SyncRun.Kind
PLANTED = "planted-token-Zx81"


@pytest.fixture
def simulator(settings: Settings) -> Iterator[Simulator]:
    with Simulator.with_licenses(30, today=date(2026, 9, 24)) as served:
        served.replace_token(PLANTED)
        settings.MARKETPLACE_API_URL = served.url
        yield served


def details(simulator: Simulator, **changed: Any) -> dict[str, Any]:
    """The four values that the simulator accepts."""
    vendor = simulator.vendor
    return {
        "user_name": vendor.user_name,
        "api_token": vendor.token,
        "vendor_id": vendor.vendor_id,
        "product_id": vendor.app.product_id,
        **changed,
    }


def connect(who: Client, product: Product, simulator: Simulator, **changed: Any) -> Any:
    """Enter the details on the page for a product's first connection."""
    data = {"product": product.pk, **details(simulator, **changed)}
    return who.post(reverse("admin:marketplace_connection_add"), data)


def url(view: str, connection: Connection) -> str:
    return reverse(f"admin:marketplace_connection_{view}", args=[connection.pk])


def page(who: Client, connection: Connection) -> str:
    return who.get(url("change", connection)).content.decode()


def errors(answer: Any) -> dict[str, str]:
    """The error of each field of the form, or of "__all__"."""
    assert answer.status_code == 200
    form = answer.context["adminform"].form
    return {name: " ".join(sentences) for name, sentences in form.errors.items()}


def notice(who: Client, connection: Connection) -> str:
    """The messages of the next page."""
    answer = who.get(url("change", connection))
    return " ".join(str(message) for message in answer.context["messages"])


def buttons(html: str) -> list[str]:
    tools = html.split('<ul class="object-tools">')[1].split("</ul>")[0]
    return re.findall(r"<(?:a|button)[^>]*>([^<]+)<", tools)


# --- Entering the details -----------------------------------------------------------------------


def test_valid_details_connect_the_product_and_start_the_first_sync(
    member: Client, acme: Product, simulator: Simulator
) -> None:
    answer = connect(member, acme, simulator)
    connection = Connection.objects.get(product=acme)
    assert answer.status_code == 302 and answer["Location"] == url("change", connection)
    assert connection.state == State.ACTIVE
    assert connection.developer_id == simulator.vendor.developer_id
    assert connection.app_name == "Board Lens for Jira"
    assert connection.api_token == PLANTED
    assert [run.kind for run in connection.runs.all()] == [Kind.FIRST]
    assert "Acme is connected to Board Lens for Jira" in notice(member, connection)


@pytest.mark.parametrize(
    "address",
    [
        "https://marketplace.atlassian.com/manage/vendors/{}",
        " https://marketplace.atlassian.com/manage/vendors/{}/ ",
    ],
)
def test_the_vendor_pages_whole_address_is_accepted(
    root: Client, acme: Product, simulator: Simulator, address: str
) -> None:
    connect(root, acme, simulator, vendor_id=address.format(simulator.vendor.vendor_id))
    assert Connection.objects.get().vendor_id == simulator.vendor.vendor_id


@pytest.mark.parametrize("name", ["user_name", "api_token", "vendor_id", "product_id"])
def test_each_of_the_four_values_is_needed(
    root: Client, acme: Product, simulator: Simulator, name: str
) -> None:
    assert errors(connect(root, acme, simulator, **{name: " "})) == {
        name: "This field is required."
    }
    assert not simulator.requests


@pytest.mark.parametrize(
    ("changed", "field", "error_text"),
    [
        ({"api_token": "wrong"}, "api_token", "token"),
        ({"vendor_id": "99999999"}, "vendor_id", "99999999"),
        ({"vendor_id": "our vendor"}, "vendor_id", "number"),
        ({"product_id": "com.lumenworks.page-lens"}, "product_id", "app key"),
        ({"product_id": "6f0d0a52-0000-5c5c-b2b1-0cc54e193987"}, "product_id", "Page Lens"),
    ],
)
def test_a_wrong_value_has_an_error_at_its_field_and_nothing_is_stored(
    root: Client, acme: Product, simulator: Simulator, changed: Any, field: str, error_text: str
) -> None:
    answer = connect(root, acme, simulator, **changed)
    field_errors = errors(answer)
    assert list(field_errors) == [field]
    assert error_text in field_errors[field]
    assert PLANTED not in answer.content.decode()
    assert not Connection.objects.exists()
    assert not TrailEntry.objects.filter(kind="connection").exists()


def test_an_unknown_product_id_lists_the_vendors_apps_with_theirs(
    root: Client, acme: Product, simulator: Simulator
) -> None:
    message = errors(connect(root, acme, simulator, product_id="unknown"))["product_id"]
    for app in simulator.vendor.apps:
        assert app.name in message and app.product_id in message


@pytest.mark.parametrize("endpoint", CHECKED)
def test_a_missing_permission_is_an_error(
    root: Client, acme: Product, simulator: Simulator, endpoint: Endpoint
) -> None:
    simulator.add_faults(ErrorStatus(status=403, on=endpoint))
    field_errors = errors(connect(root, acme, simulator))
    message = " ".join(field_errors.values())
    assert "permission" in message or (
        "may not view" in message and list(field_errors) == ["vendor_id"]
    )
    assert not Connection.objects.exists()


def test_an_unreachable_marketplace_is_an_error_with_advice(
    root: Client, acme: Product, simulator: Simulator, settings: Settings
) -> None:
    settings.MARKETPLACE_API_URL = f"http://127.0.0.1:{free_port()}"
    field_errors = errors(connect(root, acme, simulator))
    assert list(field_errors) == ["__all__"]
    assert "again" in field_errors["__all__"]


def test_an_html_page_instead_of_data_is_an_error(
    root: Client, acme: Product, simulator: Simulator
) -> None:
    simulator.add_faults(HtmlPage())
    assert errors(connect(root, acme, simulator))
    assert not Connection.objects.exists()


def test_a_product_has_one_connection(root: Client, acme: Product, simulator: Simulator) -> None:
    connect(root, acme, simulator)
    assert "product" in errors(connect(root, acme, simulator))


def test_the_form_for_a_live_connection_knows_everything_but_the_credentials(
    root: Client, acme: Product, simulator: Simulator
) -> None:
    connect(root, acme, simulator)
    html = root.get(url("details", Connection.objects.get())).content.decode()
    for name, value in details(simulator).items():
        assert (f'value="{value}"' in html) is (name not in ("user_name", "api_token"))
    assert PLANTED not in html and simulator.vendor.user_name not in html
    assert 'placeholder="r…@lumenworks.example"' in html


@pytest.mark.parametrize("state", [State.REQUIRES_AUTHENTICATION, State.DISCONNECTED])
def test_after_that_all_four_are_entered_again(
    root: Client, acme: Product, simulator: Simulator, state: str
) -> None:
    token = None if state == State.DISCONNECTED else "expired"
    connection = a_connection(acme, state=state, api_token=token)
    html = root.get(url("details", connection)).content.decode()
    assert connection.user_name not in html and connection.vendor_id not in html

    simulator.replace_token("fresh-token")
    assert errors(root.post(url("details", connection), {"api_token": "fresh-token"}))
    connection.refresh_from_db()
    assert connection.state == state

    answer = root.post(url("details", connection), details(simulator))
    assert answer["Location"] == url("change", connection)
    connection.refresh_from_db()
    assert (connection.state, connection.api_token) == (State.ACTIVE, "fresh-token")
    assert connection.runs.filter(state=SyncRun.State.WAITING).exists()


def test_a_connection_stays_with_its_product(
    root: Client, acme: Product, globex: Product, simulator: Simulator
) -> None:
    connect(root, acme, simulator)
    connection = Connection.objects.get()
    root.post(url("details", connection), {"product": globex.pk, **details(simulator)})
    assert Connection.objects.get().product == acme


# --- The page -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "offered_labels"),
    [
        (
            State.ACTIVE,
            [
                *("Test connection", "Sync now", "Full sync", "Read history"),
                *("Replace details", "Disconnect"),
            ],
        ),
        (State.REQUIRES_AUTHENTICATION, ["Enter details", "Disconnect"]),
        (State.DISCONNECTED, ["Enter details"]),
    ],
)
def test_each_state_offers_its_buttons(
    root: Client, acme: Product, state: str, offered_labels: list[str]
) -> None:
    token = None if state == State.DISCONNECTED else PLANTED
    html = page(root, a_connection(acme, state=state, api_token=token))
    assert buttons(html) == [*offered_labels, "History"]
    assert ("Enter details" in html) is (state != State.ACTIVE)


def test_the_page_shows_the_facts_and_what_each_sync_did(root: Client, acme: Product) -> None:
    html = page(root, a_connection(acme))
    for fact in ("acme lens", "com.acme.lens", "r…@acme.example", "1234567", "Not yet"):
        assert (fact in html) is (fact != "Not yet")
    row = html.split("<tbody>")[1]
    assert [int(number) for number in re.findall(r'data-label="[^"]*">(\d+)<', row)] == [
        11,
        503,
        77,
        401,
        9,
        1,
    ]
    assert "1 min 15 s" in row and "First" in row
    assert "E-acme" in row and "It is not readable." in row


def test_a_running_sync_refreshes_its_part_of_the_page(root: Client, acme: Product) -> None:
    connection = a_connection(acme)
    assert "data-working" not in page(root, connection)
    now = timezone.now()
    SyncRun.objects.create(
        connection=connection,
        generation=1,
        kind=Kind.FULL,
        state=SyncRun.State.RUNNING,
        requested_at=now,
        due_at=now,
        started_at=now,
        pages=3,
        seen=150,
        imported=150,
    )
    assert "data-working" in page(root, connection)
    part = root.get(url("status", connection)).content.decode()
    assert "page 3, 150 licenses so far" in part
    assert "<html" not in part and "data-working" in part


def test_the_products_page_leads_to_its_connection_or_to_making_one(
    member: Client, acme: Product
) -> None:
    products_page = reverse("admin:engagement_product_change", args=[acme.pk])
    add = reverse("admin:marketplace_connection_add")
    assert f"{add}?product={acme.pk}" in member.get(products_page).content.decode()
    connection = a_connection(acme)
    html = member.get(products_page).content.decode()
    assert url("change", connection) in html and add not in html


def test_a_deleted_connection_is_reported(root: Client, acme: Product) -> None:
    connection = a_connection(acme)
    address = url("change", connection)
    Connection.objects.all().delete()
    answer = root.get(address, follow=True)
    assert "doesn’t exist" in answer.content.decode()


# --- The buttons --------------------------------------------------------------------------------


@pytest.fixture
def connection(acme: Product, simulator: Simulator) -> Connection:
    """Acme's connection to the simulator, before its first sync."""
    entered_details = connecting.ConnectionDetails(**details(simulator))
    checked = connecting.verify_details(entered_details, client.create_client)
    return connecting.save_connection(acme, checked, timezone.now())


@pytest.mark.parametrize("button", ["test", "sync", "full_sync"])
def test_a_link_presses_no_button(root: Client, connection: Connection, button: str) -> None:
    assert root.get(url(button, connection)).status_code == 405


def test_a_connection_is_tested(root: Client, connection: Connection) -> None:
    answer = root.post(url("test", connection))
    assert answer["Location"] == url("change", connection)
    assert "Board Lens for Jira" in notice(root, connection)


def test_a_rejected_token_shows_above_no_green_state(
    root: Client, connection: Connection, simulator: Simulator
) -> None:
    simulator.replace_token("another")
    root.post(url("test", connection))
    html = page(root, connection)
    assert "The marketplace rejects this user name and API token." in html
    assert "<strong>Requires authentication.</strong>" in html and "Connected." not in html
    assert buttons(html) == ["Enter details", "Disconnect", "History"]


def test_another_failed_test_says_why_and_changes_nothing(
    root: Client, connection: Connection, simulator: Simulator
) -> None:
    simulator.add_faults(ErrorStatus(status=403))
    root.post(url("test", connection))
    assert "may not view the vendor" in notice(root, connection)
    connection.refresh_from_db()
    assert connection.state == State.ACTIVE


@pytest.mark.parametrize(("button", "kind"), [("sync", Kind.RECENT), ("full_sync", Kind.FULL)])
def test_a_sync_is_requested(root: Client, connection: Connection, button: str, kind: str) -> None:
    now = timezone.now()
    connection.runs.update(state=SyncRun.State.SUCCEEDED, finished_at=now)
    Connection.objects.update(full_synced_at=now, last_success_at=now)
    root.post(url(button, connection))
    assert "A sync is starting" in notice(root, connection)
    newest = connection.runs.first()
    assert newest is not None
    assert (newest.kind, newest.state) == (kind, SyncRun.State.WAITING)


def test_a_paused_connection_says_why_it_does_not_sync(root: Client, acme: Product) -> None:
    connection = a_connection(acme, state=State.REQUIRES_AUTHENTICATION)
    before = connection.runs.count()
    root.post(url("sync", connection))
    assert "is not active" in notice(root, connection)
    assert connection.runs.count() == before


def test_disconnecting_asks_first(root: Client, connection: Connection) -> None:
    confirmation = root.get(url("disconnect", connection)).content.decode()
    assert "Disconnect Acme from Board Lens for Jira?" in confirmation
    connection.refresh_from_db()
    assert connection.state == State.ACTIVE

    root.post(url("disconnect", connection))
    connection.refresh_from_db()
    assert (connection.state, connection.api_token) == (State.DISCONNECTED, None)
    assert "Imported traits stay" in notice(root, connection)


def test_nothing_deletes_a_connection(root: Client, connection: Connection) -> None:
    assert root.post(url("delete", connection), {"post": "yes"}).status_code == 403
    listing = reverse("admin:marketplace_connection_changelist")
    root.post(listing, {"action": "delete_selected", "_selected_action": [connection.pk]})
    assert Connection.objects.exists()


# --- Who may ------------------------------------------------------------------------------------


@pytest.fixture
def helper(acme: Product) -> Client:
    """A viewer of Acme who may manage its connection."""
    hal = AdminUser.objects.create_user("hal", is_staff=True)
    viewer = ProductMember.Role.VIEWER
    ProductMember.objects.create(product=acme, user=hal, role=viewer, may_manage_connections=True)
    return logged_in(hal)


def test_a_viewer_sees_the_state_of_a_connection_and_no_buttons(
    reader: Client, acme: Product, simulator: Simulator
) -> None:
    who = reader
    connection = a_connection(acme, state=State.REQUIRES_AUTHENTICATION, state_reason="Refused.")
    html = page(who, connection)
    assert "Refused." in html and buttons(html) == ["History"]
    assert "Enter details" not in html
    for view in ("details", "test", "sync", "full_sync", "disconnect"):
        assert who.post(url(view, connection), details(simulator)).status_code == 403, view
    assert who.get(url("details", connection)).status_code == 403
    assert not simulator.requests


def test_a_viewer_creates_no_connection(
    reader: Client, acme: Product, simulator: Simulator
) -> None:
    assert connect(reader, acme, simulator).status_code == 403
    products_page = reverse("admin:engagement_product_change", args=[acme.pk])
    assert "Add marketplace connection" not in reader.get(products_page).content.decode()


def test_a_viewer_may_be_given_the_connection_alone(
    helper: Client, acme: Product, simulator: Simulator
) -> None:
    products_page = reverse("admin:engagement_product_change", args=[acme.pk])
    html = helper.get(products_page).content.decode()
    assert "Add marketplace connection" in html and "Add ingestion key" not in html
    connect(helper, acme, simulator)
    connection_row = Connection.objects.get(product=acme)
    assert "Disconnect" in buttons(page(helper, connection_row))


def test_the_right_to_manage_is_one_products(
    helper: Client, acme: Product, globex: Product, simulator: Simulator
) -> None:
    hal = AdminUser.objects.get(username="hal")
    ProductMember.objects.create(product=globex, user=hal, role=ProductMember.Role.VIEWER)
    theirs = a_connection(globex)
    assert helper.get(url("disconnect", theirs)).status_code == 403
    theirs.delete()
    assert "Select a valid choice" in errors(connect(helper, globex, simulator))["product"]
    connect(helper, acme, simulator)
    assert Connection.objects.filter(product=acme).exists()


def test_a_member_of_another_product_meets_nothing_of_it(member: Client, globex: Product) -> None:
    theirs = a_connection(globex)
    assert member.get(url("change", theirs)).status_code == 302
    assert member.get(url("status", theirs)).status_code == 404
    for view in ("details", "test", "sync", "full_sync", "disconnect"):
        assert member.post(url(view, theirs)).status_code == 404, view
    listing = member.get(reverse("admin:marketplace_connection_changelist"))
    assert "globex" not in listing.content.decode().lower()


# --- Secrets ------------------------------------------------------------------------------------


def test_the_history_says_who_did_what_without_secrets(
    member: Client, root: Client, acme: Product, simulator: Simulator
) -> None:
    connect(member, acme, simulator)
    connection = Connection.objects.get()
    root.post(url("details", connection), details(simulator))
    root.post(url("full_sync", connection))
    root.post(url("disconnect", connection))
    html = root.get(url("history", connection)).content.decode()
    entries = re.findall(r"</th>\s*<td>(.*?)</td>", html)
    where = "connection Acme · Board Lens for Jira"
    assert entries[:3] == [
        f"root changed the state from active to disconnected in the {where}. Disconnected.",
        f"root requested a sync (first) ({where}).",
        f"root changed User name and API token ({where}).",
    ]
    (added,) = entries[3:]
    assert added == f"maya added the {where}."
    assert PLANTED not in html


def test_the_token_is_found_nowhere_but_encrypted_in_its_column(
    root: Client,
    acme: Product,
    simulator: Simulator,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    pages_with_token = [
        connect(root, acme, simulator, product_id="unknown"),
        connect(root, acme, simulator),
    ]
    connection = Connection.objects.get()
    for view in ("test", "sync", "full_sync"):
        pages_with_token.append(root.post(url(view, connection)))
    simulator.add_faults(ErrorStatus(status=500))
    pages_with_token.append(root.post(url("test", connection)))
    settings.MARKETPLACE_API_URL = f"http://127.0.0.1:{free_port()}"
    pages_with_token.append(root.post(url("details", connection), details(simulator)))
    for view in ("change", "details", "status", "history", "disconnect"):
        pages_with_token.append(root.get(url(view, connection)))
    pages_with_token.append(root.get(reverse("admin:marketplace_connection_changelist")))
    pages_with_token.append(root.get(reverse("admin:engagement_product_change", args=[acme.pk])))
    settings.METRICS_TOKEN = "monitor"
    for address in ("/metrics", "/readyz", "/healthz", "/openapi.json", "/docs"):
        answer = Client().get(address, headers={"authorization": "Bearer monitor"})
        assert answer.status_code in {200, 503}, f"{address} was not looked at"
        pages_with_token.append(answer)
    assert not [page for page in pages_with_token if PLANTED in page.content.decode()]
    assert PLANTED not in caplog.text
    assert PLANTED not in repr(vars(connection))
    assert places_of(PLANTED) == set()
    connection.refresh_from_db()
    assert connection.api_token == PLANTED, "it was there to be found"
