"""A token ends after 1 to 365 days: a notice says so in time, and a scoped one is named."""

from datetime import date, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from engagement.models import Product, ProductMember
from harness.marketplace.server import Simulator
from marketplace import connecting, texts
from marketplace.models import Connection
from marketplace.status import health
from tests.admin.conftest import logged_in
from tests.admin.rows import a_connection
from tests.marketplace.connections import NOON, RunState, State, connect, details_of, sync_now

pytestmark = pytest.mark.django_db

TODAY = NOON.date()


@pytest.fixture
def root() -> Client:
    return logged_in(AdminUser.objects.create_superuser("root"))


def enter(who: Client, product: Product, simulator: Simulator, **more: Any) -> Any:
    data = {"product": product.pk, **vars(details_of(simulator)), **more}
    return who.post(reverse("admin:marketplace_connection_add"), data)


def in_days(days: int) -> date:
    return timezone.now().date() + timedelta(days=days)


@pytest.mark.parametrize(
    ("days", "level", "beginning"),
    [
        (31, "", ""),
        (30, "warning", "The API token expires in 30 days, on 2026-10-24."),
        (8, "warning", "The API token expires in 8 days"),
        (7, "bad", "The API token expires in 7 days"),
        (1, "bad", "The API token expires in 1 day, on"),
        (0, "bad", "The API token expires today."),
        (-1, "bad", "By the date that was entered, the API token expired on 2026-09-23."),
    ],
)
def test_a_notice_comes_30_days_before_and_is_urgent_7_days_before(
    acme: Product, days: int, level: str, beginning: str
) -> None:
    connection = a_connection(acme, token_expires_on=TODAY + timedelta(days=days))
    notice = health.expiry_notice(connection, TODAY)
    assert (notice.level if notice else "") == level
    if notice:
        assert notice.text.startswith(beginning)
        assert notice.text.endswith("Create a new one and replace the details.")
        viewers = health.expiry_notice(connection, TODAY, may_manage=False)
        assert viewers and viewers.text.endswith(texts.MANAGERS_ONLY)


def test_the_notice_is_on_the_connections_page_and_on_the_home_page(
    root: Client, acme: Product, simulator: Simulator
) -> None:
    enter(root, acme, simulator, token_expires_on=in_days(20).isoformat())
    connection = Connection.objects.get()
    assert connection.token_expires_on == in_days(20)
    for address in (
        reverse("admin:marketplace_connection_change", args=[connection.pk]),
        reverse("admin:index"),
    ):
        assert "The API token expires in 20 days" in root.get(address).content.decode()
    connecting.disconnect(connection, NOON)
    assert "The API token expires" not in root.get(reverse("admin:index")).content.decode()


@pytest.mark.parametrize(("days", "error"), [(-1, "This day is over."), (400, "a year at most")])
def test_a_date_that_cannot_be_right_is_refused(
    root: Client, acme: Product, simulator: Simulator, days: int, error: str
) -> None:
    answer = enter(root, acme, simulator, token_expires_on=in_days(days).isoformat())
    assert error in str(answer.context["adminform"].form.errors["token_expires_on"])
    assert not simulator.requests and not Connection.objects.exists()


def test_a_token_that_expires_at_the_marketplace_pauses_syncs(
    acme: Product, simulator: Simulator
) -> None:
    connection = connect(acme, simulator)
    simulator.expire_token()
    assert sync_now(connection).state == RunState.FAILED
    connection.refresh_from_db()
    assert connection.state == State.REQUIRES_AUTHENTICATION


# --- Tokens with scopes -----------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_with_scopes_is_refused_with_what_to_make_instead(
    root: Client, acme: Product, simulator: Simulator, status: int
) -> None:
    token = simulator.create_scoped_token(status)
    answer = enter(root, acme, simulator, api_token=token)
    errors = answer.context["adminform"].form.errors
    assert texts.WITHOUT_SCOPES in str(errors)
    assert not Connection.objects.exists()


def test_the_form_advises_the_least_access(root: Client) -> None:
    html = root.get(reverse("admin:marketplace_connection_add")).content.decode()
    assert "View sales reports" in html and "without scopes" in html


# --- What the form offers ---------------------------------------------------------------------


def test_only_products_without_a_connection_are_offered(
    root: Client, acme: Product, globex: Product
) -> None:
    a_connection(acme)
    html = root.get(reverse("admin:marketplace_connection_add")).content.decode()
    assert f'<option value="{acme.pk}"' not in html
    assert f'<option value="{globex.pk}"' in html
    a_connection(globex)
    html = root.get(reverse("admin:marketplace_connection_add")).content.decode()
    assert "Each of your products has a connection." in html


def test_a_viewer_is_told_who_can_do_what_is_needed(acme: Product) -> None:
    viewer = AdminUser.objects.create_user("vic", is_staff=True)
    ProductMember.objects.create(product=acme, user=viewer, role=ProductMember.Role.VIEWER)
    connection = a_connection(acme, state=State.REQUIRES_AUTHENTICATION, state_reason="Expired.")
    page = reverse("admin:marketplace_connection_change", args=[connection.pk])
    html = logged_in(viewer).get(page).content.decode()
    assert "enter all four details" not in html
    assert "until a manager of the product enters the details" in html
    Connection.objects.update(state=State.ACTIVE, last_error="Do this.", last_error_at=NOON)
    assert texts.MANAGERS_ONLY in logged_in(viewer).get(page).content.decode()
