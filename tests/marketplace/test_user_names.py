"""The user name is half of a credential: encrypted in the database, and shown in part."""

from datetime import datetime

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse

from engagement.models import Product
from harness.marketplace.server import Simulator
from marketplace import connecting, tasks, user_names
from marketplace.models import Connection
from tests.admin.conftest import logged_in
from tests.admin.rows import a_connection
from tests.jobs import run_job
from tests.marketplace.connections import (
    DAY,
    HOUR,
    NOON,
    RunState,
    State,
    connect,
    fast_client,
    work,
)
from tests.pipeline.waiting import places_of

pytestmark = pytest.mark.django_db


def read(connection: Connection) -> Connection:
    return Connection.objects.defer(None).get(pk=connection.pk)


@pytest.mark.parametrize(
    ("user_name", "mask"),
    [
        ("ida@example.com", "i…@example.com"),
        ("ida.b@x@example.com", "i…@example.com"),
        ("i…@example.com", "i…@example.com"),
        ("söhne", "s…"),
        ("", "…"),
    ],
)
def test_pages_show_the_first_letter_and_the_domain(user_name: str, mask: str) -> None:
    assert user_names.mask(user_name) == mask


def test_a_long_user_name_fits_its_column() -> None:
    longest = f"i@{'d' * 252}"
    assert len(user_names.mask(longest)) == 254


@pytest.fixture
def root() -> Client:
    return logged_in(AdminUser.objects.create_superuser("root"))


def test_the_whole_user_name_is_nowhere_but_encrypted(
    root: Client, acme: Product, simulator: Simulator
) -> None:
    connection = connect(acme, simulator)
    assert work(connection).state == RunState.SUCCEEDED
    user_name = simulator.vendor.user_name
    assert places_of(user_name) == set()
    assert user_names.full_user_name(read(connection)) == user_name
    for view in ("change", "details", "status", "history"):
        address = reverse(f"admin:marketplace_connection_{view}", args=[connection.pk])
        assert user_name not in root.get(address).content.decode(), view
    page = root.get(reverse("admin:marketplace_connection_change", args=[connection.pk]))
    assert "r…@lumenworks.example" in page.content.decode()


def test_disconnecting_deletes_both_halves(acme: Product, simulator: Simulator) -> None:
    connection = connect(acme, simulator)
    connecting.disconnect(connection, NOON)
    columns = read(connection)
    assert (columns.secret_user_name, columns.api_token) == (None, None)
    assert columns.user_name == "r…@lumenworks.example"


# --- Rows of earlier releases -----------------------------------------------------------------


@pytest.fixture
def old_row(acme: Product, simulator: Simulator) -> Connection:
    """A connection as the last release stores it."""
    connection = connect(acme, simulator)
    Connection.objects.filter(pk=connection.pk).update(
        user_name=simulator.vendor.user_name, secret_user_name=None
    )
    return read(connection)


def encrypt(now: datetime) -> int:
    return run_job(user_names.ENCRYPT_USER_NAMES, now)


def test_a_plain_user_name_works_and_is_encrypted_after_a_day(
    old_row: Connection, simulator: Simulator
) -> None:
    assert work(old_row).state == RunState.SUCCEEDED
    assert encrypt(NOON) == 0, "old code may still run"
    assert encrypt(NOON + 23 * HOUR) == 0
    assert read(old_row).user_name == simulator.vendor.user_name
    assert encrypt(NOON + DAY) == 1
    assert encrypt(NOON + DAY) == 0
    assert places_of(simulator.vendor.user_name) == set()
    assert "works" in connecting.verify_stored_details(old_row, fast_client, NOON)


def test_a_worker_that_ends_between_two_user_names_leaves_the_other_to_the_next(
    acme: Product, globex: Product
) -> None:
    for product in (acme, globex):
        a_connection(product, plain_user_name_until=NOON)
    plain = Connection.objects.exclude(user_name__contains=user_names.MASK)
    for number in (1, 0):
        assert run_job(user_names.ENCRYPT_USER_NAMES, NOON, out_of_time=lambda: True) == 1
        assert plain.count() == number


def test_a_user_name_that_old_code_replaces_counts(acme: Product, simulator: Simulator) -> None:
    connection = connect(acme, simulator)
    Connection.objects.filter(pk=connection.pk).update(user_name="new@example.com")
    assert user_names.full_user_name(read(connection)) == "new@example.com"
    encrypt(NOON)
    encrypt(NOON + DAY)
    assert user_names.full_user_name(read(connection)) == "new@example.com"


def test_the_user_name_of_a_disconnected_row_is_forgotten(acme: Product) -> None:
    connection = a_connection(acme, state=State.DISCONNECTED, api_token=None)
    encrypt(NOON)
    encrypt(NOON + DAY)
    columns = read(connection)
    assert (columns.user_name, columns.secret_user_name) == ("r…@acme.example", None)


def test_the_minutely_task_encrypts_them(acme: Product) -> None:
    connection = a_connection(acme, plain_user_name_until=NOON)
    tasks.resume()
    assert user_names.is_masked(read(connection).user_name)
