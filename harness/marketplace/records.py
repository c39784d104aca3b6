"""Invented licenses in the marketplace's structure: ordinary ones and every known oddity.

All companies, people, ids, and hosts are fictitious.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Any

from harness.marketplace.vendor import SimulatedApp, stable_id

Record = dict[str, Any]

MISSING = object()

_FIRST = ["Amber", "Birch", "Copper", "Delta", "Ember", "Fjord", "Granite", "Harbour", "Indigo"]
_FIRST += ["Juniper", "Kestrel", "Larch", "Maple", "North", "Orion", "Pebble", "Quarry", "River"]
_SECOND = ["Bank", "Care", "Cloud", "Dairy", "Energy", "Foods", "Freight", "Games", "Health"]
_SECOND += ["Labs", "Lines", "Media", "Mills", "Robotics", "Schools", "Studio", "Systems", "Works"]
_COUNTRIES = [
    ("Germany", "EMEA"),
    ("United States", "Americas"),
    ("Japan", "APAC"),
    ("United Kingdom", "EMEA"),
    ("Canada", "Americas"),
    ("Australia", "APAC"),
    ("Sweden", "EMEA"),
    ("Brazil", "Americas"),
]
_PAID = ["COMMERCIAL"] * 8 + ["ACADEMIC", "COMMUNITY"]
_SIZES = [10, 15, 25, 50, 75, 100, 200, 300, 500, 800, 1000, 2000, 5000, 15000]

# Fields that only requests with data insights get.
INSIGHTS = frozenset(
    {
        "evaluationOpportunitySize",
        "evaluationLicense",
        "daysToConvertEval",
        "evaluationStartDate",
        "evaluationEndDate",
        "evaluationSaleDate",
        "parentProductName",
        "parentProductEdition",
        "parentProductBillingCycle",
        "installedOnSandbox",
        "attribution",
    }
)

_ERASED = dict.fromkeys(("email", "name", "phone", "address1", "city", "postcode"), "RTBF")

# The fields of each oddity that differ from those of an ordinary license.
ODDITIES: dict[str, Record] = {
    "server": {"cloudId": MISSING, "hosting": "Server", "addonLicenseId": "12345678"},
    "data center": {"cloudId": None, "hosting": "Data Center", "tier": "Unlimited Users"},
    "blank cloud id": {"cloudId": "  "},
    "bare": dict.fromkeys(
        [*INSIGHTS, "appEdition", "maintenanceEndDate", "latestMaintenanceStartDate"], MISSING
    )
    | {"contactDetails": {}},
    "nulls": dict.fromkeys(
        ["appEdition", "maintenanceEndDate", "tier", "contactDetails", "attribution"]
    ),
    "null as text": {"appEdition": "null", "parentProductEdition": "null"},
    "erased": {
        "contactDetails": {"technicalContact": _ERASED, "billingContact": None, "company": "RTBF"}
    },
    "cancelled": {"status": "cancelled", "inGracePeriod": "Yes"},
    "separated tier": {"tier": "10,000 Users"},
    "one user": {"tier": "1 User"},
    "per unit tier": {"tier": "Per Unit Pricing (593 Users)"},
    "range tier": {"tier": "1-10 Users"},
    "demonstration": {"licenseType": "DEMONSTRATION", "tier": "Demonstration License"},
    "new kind": {"licenseType": "SOCIAL_IMPACT", "status": "active"},
    "sandbox": {"installedOnSandbox": "Yes"},
    "pending": {"installedOnSandbox": "Pending", "daysToConvertEval": "-4"},
    "unicode": {"contactDetails": {"company": "株式会社 信濃工房 — Söhne “שלום” 🚀 \U0001d4b3"}},
    "unknown fields": {"futureField": {"deep": [1, {"er": None}]}, "partnerDetails": {"x": "y"}},
    "many instances": {"licenseLevel": "multi-instance", "tier": "15000 Users"},
    "free": {"licenseType": "FREE", "appEdition": "Free", "tier": "1 Users"},
    "government": {"cloudComplianceBoundaries": ["fedramp_moderate"]},
    "isolated": {"cloudComplianceBoundaries": ["isolated_cloud"]},
}

# Invalid records, which a page may contain among valid ones.
MALFORMED: list[Any] = [
    None,
    "a license",
    17,
    [],
    {},
    {"cloudId": ["a list"], "appEntitlementNumber": "E-LIST"},
    {"cloudId": "c" * 5000, "appEntitlementNumber": "E-LONG"},
]

# Encoded records that no decoder takes, each with what the service says of it.
UNREADABLE: dict[bytes, str] = {
    b'{"appEntitlementNumber":"E-HALF","contactDetails":{"company":"Smile \\ud83d Ltd"}}': (
        "The record contains a lone surrogate (half of a character)."
    ),
    b'{"appEntitlementNumber":"E-LOW","cloudId":"\\udc00"}': (
        "The record contains a lone surrogate (half of a character)."
    ),
    b'{"appEntitlementNumber":"E-DEEP","x":' + b"[" * 1500 + b"]" * 1500 + b"}": (
        "The record is nested too deeply."
    ),
    b'{"appEntitlementNumber":"E-OPEN","x":' + b'{"x":' * 1500 + b"1" + b"}" * 1501: (
        "The record is nested too deeply."
    ),
    b'{"appEntitlementNumber":"E-HUGE","tier":1e999}': (
        "The record contains a number that is out of range."
    ),
    b'{"appEntitlementNumber":"E-NAN","tier":NaN}': "The record is not valid JSON.",
    b'{"appEntitlementNumber":"E-NUL","tier":"10\x00Users"}': "The record is not valid JSON.",
    b'{"appEntitlementNumber":"E-LATIN","tier":"\xfc"}': "The record is not valid UTF-8.",
}


@dataclass(frozen=True)
class Site:
    """A customer's cloud site; ``cloud_id`` is in its licenses and names its account."""

    cloud_id: str
    hostname: str
    company: str
    country: str
    region: str


