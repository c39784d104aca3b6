"""Each kind of vendor and each failure, from the admin's form to the page and ``/metrics``.

What succeeds shows no problem. What fails shows one sentence with what to do, in both places.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from html import unescape
from random import Random
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from engagement.models import Product
from harness.marketplace.faults import AnyFault, Circle, Endpoint, ErrorStatus, WrongTotal
from harness.marketplace.records import UNREADABLE, create_site, multi_instance
from harness.marketplace.server import Simulator
from harness.marketplace.vendor import WithoutStart
from marketplace import texts
from marketplace.models import Connection
from marketplace.runs import scheduling
from tests.admin.conftest import logged_in
from tests.marketplace.connections import (
    DAY,
    Kind,
    State,
    a_license,
    accounts,
    details_of,
    latest,
    licenses,
    traits,
    work,
)

pytestmark = pytest.mark.django_db

LICENSES = Endpoint.LICENSES
OLD, NEW = {"maintenanceStartDate": "2017-03-01"}, {"maintenanceStartDate": "2024-03-01"}


def become(simulator: Simulator, **kind: Any) -> None:
    simulator.vendor = replace(simulator.vendor, **kind)


def free_licenses(simulator: Simulator) -> None:
    simulator.feed.add(*(a_license(simulator, n, licenseType="FREE") for n in range(1, 4)))


def large_vendor(simulator: Simulator) -> None:
    simulator.feed.add(*licenses(simulator, 3))
    become(simulator, max_report_rows=-1)


def dated_insights(kind: WithoutStart) -> Callable[[Simulator], None]:
    def prepare(simulator: Simulator) -> None:
        insights = {"parentProductEdition": "Premium"}
        simulator.feed.add(
            *(a_license(simulator, n, **insights, **(NEW if n > 1 else OLD)) for n in range(1, 4))
        )
        become(simulator, without_start=kind)

    return prepare


def several_sites(simulator: Simulator) -> None:
    parent = a_license(simulator, 9, tier="800 Users", appEntitlementId="the-parent")
    sites = [create_site(1, number) for number in range(3)]
    simulator.feed.add(*multi_instance(parent, sites, Random(1)))


def quarters_only(simulator: Simulator) -> None:
    dates = ["2019-02-01", "2021-05-01", "2024-08-01"]
    for number, day in enumerate(dates, 1):
        simulator.feed.add(a_license(simulator, number, maintenanceStartDate=day))
    become(simulator, max_report_rows=1, has_exports=False)


def half_a_character(simulator: Simulator) -> None:
    simulator.feed.add(*licenses(simulator, 3), next(iter(UNREADABLE)))


def forbidden_cloud(simulator: Simulator) -> None:
    """The third list is that of government clouds."""
    three_licenses(simulator)
    # The form reads a page before.
    simulator.add_faults(ErrorStatus(on=LICENSES, status=403, after=3, times=1))


def lost_licenses(simulator: Simulator) -> None:
    three_licenses(simulator)
    simulator.add_faults(WrongTotal(on=LICENSES, total=5, after=1, times=1))


def only_servers(simulator: Simulator) -> None:
    simulator.feed.add(*(a_license(simulator, n, cloudId=None) for n in range(1, 4)))


def broken_page(simulator: Simulator) -> None:
    simulator.feed.add(*licenses(simulator, 120))
    become(simulator, has_exports=False, has_date_filter=False)
    simulator.add_faults(ErrorStatus(on=LICENSES, status=500, offset=100))


def three_licenses(simulator: Simulator) -> None:
    simulator.feed.add(*licenses(simulator, 3))


def two_pages(simulator: Simulator) -> None:
    simulator.feed.add(*licenses(simulator, 60))


def on_next_sync(*faults: AnyFault, **changes: Any) -> Callable[[Simulator, Connection], None]:
    """The marketplace fails when the connection syncs again, a week later."""

    def later(simulator: Simulator, connection: Connection) -> None:
        simulator.add_faults(*faults)
        for name, value in changes.items():
            setattr(simulator, name, value)
        scheduling.request_sync(connection, Kind.FULL, timezone.now())

    return later


def scoped_token(simulator: Simulator, connection: Connection) -> None:
    """Somebody replaces the token by one with scopes, which has the same value here."""
    simulator.scoped_tokens[simulator.vendor.token] = 403
    simulator.replace_token()
    scheduling.request_sync(connection, Kind.FULL, timezone.now())


def one_that_leaves(simulator: Simulator, connection: Connection) -> None:
    simulator.feed.remove(0)
    scheduling.request_sync(connection, Kind.FULL, timezone.now())


def late_report(simulator: Simulator, connection: Connection) -> None:
    """A license that the report shows a day late."""
    simulator.delay_reports()
    simulator.feed.add(a_license(simulator, 4, lastUpdated=timezone.now().date().isoformat()))
    scheduling.request_sync(connection, Kind.RECENT, timezone.now())
    assert work_to_the_end(connection) == "succeeded"
    simulator.refresh_reports()
    scheduling.request_sync(connection, Kind.RECENT, timezone.now() + DAY)


@dataclass(frozen=True)
class Story:
    """What the vendor is like, what happens after the first sync, and what people see then."""

    prepare: Callable[[Simulator], None]
    later: Callable[[Simulator, Connection], None] | None = None
    entered: dict[str, Any] = field(default_factory=dict)
    accounts: int = 3
    traits: dict[str, Any] = field(default_factory=dict)
    # On the page; and in the problem, with what to do.
    page_text: str = "<strong>Connected.</strong>"
    problem: tuple[str, ...] = ()


def stories() -> dict[str, Story]:
    """With dates of today. Tests that start before midnight may run after it."""
    return {
        "always free": Story(free_licenses, traits={"am.licenseType": "FREE"}),
        "only exports": Story(
            large_vendor,
            page_text=f"read as an export, because it returned 500. {texts.NOT_COMPARED}",
        ),
        "only start dates": Story(
            quarters_only, page_text="read by start date, because it returned 500"
        ),
        "data insights rejected": Story(
            dated_insights(WithoutStart.REJECTED), traits={"am.parentProductEdition": "Premium"}
        ),
        "data insights missing": Story(
            dated_insights(WithoutStart.WITHOUT_INSIGHTS),
            traits={"am.parentProductEdition": "Premium"},
            page_text="read in two parts",
        ),
        "old licenses missing": Story(
            dated_insights(WithoutStart.WITHOUT_OLD_LICENSES), page_text="read in two parts"
        ),
        "a license that no decoder takes": Story(half_a_character, page_text="half of a character"),
        "a special cloud that is forbidden": Story(
            forbidden_cloud, page_text="may not view licenses of government clouds (403)"
        ),
        "fewer licenses than reported": Story(
            lost_licenses, page_text="The marketplace reports 5 licenses and sent 3."
        ),
        "several sites": Story(
            several_sites, traits={"am.tier.number": 800, "am.tier.lentBy": "E-0009"}
        ),
        "reports a day late": Story(
            three_licenses, late_report, accounts=4, page_text="reports lag behind by up to a day"
        ),
        "a page that always fails": Story(
            broken_page,
            accounts=100,
            problem=(
                "Page 3 of the list of licenses failed 6 times in a row: it returned 500.",
                "contact the marketplace’s support",
            ),
        ),
        "licenses that went away": Story(
            three_licenses,
            one_that_leaves,
            traits={"am.unlistedSince": timezone.now().date().isoformat(), "am.status": "active"},
        ),
        "no license of a cloud site": Story(
            only_servers,
            accounts=0,
            problem=(
                "None of 3 licenses can be used: 3 without a Cloud ID.",
                "Check that the product",
            ),
        ),
        "a list that goes round": Story(
            two_pages,
            on_next_sync(Circle(on=LICENSES, pages=1)),
            accounts=60,
            problem=("its list of licenses does not end", "update this service"),
        ),
        "a token with scopes": Story(
            three_licenses,
            scoped_token,
            problem=("(403)", "choose “Create API token”, not “Create API token with scopes”."),
        ),
        "an expired token": Story(
            three_licenses,
            lambda simulator, connection: simulator.expire_token(),
            page_text="<strong>Requires authentication.</strong>",
            problem=("(401)", "Create a new API token without scopes"),
        ),
        "a token that ends soon": Story(
            three_licenses,
            entered={"token_expires_on": (timezone.now() + 5 * DAY).date().isoformat()},
            problem=(
                "The API token expires in 5 days",
                "Create a new one and replace the details.",
            ),
        ),
        "an address that is gone": Story(
            three_licenses,
            on_next_sync(ErrorStatus(on=LICENSES, status=410)),
            problem=("The last sync failed.", "Update this service"),
        ),
        "an outage": Story(
            three_licenses,
            on_next_sync(ErrorStatus(status=503)),
            problem=("it returned 503", "contact the marketplace’s support"),
        ),
    }


@pytest.mark.parametrize("name", list(stories()))
def test_a_vendor_from_the_form_to_the_page_and_the_metrics(
    acme: Product, simulator: Simulator, settings: Settings, name: str
) -> None:
    story = stories()[name]
    story.prepare(simulator)
    root = logged_in(AdminUser.objects.create_superuser("root"))
    entered = {"product": acme.pk, **vars(details_of(simulator)), **story.entered}
    page = root.post(reverse("admin:marketplace_connection_add"), entered, follow=True)
    connection = Connection.objects.get()
    assert "Acme is connected to Board Lens for Jira." in page.content.decode()
    work_to_the_end(connection)
    if story.later is not None:
        story.later(simulator, connection)
        scheduling.request_sync(connection, Kind.RECENT, timezone.now())
        work_to_the_end(connection)

    address = reverse("admin:marketplace_connection_change", args=[connection.pk])
    html = unescape(root.get(address).content.decode())
    assert story.page_text in html
    connection.refresh_from_db()
    assert ("Syncs run every 6 hours." in html) == (connection.state == State.ACTIVE)
    problems = problems_in_metrics(settings)
    assert len(problems) == bool(story.problem)
    for part in story.problem:
        assert part in problems[0] and part in html
    assert len(accounts(acme)) == story.accounts, "nothing that arrived is lost"
    trait_sets = [traits(acme, account) for account in accounts(acme)]
    assert not story.traits or any(
        story.traits.items() <= traits_of_one.items() for traits_of_one in trait_sets
    )


def work_to_the_end(connection: Connection) -> str:
    """Give the connection's run turns until it is over; return its state."""
    run = latest(connection)
    for _ in range(30):
        if run.is_over:
            return run.state
        run = work(connection, max(run.due_at, timezone.now() + timedelta(seconds=1)))
    raise AssertionError("It never ends.")


def problems_in_metrics(settings: Settings) -> list[str]:
    """The sentences of the connections' problems."""
    settings.METRICS_TOKEN = "monitor"
    answer = Client().get("/metrics", headers={"authorization": "Bearer monitor"})
    text = answer.content.decode()
    return re.findall(r'eds_license_problem\{.*problem="([^"]*)".*\} 1\.0', text)


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_with_scopes_is_refused_in_the_form_and_stores_nothing(
    acme: Product, simulator: Simulator, settings: Settings, status: int
) -> None:
    root = logged_in(AdminUser.objects.create_superuser("root"))
    entered = {"product": acme.pk, **vars(details_of(simulator))}
    entered["api_token"] = simulator.create_scoped_token(status)
    page = root.post(reverse("admin:marketplace_connection_add"), entered)
    assert "choose “Create API token”" in unescape(page.content.decode())
    assert not Connection.objects.exists()
    assert problems_in_metrics(settings) == []
