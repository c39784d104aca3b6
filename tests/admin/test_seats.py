"""A connection's page says whom the seats are for, and managers of connections change it."""

import pytest
from django.test import Client
from django.urls import reverse

from access.models import TrailEntry
from engagement.models import Product, Seats
from marketplace.models import Connection
from tests.admin.test_reconciliation import connection as connection


def pages(connection: Connection) -> tuple[str, str]:
    return (
        reverse("admin:marketplace_connection_change", args=[connection.pk]),
        reverse("admin:marketplace_connection_seats", args=[connection.pk]),
    )


@pytest.mark.parametrize(
    ("answer", "seats", "consequence"),
    [
        ({"licensed_for": "app"}, Seats.APP, "Insights compare active users with seats."),
        ({"licensed_for": "host"}, Seats.HOST, "Insights about seats are off."),
        (
            {"licensed_for": "app", "has_site_users": "on"},
            Seats.SITE,
            "Insights about seats are off.",
        ),
    ],
)
def test_a_manager_says_whom_the_seats_are_for(
    root: Client,
    acme: Product,
    connection: Connection,
    answer: dict[str, str],
    seats: Seats,
    consequence: str,
) -> None:
    change, form = pages(connection)
    assert "Users of the host product" in root.get(change).content.decode()
    html = root.get(form).content.decode()
    assert "Atlassian usually bills an app by the users of its host product" in html
    assert "if your app sends one user for a whole site" in html
    assert root.post(form, answer).headers["Location"] == change
    acme.refresh_from_db()
    assert acme.seats == seats
    html = root.get(change).content.decode()
    assert seats.label in html and consequence in html


def test_a_made_up_answer_is_refused(root: Client, acme: Product, connection: Connection) -> None:
    _, form = pages(connection)
    assert root.post(form, {"licensed_for": "site"}).status_code == 200
    acme.refresh_from_db()
    assert acme.seats == Seats.HOST


def test_a_viewer_sees_it_and_changes_nothing(
    reader: Client, acme: Product, connection: Connection
) -> None:
    change, form = pages(connection)
    html = reader.get(change).content.decode()
    assert "Users of the host product" in html and form not in html
    assert reader.post(form, {"licensed_for": "app"}).status_code == 403
    acme.refresh_from_db()
    assert acme.seats == Seats.HOST


def test_the_change_is_in_the_trail(root: Client, acme: Product, connection: Connection) -> None:
    _, form = pages(connection)
    root.post(form, {"licensed_for": "app"})
    assert "Changed seats: Users of the app." in str(list(TrailEntry.objects.values()))
