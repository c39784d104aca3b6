"""An account's page says how many licenses it has, and why one of them counts."""

from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.urls import reverse

from engagement.models import Account, Product
from harness.marketplace.server import Simulator
from marketplace.admin.account_licenses import license_note
from marketplace.models import Connection, License
from tests.admin.conftest import logged_in
from tests.marketplace.connections import a_license, work

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"status": "inactive"}, "its status is active, and that of E-0001 is inactive"),
        (
            {"licenseType": "EVALUATION"},
            "its license type is COMMERCIAL, and that of E-0001 is EVALUATION",
        ),
        ({"installedOnSandbox": "Yes"}, "its sandbox is missing, and that of E-0001 is Yes"),
        (
            {"maintenanceEndDate": "2026-01-01"},
            "its end of maintenance is 2027-09-01, and that of E-0001 is 2026-01-01",
        ),
        (
            {"lastUpdated": "2026-08-31"},
            "its last update is 2026-09-01, and that of E-0001 is 2026-08-31",
        ),
    ],
)
def test_the_first_difference_is_the_reason(
    acme: Product, simulator: Simulator, connection: Connection, fields: dict[str, Any], reason: str
) -> None:
    simulator.feed.add(a_license(simulator, 1, "site", **fields), a_license(simulator, 2, "site"))
    work(connection)
    account = Account.objects.get(product=acme, external_id="site")
    assert license_note(account) == (
        f"This account has 2 licenses. E-0002 gives it these traits: {reason}."
    )


def test_a_license_that_is_no_longer_listed_says_so(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    best = {"maintenanceEndDate": "2030-01-01"}
    simulator.feed.add(a_license(simulator, 1, "site", **best), a_license(simulator, 2, "site"))
    work(connection)
    License.objects.filter(key="E-0001").update(unlisted_since=connection.created_at)
    account = Account.objects.get(product=acme, external_id="site")
    assert license_note(account) == (
        "This account has 2 licenses. E-0002 gives it these traits: E-0001 is no longer listed."
    )


def test_the_page_shows_it(acme: Product, simulator: Simulator, connection: Connection) -> None:
    twins = [a_license(simulator, number, "site") for number in (1, 2, 3)]
    simulator.feed.add(*twins, a_license(simulator, 4, "alone"))
    work(connection)
    root = logged_in(AdminUser.objects.create_superuser("root"))

    def page(cloud_id: str) -> str:
        account = Account.objects.get(product=acme, external_id=cloud_id)
        address = reverse("admin:engagement_account_change", args=[account.pk])
        return root.get(address).content.decode()

    assert "This account has 3 licenses. E-0001 gives it these traits: it is like" in page("site")
    assert "This account has one license: E-0004." in page("alone")
    none = Account.objects.create(
        product=acme,
        external_id="none",
        is_identified=True,
        first_seen_at=connection.created_at,
        last_seen_at=connection.created_at,
    )
    assert license_note(none) == ""
