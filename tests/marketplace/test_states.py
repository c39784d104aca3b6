"""Each change of a connection's state, and its effect on syncs, the token, and traits."""

from datetime import datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from engagement.models import Account, Product, RescoreRequest
from harness.marketplace.faults import Endpoint, ErrorStatus
from harness.marketplace.server import Simulator
from marketplace import connecting
from marketplace.models import Connection, LicenseEvent, SyncRun
from marketplace.runs import lifecycle, scheduling
from marketplace.runs.timetable import load_timetable
from marketplace.source.client import Credentials, MarketplaceClient
from tests.license_events import add_event
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
    licenses,
    traits,
    work,
)

pytestmark = pytest.mark.django_db


def read(connection: Connection) -> Connection:
    """The connection as it is stored, with its token."""
    return Connection.objects.defer(None).get(pk=connection.pk)


def token_is_stored(connection: Connection) -> bool:
    return read(connection).api_token is not None


def expire(simulator: Simulator, connection: Connection, now: datetime = NOON) -> None:
    """Let the token expire and a sync notice it."""
    simulator.replace_token()
    scheduling.request_sync(connection, Kind.RECENT, now)
    work(connection, now)
    assert read(connection).state == State.REQUIRES_AUTHENTICATION


def next_sync_at(connection: Connection, now: datetime) -> datetime | None:
    connection.refresh_from_db()
    return scheduling.next_sync_at(connection, connection.runs.first(), load_timetable(), now)


# --- Saving valid details -------------------------------------------------------------------


def test_not_configured_becomes_active_and_the_first_sync_starts(
    acme: Product, simulator: Simulator
) -> None:
    assert not Connection.objects.filter(product=acme).exists()
    connection = read(connect(acme, simulator))
    vendor = simulator.vendor
    assert connection.state == State.ACTIVE
    assert connection.developer_id == vendor.developer_id, "looked up"
    assert (connection.app_name, connection.app_key) == (vendor.app.name, vendor.app.key)
    assert connection.api_token == vendor.token
    run = latest(connection)
    assert (run.kind, run.state, run.due_at) == (Kind.FIRST, RunState.WAITING, NOON)


