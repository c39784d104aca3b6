"""Options of a connection, and what real marketplaces do that is no fault."""

import pytest
from django.contrib.auth.models import User as AdminUser
from django.urls import reverse

from engagement.models import Product
from harness.marketplace.faults import Endpoint, ErrorStatus
from harness.marketplace.server import Simulator
from marketplace import connecting
from marketplace.connecting import ConnectionOptions
from marketplace.models import Connection
from marketplace.status import connection_status
from tests.admin.conftest import logged_in
from tests.marketplace.connections import (
    DAY,
    HOUR,
    NOON,
    Kind,
    RunState,
    State,
    a_license,
    connect,
    details_of,
    fast_client,
    keys,
    latest,
    license_requests,
    sync_now,
    work,
)

pytestmark = pytest.mark.django_db


# --- Licenses of the marketplace's own staff ------------------------------------------------------


def test_staff_licenses_are_left_out_unless_somebody_includes_them(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(
        a_license(simulator, 1), a_license(simulator, 2, licenseSourceType="Atlassian")
    )
    work(connection)
    assert keys(acme) == {"E-0001"}
    assert "includeAtlassianLicenses" not in license_requests(simulator)[0].parameters

    simulator.requests.clear()
    verified = connecting.verify_details(details_of(simulator), fast_client)
    options = ConnectionOptions(includes_staff_licenses=True)
    connecting.save_connection(acme, verified, NOON + HOUR, options)
    run = work(connection, NOON + HOUR)
    assert (run.kind, run.state) == (Kind.FIRST, RunState.SUCCEEDED), "all licenses are read again"
    assert keys(acme) == {"E-0001", "E-0002"}
    values = {request.parameters.get("includeAtlassianLicenses") for request in simulator.requests}
    assert values == {None, "true"}


def test_the_form_has_the_option_and_it_is_off(acme: Product, simulator: Simulator) -> None:
    root = logged_in(AdminUser.objects.create_superuser("root"))
    page = reverse("admin:marketplace_connection_add")
    html = root.get(page).content.decode()
    assert 'name="includes_staff_licenses"' in html and "checked" not in html
    details = {"product": acme.pk, **vars(details_of(simulator))}
    root.post(page, {**details, "includes_staff_licenses": "on"})
    connection = Connection.objects.get()
    assert connection.includes_staff_licenses
    page = reverse("admin:marketplace_connection_details", args=[connection.pk])
    assert "checked" in root.get(page).content.decode()


# --- Reports that lag behind ----------------------------------------------------------------------


def test_a_license_that_the_report_shows_a_day_late_arrives_with_the_next_sync(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    work(connection)
    simulator.delay_reports()
    simulator.feed.add(a_license(simulator, 1, lastUpdated=NOON.date().isoformat()))
    assert sync_now(connection, NOON + 6 * HOUR).seen == 0
    simulator.refresh_reports()
    run = sync_now(connection, NOON + DAY)
    assert (run.kind, run.imported) == (Kind.RECENT, 1)
    assert keys(acme) == {"E-0001"}


# --- A report that is down while the details are entered ------------------------------------------


def test_details_are_saved_and_the_first_sync_is_pending(
    acme: Product, simulator: Simulator
) -> None:
    simulator.feed.add(a_license(simulator))
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=503))
    root = logged_in(AdminUser.objects.create_superuser("root"))
    details = {"product": acme.pk, **vars(details_of(simulator))}
    answer = root.post(reverse("admin:marketplace_connection_add"), details, follow=True)
    html = answer.content.decode()
    connection = Connection.objects.get()
    assert connection.state == State.ACTIVE
    assert "The license report is unavailable at the moment: it returned 503." in html
    assert "The first sync is pending." in html

    # A worker tries, too, and is put off.
    due_at = latest(connection).due_at
    work(connection, due_at)
    connection.refresh_from_db()
    shown_status = connection_status.connection_status(connection, due_at)
    assert (shown_status.level, shown_status.reason) == ("warning", "The first sync is pending.")
    assert shown_status.advice.startswith("The marketplace is unavailable: it returned 503.")
    simulator.clear_faults()
    assert work(connection, latest(connection).due_at).state == RunState.SUCCEEDED
    assert keys(acme) == {"E-0001"}


def test_a_report_that_is_refused_stores_nothing(acme: Product, simulator: Simulator) -> None:
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=403))
    with pytest.raises(connecting.DetailsRejected):
        connect(acme, simulator)
    assert not Connection.objects.exists()
