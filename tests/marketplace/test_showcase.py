"""The demo's licenses: evaluations, and a customer with one license for several sites."""

from datetime import date

import pytest

from engagement.models import Product
from harness.demo.licenses import (
    DUNNING_REASON,
    EDITION_TRIAL_DAYS,
    EDITION_TRIAL_SITE,
    EVALUATIONS,
    MULTI_INSTANCE_SITES,
    MULTI_INSTANCE_TIER,
    showcase_licenses,
)
from harness.marketplace.records import Record, create_site
from harness.marketplace.server import Simulator
from harness.marketplace.vendor import create_vendor
from marketplace.models import Connection
from tests.marketplace.connections import NOON, RunState, traits, work

SEED = 1
TODAY = date(2026, 9, 24)


def test_the_same_seed_and_day_give_the_same_licenses() -> None:
    vendor = create_vendor(SEED)
    records = showcase_licenses(vendor, SEED, 300, TODAY)
    assert records == showcase_licenses(vendor, SEED, 300, TODAY)
    assert len(records) == 300
    (parent,) = [record for record in records if _is_for_several_sites(record)]
    assert parent["tier"] == MULTI_INSTANCE_TIER
    links = [record["multiInstanceEntitlementNumber"] for record in records if _is_linked(record)]
    assert links == [parent["appEntitlementNumber"]] * len(MULTI_INSTANCE_SITES)


def _is_for_several_sites(record: Record) -> bool:
    return record.get("licenseLevel") == "multi-instance" and "cloudId" not in record


def _is_linked(record: Record) -> bool:
    return "multiInstanceEntitlementNumber" in record


@pytest.mark.django_db
def test_an_account_has_an_evaluation_that_ends_soon(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*showcase_licenses(simulator.vendor, SEED, 300, NOON.date()))
    assert work(connection).state == RunState.SUCCEEDED
    for number, days in EVALUATIONS.items():
        account = traits(acme, create_site(SEED, number).cloud_id)
        assert (account["am.licenseType"], account["am.status"]) == ("EVALUATION", "active")
        assert account["am.invoiceDunningReason"] == DUNNING_REASON
        ends = date.fromisoformat(account["am.evaluationEndDate"])
        assert (ends - NOON.date()).days == days


@pytest.mark.django_db
def test_an_account_tries_a_higher_edition(
    acme: Product, simulator: Simulator, connection: Connection
) -> None:
    simulator.feed.add(*showcase_licenses(simulator.vendor, SEED, 300, NOON.date()))
    assert work(connection).state == RunState.SUCCEEDED
    account = traits(acme, create_site(SEED, EDITION_TRIAL_SITE).cloud_id)
    edition, tried = account["am.appEdition"], account["am.upgradeEvaluatingEdition"]
    assert (edition, tried) == ("Standard", "Advanced")
    since = date.fromisoformat(account["am.upgradeEvaluationStartDate"])
    assert (NOON.date() - since).days == EDITION_TRIAL_DAYS