def test_requires_authentication_becomes_active_and_a_new_sync_starts(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    work(connection)
    expire(simulator, connection, NOON + HOUR)
    saved = read(connect(acme, simulator, NOON + DAY))
    assert (saved.pk, saved.state, saved.state_reason) == (connection.pk, State.ACTIVE, "")
    assert saved.api_token == simulator.vendor.token
    assert saved.last_error == ""
    run = latest(connection)
    assert (run.kind, run.state, run.due_at) == (Kind.RECENT, RunState.WAITING, NOON + DAY)
    assert work(connection, NOON + DAY).state == RunState.SUCCEEDED


def test_after_a_long_time_without_authentication_the_new_sync_is_a_full_one(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    work(connection)
    expire(simulator, connection, NOON + HOUR)
    connect(acme, simulator, NOON + 5 * DAY)
    assert latest(connection).kind == Kind.FULL


def test_disconnected_becomes_active_and_the_first_sync_starts(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    work(connection)
    connecting.disconnect(connection, NOON + HOUR)
    saved = read(connect(acme, simulator, NOON + 2 * HOUR))
    assert (saved.pk, saved.state) == (connection.pk, State.ACTIVE)
    assert saved.api_token == simulator.vendor.token
    assert (latest(connection).kind, latest(connection).state) == (Kind.FIRST, RunState.WAITING)


def test_replacing_the_details_of_an_active_connection_starts_a_sync_with_the_new_ones(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    before = latest(connection)
    simulator.replace_token()
    connect(acme, simulator, NOON + HOUR)
    before.refresh_from_db()
    assert (before.state, before.note) == (
        RunState.STOPPED,
        "The connection’s details were replaced.",
    )
    assert work(connection, NOON + HOUR).state == RunState.SUCCEEDED


def test_another_app_starts_without_licenses_and_its_values_replace_the_old_ones(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(a_license(simulator, 1, "site", tier="500 Users"))
    work(connection)
    add_event(acme, "churned", "2026-09-01", cloud_id="site")
    RescoreRequest.objects.all().delete()
    other = simulator.vendor.apps[1]
    details = details_of(simulator, product_id=other.product_id)
    connecting.save_connection(acme, connecting.verify_details(details, fast_client), NOON + HOUR)
    assert keys(acme) == set()
    # What segments and lists say of the account changes.
    account = Account.objects.get(external_id="site")
    assert list(RescoreRequest.objects.values_list("account_id", flat=True)) == [account.pk]
    assert not LicenseEvent.objects.exists()
    assert traits(acme, "site")["am.tier"] == "500 Users", "until they are replaced"

    simulator.feed.add(
        a_license(simulator, 2, "site", productId=other.product_id, status="inactive")
    )
    run = work(connection, NOON + HOUR)
    assert (run.kind, keys(acme)) == (Kind.FIRST, {"E-0002"})
    assert traits(acme, "site")["am.tier"] == "10 Users"


# --- Disconnecting --------------------------------------------------------------------------


@pytest.mark.parametrize("from_state", [State.ACTIVE, State.REQUIRES_AUTHENTICATION])
def test_disconnecting_stops_syncs_keeps_traits_and_deletes_the_token(
    acme: Product, simulator: Simulator, connection: Connection, from_state: str
) -> None:
    simulator.feed.add(*licenses(simulator, 2))
    work(connection)
    if from_state == State.REQUIRES_AUTHENTICATION:
        expire(simulator, connection)
    else:
        scheduling.request_sync(connection, Kind.RECENT, NOON)
    connecting.disconnect(connection, NOON + HOUR)

    assert read(connection).state == State.DISCONNECTED
    assert not token_is_stored(connection)
    assert lifecycle.unfinished_runs(connection).count() == 0
    assert scheduling.request_due_syncs(NOON + 6 * HOUR) == 0
    with pytest.raises(scheduling.ConnectionInactive):
        scheduling.request_sync(connection, Kind.FULL, NOON + 6 * HOUR)
    assert traits(acme, "site-0001")["am.tier"] == "10 Users"


def test_disconnecting_again_changes_nothing(connection: Connection) -> None:
    connecting.disconnect(connection, NOON)
    before = read(connection)
    again = connecting.disconnect(connection, NOON + HOUR)
    assert (again.generation, again.state_changed_at) == (before.generation, NOON)


# --- What the database holds ----------------------------------------------------------------


@pytest.mark.parametrize(
    "impossible",
    [
        {"state": State.DISCONNECTED},
        {"api_token": None},
        {"state": State.REQUIRES_AUTHENTICATION, "api_token": None},
        {"state": "unheard of"},
    ],
)
def test_the_database_rejects_an_impossible_state(
    connection: Connection, impossible: dict[str, str | None]
) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Connection.objects.filter(pk=connection.pk).update(**impossible)


@pytest.mark.parametrize(
    "impossible",
    [{"seen": 1}, {"imported": 2}, {"without_cloud_id": 1}, {"state": RunState.SUCCEEDED}],
)
def test_the_database_rejects_counters_that_do_not_add_up(
    connection: Connection, impossible: dict[str, int | str]
) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        SyncRun.objects.filter(connection=connection).update(**impossible)


def test_a_connection_has_one_unfinished_sync(connection: Connection) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        scheduling.create_run(connection, Kind.FULL, NOON)


def test_a_product_has_one_connection(
    acme: Product, globex: Product, simulator: Simulator, connection: Connection
) -> None:
    again = connect(acme, simulator, NOON + HOUR)
    assert again.pk == connection.pk
    assert connect(globex, simulator).pk != connection.pk


# --- When it syncs next ---------------------------------------------------------------------


def test_the_time_of_the_next_sync(simulator: Simulator, connection: Connection) -> None:
    assert next_sync_at(connection, NOON + HOUR) == NOON, "due since then"
    simulator.add_faults(ErrorStatus(on=Endpoint.LICENSES, status=503, times=4))
    work(connection)
    assert next_sync_at(connection, NOON) == NOON + timedelta(minutes=10)
    work(connection, NOON + HOUR)
    scheduled = next_sync_at(connection, NOON + HOUR)
    assert scheduled is not None
    connecting.disconnect(connection, NOON + HOUR)
    assert next_sync_at(connection, NOON + HOUR) is None


def test_testing_the_connection_uses_the_stored_token(
    simulator: Simulator, connection: Connection
) -> None:
    assert connecting.verify_stored_details(connection, fast_client, NOON) == (
        "The connection works: this account can read the licenses of Board Lens for Jira, vendor "
        "1234567."
    )
    simulator.replace_token()
    with pytest.raises(connecting.DetailsRejected, match="rejects this user name"):
        connecting.verify_stored_details(connection, fast_client, NOON + HOUR)
    paused = read(connection)
    assert (paused.state, paused.state_changed_at) == (State.REQUIRES_AUTHENTICATION, NOON + HOUR)
    assert latest(connection).state == RunState.STOPPED, "nothing is left to wake workers for"
    assert scheduling.due_connection_ids(NOON + DAY) == []


def test_a_late_rejection_of_old_details_leaves_the_new_ones_alone(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    def replaced_meanwhile(credentials: Credentials) -> MarketplaceClient:
        connect(acme, simulator, NOON + HOUR)
        simulator.replace_token("another")
        return fast_client(credentials)

    with pytest.raises(connecting.CredentialsRefused):
        connecting.verify_stored_details(connection, replaced_meanwhile, NOON + HOUR)
    assert read(connection).state == State.ACTIVE