def create_site(seed: int, number: int) -> Site:
    first, second = _FIRST[number % len(_FIRST)], _SECOND[number // len(_FIRST) % len(_SECOND)]
    generation = number // (len(_FIRST) * len(_SECOND))
    company = f"{first} {second}" + (f" {generation + 1}" if generation else "")
    country, region = _COUNTRIES[number % len(_COUNTRIES)]
    hostname = company.lower().replace(" ", "-") + ".example"
    return Site(stable_id(seed, f"site/{number}"), hostname, company, country, region)


def create_license(app: SimulatedApp, at: Site, random: Random, today: date) -> Record:
    """An ordinary license. Most were last updated in the past year."""
    started = today - timedelta(days=random.randrange(5, 360))
    recent = random.random() < 0.05
    updated = today - timedelta(days=random.randrange(5) if recent else random.randrange(5, 365))
    users = random.choice(_SIZES)
    return {
        "appEntitlementId": _uuid(random),
        "appEntitlementNumber": _number(random),
        "hostEntitlementId": _uuid(random),
        "hostEntitlementNumber": _number(random),
        "cloudId": at.cloud_id,
        "cloudSiteHostname": at.hostname,
        "addonKey": app.key,
        "productId": app.product_id,
        "addonName": app.name,
        "hosting": "Cloud",
        "newBillingSystem": "Yes",
        "appEdition": random.choice(["Standard", "Advanced"]),
        "lastUpdated": updated.isoformat(),
        "licenseType": random.choice(_PAID),
        "maintenanceStartDate": started.isoformat(),
        "maintenanceEndDate": (started + timedelta(days=365)).isoformat(),
        "latestMaintenanceStartDate": started.isoformat(),
        "status": "active" if random.random() < 0.85 else "inactive",
        "tier": f"{users} Users",
        "contactDetails": {
            "technicalContact": {"email": f"tech@{at.hostname}", "name": "Kim Contact"},
            "billingContact": {"email": f"billing@{at.hostname}", "name": "Billing Desk"},
            "company": at.company,
            "country": at.country,
            "region": at.region,
        },
        "extendedServerSupport": "NA",
        "evaluationOpportunitySize": "NA",
        "parentProductBillingCycle": random.choice(["MONTHLY", "ANNUAL"]),
        "parentProductName": "Jira",
        "installedOnSandbox": "No",
        "parentProductEdition": random.choice(["Standard", "Premium", "Enterprise"]),
        "attribution": {"channel": random.choice(["organic", "referral"])},
        "licenseSourceType": "Non-Atlassian",
        "licenseLevel": "single-instance",
        "inGracePeriod": "No",
        "transactionAccountId": _uuid(random),
        "cloudComplianceBoundaries": ["commercial"],
    }


def multi_instance(parent: Record, sites: Iterable[Site], random: Random) -> list[Record]:
    """A multi-instance license, which has no site, and the licenses of its sites, without tiers."""
    level = {"licenseLevel": "multi-instance"}
    site_fields = {
        "multiInstanceEntitlementId": parent["appEntitlementId"],
        "multiInstanceEntitlementNumber": parent["appEntitlementNumber"],
    }
    combined = {**parent, **level, "cloudId": None, "cloudSiteHostname": None}
    children = [
        {
            **{name: value for name, value in parent.items() if name != "tier"},
            **{**level, **site_fields},
            "appEntitlementId": _uuid(random),
            "appEntitlementNumber": _number(random),
            "cloudId": site.cloud_id,
            "cloudSiteHostname": site.hostname,
        }
        for site in sites
    ]
    return [*children, combined]


def add_oddity(record: Record, kind: str) -> Record:
    """The record with the fields of an oddity."""
    changed = {**record, **ODDITIES[kind]}
    return {name: value for name, value in changed.items() if value is not MISSING}


def _uuid(random: Random) -> str:
    digits = f"{random.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _number(random: Random) -> str:
    digits = f"{random.getrandbits(48):012X}"
    return f"E-{digits[:3]}-{digits[3:6]}-{digits[6:9]}-{digits[9:]}"
