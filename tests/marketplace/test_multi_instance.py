"""A multi-instance license lends its tier to its sites."""

from datetime import date
from random import Random
from typing import Any

import pytest

from engagement.models import Product
from harness.marketplace.records import create_license, create_site, multi_instance
from harness.marketplace.server import Simulator
from marketplace.models import Connection
from tests.marketplace.connections import (
    HOUR,
    NOON,
    Kind,
    RunState,
    a_license,
    accounts,
    counters,
    licenses,
    sync_now,
    traits,
    work,
)

pytestmark = pytest.mark.django_db

NUMBER = "E-PARENT"


def parent(simulator: Simulator, **fields: Any) -> dict[str, Any]:
    return a_license(
        simulator,
        **{
            "appEntitlementNumber": NUMBER,
            "appEntitlementId": "id-of-parent",
            "cloudId": None,
            "licenseLevel": "multi-instance",
            "tier": "2000 Users",
            **fields,
        },
    )


def site(simulator: Simulator, number: int, **fields: Any) -> dict[str, Any]:
    return a_license(
        simulator,
        number,
        **{
            "licenseLevel": "multi-instance",
            "multiInstanceEntitlementNumber": NUMBER,
            "tier": None,
            **fields,
        },
    )


@pytest.mark.parametrize("parent_first", [True, False])
@pytest.mark.parametrize("between", [0, 60])
def test_sites_have_the_tier_of_their_multi_instance_license_and_follow_it(
    acme: Product, simulator: Simulator, connection: Connection, parent_first: bool, between: int
) -> None:
    sites = [
        site(simulator, 1),
        site(
            simulator,
            2,
            multiInstanceEntitlementNumber=None,
            multiInstanceEntitlementId="id-of-parent",
        ),
        site(simulator, 3, tier="25 Users"),
    ]
    others = licenses(simulator, between, first=100)
    rows = [parent(simulator), *others, *sites]
    simulator.feed.add(*(rows if parent_first else [*sites, *others, parent(simulator)]))
    run = work(connection)
    assert counters(run)["imported"] == 4 + between
    assert (run.skipped, run.failed) == (0, 0)
    assert len(accounts(acme)) == 3 + between
    for name, lender in (("site-0001", NUMBER), ("site-0002", "id-of-parent")):
        site_traits = traits(acme, name)
        assert (site_traits["am.tier"], site_traits["am.tier.number"]) == ("2000 Users", 2000)
        assert site_traits["am.tier.lentBy"] == lender
    own = traits(acme, "site-0003")
    assert (own["am.tier.number"], "am.tier.lentBy" in own) == (25, False)
    assert own["am.licenseLevel"] == "multi-instance"
    assert own["am.multiInstanceEntitlementNumber"] == NUMBER
    # It changes, alone.
    index = 0 if parent_first else len(rows) - 1
    simulator.feed.change(index, tier="3000 Users", lastUpdated="2026-09-24")
    run = sync_now(connection, NOON + HOUR)
    assert (run.imported, run.accounts_updated) == (1, 2)
    assert traits(acme, "site-0001")["am.tier.number"] == 3000
    assert sync_now(connection, NOON + 2 * HOUR, Kind.FULL).imported == 0


def test_a_site_without_a_cloud_id_and_an_ordinary_license_without_one_are_skipped(
    simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(
        parent(simulator),
        site(simulator, 1, cloudId=None),
        a_license(simulator, 2) | {"cloudId": None, "licenseLevel": "single-instance"},
    )
    run = work(connection)
    assert counters(run) == {"seen": 3, "imported": 1, "skipped": 2, "without_cloud_id": 2}


def test_the_simulator_has_multi_instance_customers(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    random = Random(1)
    sites = [create_site(1, number) for number in range(3)]
    record = create_license(simulator.vendor.app, sites[0], random, date(2026, 9, 24))
    simulator.feed.add(*multi_instance(record, sites, random))
    assert work(connection).state == RunState.SUCCEEDED
    for at in sites:
        site_traits = traits(acme, at.cloud_id)
        assert site_traits["am.tier"] == record["tier"]
        assert site_traits["am.tier.lentBy"] == record["appEntitlementNumber"]
