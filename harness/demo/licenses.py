"""Licenses for the demo: kinds that everybody should see once, among generated ones.

Each kind is on sites that otherwise have one ordinary license, in place of that license.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from itertools import chain, islice
from random import Random

from harness.demo import stories
from harness.marketplace.lives import Life, generate_lives
from harness.marketplace.records import Record, create_license, create_site
from harness.marketplace.reports import VendorReports, generate_licenses
from harness.marketplace.vendor import SimulatedApp, SimulatedVendor

# Days until the evaluations of these sites end.
EVALUATIONS = {2: 5, 12: 9, 22: 24}
EVALUATION_DAYS = 30
# The customer of this site has a paid license and tries the next edition, for some days already.
EDITION_TRIAL_SITE, EDITION_TRIAL_DAYS = 14, 6
DUNNING_REASON = "PAYMENT METHOD IS NOT SET"
# The sites of one customer with a license for all of them.
MULTI_INSTANCE_SITES = (4, 6)
MULTI_INSTANCE_TIER = "800 Users"
# Those that have something special.
SITES = (*EVALUATIONS, *MULTI_INSTANCE_SITES, EDITION_TRIAL_SITE, *stories.PRICE_SITES)
PAST_TRIALS = 96
# No other license has more seats: one of 15,000 would decide each month alone.
MOST_SEATS = 1_000


def showcase_licenses(vendor: SimulatedVendor, seed: int, number: int, today: date) -> list[Record]:
    """As many licenses of the vendor's app as of a day, the same for the same seed and day."""
    random = Random(f"showcase {seed}")
    records = _evaluations(vendor.app, seed, random, today)
    records += _multi_instance(vendor.app, seed, random, today)
    records.append(_edition_trial(vendor.app, seed, random, today))
    records += VendorReports(vendor.app, _stories(seed, today), today, seed=seed).licenses
    lives = islice(generate_lives(seed, today), number)
    replaced = {life.sites[0].cloud_id for life in lives if not _is_ordinary(life)}
    others = (
        record
        for record in generate_licenses(vendor, seed, number, today)
        if record.get("cloudId") not in replaced
    )
    return [*records, *others][:number]


def showcase_reports(
    vendor: SimulatedVendor, seed: int, customers: int, today: date
) -> VendorReports:
    """Five years of the other customers: their history, transactions, and feedback."""
    lives = filter(_is_ordinary, islice(generate_lives(seed, today), customers))
    return VendorReports(vendor.app, chain(_stories(seed, today), lives), today, seed=seed)


def _stories(seed: int, today: date) -> Iterator[Life]:
    yield from stories.lives_of_trials(seed, stories.trials(seed, today, PAST_TRIALS))
    yield from stories.lives_with_a_higher_price(seed, today)


def _is_ordinary(life: Life) -> bool:
    seats = max(snapshot.seats for snapshot in life.snapshots)
    return life.number not in SITES and seats <= MOST_SEATS


def _evaluations(app: SimulatedApp, seed: int, random: Random, today: date) -> list[Record]:
    """Active evaluations, on sites that have not paid yet."""
    return [
        _evaluation(create_license(app, create_site(seed, site), random, today), today, days)
        for site, days in EVALUATIONS.items()
    ]


def _evaluation(license: Record, today: date, days: int) -> Record:
    ends = today + timedelta(days=days)
    starts = ends - timedelta(days=EVALUATION_DAYS)
    return {
        **license,
        "licenseType": "EVALUATION",
        "status": "active",
        "tier": "Evaluation",
        "lastUpdated": starts.isoformat(),
        "maintenanceStartDate": starts.isoformat(),
        "maintenanceEndDate": ends.isoformat(),
        "latestEvaluationStartDate": starts.isoformat(),
        "evaluationStartDate": starts.isoformat(),
        "evaluationEndDate": ends.isoformat(),
        "evaluationOpportunitySize": "100",
        "invoiceDunningReason": DUNNING_REASON,
    }


def _edition_trial(app: SimulatedApp, seed: int, random: Random, today: date) -> Record:
    """A paid license whose customer tries a higher edition."""
    return {
        **create_license(app, create_site(seed, EDITION_TRIAL_SITE), random, today),
        "status": "active",
        "appEdition": "Standard",
        "upgradeEvaluatingEdition": "Advanced",
        "upgradeEvaluationStartDate": (today - timedelta(days=EDITION_TRIAL_DAYS)).isoformat(),
    }


def _multi_instance(app: SimulatedApp, seed: int, random: Random, today: date) -> list[Record]:
    """A license without a site, with the tier, and the licenses of its sites."""
    licenses = [
        create_license(app, create_site(seed, site), random, today)
        for site in (MULTI_INSTANCE_SITES[0], *MULTI_INSTANCE_SITES)
    ]
    parent, *sites = [
        {**license, "status": "active", "licenseLevel": "multi-instance"} for license in licenses
    ]
    link = {
        "multiInstanceEntitlementId": parent["appEntitlementId"],
        "multiInstanceEntitlementNumber": parent["appEntitlementNumber"],
    }
    return [_without_site(parent), *(_with_link(site, link, parent) for site in sites)]


def _without_site(license: Record) -> Record:
    left_out = ("cloudId", "cloudSiteHostname")
    fields = {name: value for name, value in license.items() if name not in left_out}
    return {**fields, "tier": MULTI_INSTANCE_TIER}


def _with_link(license: Record, link: Record, parent: Record) -> Record:
    fields = {name: value for name, value in license.items() if name != "tier"}
    return {**fields, **link, "contactDetails": parent["contactDetails"]}
