"""The traits of a license record, and which of several licenses counts."""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.traits import MARKETPLACE_TRAITS
from marketplace.licenses import conversion
from marketplace.licenses.conversion import InvalidRecord, ParsedLicense, SkippedRecord, SkipReason
from tests.cases import each

SAMPLE = json.loads((Path(__file__).parent / "fixtures" / "marketplace.json").read_text())
CASES = {case["case"]: case["license"] for case in SAMPLE["cases"]}
OURS = SAMPLE["configured_product_id"]


def read(record: Any, product_id: str = OURS) -> conversion.ParsedRecord:
    return conversion.parse_record(msgspec.json.encode(record), product_id)


def traits_of(record: dict[str, Any]) -> dict[str, Any]:
    outcome = read(record)
    assert isinstance(outcome, ParsedLicense), outcome
    return conversion.account_traits(outcome.fields)


def a_record(**fields: Any) -> dict[str, Any]:
    return {"appEntitlementNumber": "E-1", "cloudId": "site", "productId": OURS, **fields}


# --- The sample -----------------------------------------------------------------------------


@each("name", CASES)
def test_each_sample_is_parsed(name: str) -> None:
    record = CASES[name]
    outcome = read(record)
    if record["productId"] != OURS:
        assert outcome == SkippedRecord(SkipReason.OTHER_PRODUCT)
    elif not (record.get("cloudId") or "").strip():
        assert outcome == SkippedRecord(SkipReason.NO_CLOUD_ID)
    else:
        assert isinstance(outcome, ParsedLicense)
        assert outcome.cloud_id == record["cloudId"]


@each("name", CASES)
def test_each_trait_has_the_path_and_the_value_of_its_field(name: str) -> None:
    record = CASES[name]
    outcome = read(record)
    if not isinstance(outcome, ParsedLicense):
        return
    for trait, value in conversion.account_traits(outcome.fields).items():
        assert trait in MARKETPLACE_TRAITS
        if trait != "am.tier.number":
            field: Any = record
            for step in trait.removeprefix("am.").split("."):
                field = field[step]
            assert value == field


@each("name", CASES)
def test_contact_persons_are_not_imported(name: str) -> None:
    details = CASES[name].get("contactDetails") or {}
    people = [details.get("technicalContact") or {}, details.get("billingContact") or {}]
    personal = {value for person in people for value in person.values() if value != "RTBF"}
    imported = msgspec.json.encode(getattr(read(CASES[name]), "fields", {})).decode()
    assert not [value for value in personal if value in imported]


def test_an_ordinary_license_gives_these_traits() -> None:
    traits = traits_of(CASES["cloud_commercial_advanced"])
    given_names = {
        "am.addonName": "Board Lens for Jira",
        "am.addonKey": "com.lumenworks.board-lens",
        "am.productId": OURS,
        "am.appEdition": "Advanced",
        "am.status": "active",
        "am.licenseType": "COMMERCIAL",
        "am.hosting": "Cloud",
        "am.lastUpdated": "2026-09-14",
        "am.tier": "15 Users",
        "am.tier.number": 15,
    }
    assert given_names.items() <= traits.items()
    assert traits["am.contactDetails.company"] == "Rocketworks GmbH"
    assert {name for name in traits if name.startswith("am.contactDetails")} == {
        "am.contactDetails.company",
        "am.contactDetails.country",
        "am.contactDetails.region",
    }


# Partners are people of other companies. The list of clouds only says how a sync reads licenses.
NOT_IMPORTED = {"partnerDetails", "cloudComplianceBoundaries"}


@each("name", CASES)
def test_every_field_of_a_license_is_a_trait(name: str) -> None:
    fields = {trait.removeprefix("am.").partition(".")[0] for trait in MARKETPLACE_TRAITS}
    assert CASES[name].keys() - fields <= NOT_IMPORTED


def test_the_trial_of_an_edition_and_what_the_invoice_lacks_are_traits() -> None:
    fields = {
        "upgradeEvaluatingEdition": "Advanced",
        "upgradeEvaluationStartDate": "2026-09-20",
        "invoiceDunningReason": "PAYMENT METHOD IS NOT SET",
        "newBillingSystem": "Yes",
        "licenseSourceType": "Non-Atlassian",
        "extendedServerSupport": "NA",
    }
    traits = traits_of(a_record(**fields))
    assert {f"am.{name}": value for name, value in fields.items()}.items() <= traits.items()


DERIVED = {"am.tier.number", "am.tier.lentBy", "am.unlistedSince", "am.formerSiteHostname"}


def test_every_listed_trait_can_be_imported() -> None:
    record: dict[str, Any] = {}
    for name in MARKETPLACE_TRAITS:
        *groups, last = name.removeprefix("am.").split(".")
        if name not in DERIVED:
            target = record
            for group in groups:
                target = target.setdefault(group, {})
            target[last] = f"value of {name}"
    record |= {"productId": OURS, "tier": "10 Users"}
    trait_names = set(traits_of(record | {"appEntitlementNumber": "E-1"}))
    assert trait_names == set(MARKETPLACE_TRAITS) - DERIVED | {"am.tier.number"}


# --- Values ---------------------------------------------------------------------------------


@pytest.mark.parametrize("absent", [None, "", "  ", "null", "RTBF", " RTBF "])
def test_values_that_mean_nothing_are_absent(absent: str | None) -> None:
    record = a_record(appEdition=absent, contactDetails={"company": absent, "country": "Japan"})
    traits = traits_of(record)
    assert "am.appEdition" not in traits
    assert "am.contactDetails.company" not in traits
    assert traits["am.contactDetails.country"] == "Japan"


@each(
    "value",
    [
        "Nullable GmbH",
        "RTBF Ltd",
        " spaced ",
        "Söhne “שלום” 🚀 \U0001d4b3",
        "0",
        "-4",
        "NA",
        7,
        -1,
        1.5,
        True,
    ],
)
def test_other_values_stay_as_received(value: Any) -> None:
    assert traits_of(a_record(daysToConvertEval=value))["am.daysToConvertEval"] == value


@pytest.mark.parametrize("value", [["a"], {"a": 1}, 2**63, "x" * 5000])
def test_values_that_cannot_be_traits_are_left_out(value: Any) -> None:
    assert "am.status" not in traits_of(a_record(status=value, hosting="Cloud"))


def test_a_nul_is_stored_as_the_replacement_character() -> None:
    assert traits_of(a_record(tier="10\0Users"))["am.tier"] == "10\ufffdUsers"


@pytest.mark.parametrize("group", [None, "text", 5, ["list"], {}])
def test_a_nested_field_that_is_no_object_is_ignored(group: Any) -> None:
    assert set(traits_of(a_record(contactDetails=group, attribution=group))) == {
        "am.appEntitlementNumber",
        "am.cloudId",
        "am.productId",
    }


@each(
    ("tier", "number"),
    [
        ("10 Users", 10),
        ("1 User", 1),
        ("1 Users", 1),
        ("15000 Users", 15000),
        ("10,000 users", 10000),
        ("1,234,567 Users", 1234567),
        ("Per Unit Pricing (593 Users)", 593),
        ("Per Unit Pricing (27 users)", 27),
        ("per unit pricing (1 user)", 1),
        ("Per Unit Pricing (1,200 Users)", 1200),
        ("  25 Users ", 25),
        ("25\u00a0Users", 25),
        ("Unlimited Users", None),
        ("Evaluation", None),
        ("Subscription", None),
        ("Demonstration License", None),
        ("1-10 Users", None),
        ("11 - 25 Users", None),
        ("-5 Users", None),
        ("0 Users", None),
        ("10,00 Users", None),
        ("1,0000 Users", None),
        ("10.5 Users", None),
        ("10 Users or more", None),
        ("Up to 10 Users", None),
        ("Users", None),
        ("10", None),
        ("10 Agents", None),
        ("Unlimited (500 Users)", None),
        ("Per Unit Pricing", None),
        ("Per Unit Pricing (many Users)", None),
        ("१० Users", None),
        ("9" * 400 + " Users", None),
        ("", None),
        (None, None),
        (10, None),
        (["10 Users"], None),
    ],
)
def test_the_number_of_a_tier_is_never_a_guess(tier: Any, number: int | None) -> None:
    assert conversion.tier_number(tier) == number
    traits = traits_of(a_record(tier=tier))
    assert traits.get("am.tier.number") == number
    assert ("am.tier.number" in traits) == (number is not None)


# --- Which records --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"licenseId": "L-1", "addonLicenseId": "1"}, "E-1"),
        ({"appEntitlementNumber": None, "licenseId": "L-1", "addonLicenseId": "1"}, "L-1"),
        ({"appEntitlementNumber": "", "licenseId": "null", "addonLicenseId": "1"}, "1"),
    ],
)
def test_the_key_of_a_license_is_its_first_identifier(fields: dict[str, Any], key: str) -> None:
    outcome = read(a_record(**fields))
    assert isinstance(outcome, ParsedLicense)
    assert outcome.key == key


@each(
    ("record", "failure"),
    [
        (None, InvalidRecord("", "The record is not an object.")),
        ([], InvalidRecord("", "The record is not an object.")),
        ("text", InvalidRecord("", "The record is not an object.")),
        (
            a_record(appEntitlementNumber=None),
            InvalidRecord(
                "",
                "The record has none of appEntitlementNumber, licenseId, addonLicenseId, so it has "
                "no key.",
            ),
        ),
        (
            a_record(appEntitlementNumber=5),
            InvalidRecord("", "Its appEntitlementNumber is not a string."),
        ),
        (a_record(cloudId=5), InvalidRecord("E-1", "Its cloudId is not a string.")),
        (
            a_record(cloudId="a\0b"),
            InvalidRecord("E-1", "Its cloudId contains control characters."),
        ),
        (
            a_record(cloudId="c" * 513),
            InvalidRecord("E-1", "Its cloudId is longer than 512 characters."),
        ),
        (
            a_record(appEntitlementNumber="E" * 201),
            InvalidRecord("E" * 200, "Its appEntitlementNumber is longer than 200 characters."),
        ),
    ],
)
def test_an_invalid_record_has_a_reason(record: Any, failure: InvalidRecord) -> None:
    assert read(record) == failure


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "The record is not valid JSON."),
        (b"{", "The record is not valid JSON."),
        (b"nonsense", "The record is not valid JSON."),
        (b'{"tier":"\xff"}', "The record is not valid UTF-8."),
        (b'{"a":"\\ud800"}', "The record contains a lone surrogate (half of a character)."),
        (b"[" * 100_000, "The record is nested too deeply."),
        (b'{"tier":1e999}', "The record contains a number that is out of range."),
    ],
)
def test_invalid_json_is_an_invalid_record(raw: bytes, reason: str) -> None:
    assert conversion.parse_record(raw, OURS) == InvalidRecord("", reason)


def test_a_field_that_is_not_imported_costs_no_license() -> None:
    raw = msgspec.json.encode(a_record(cloudId="c1"))[:-1]
    for value in (b'"\xff"', b"1e999", b'{"technicalContact":{"email":1}}'):
        assert isinstance(
            conversion.parse_record(raw + b',"x":' + value + b"}", OURS), ParsedLicense
        )


def test_a_record_without_product_id_belongs_to_the_requested_product() -> None:
    assert isinstance(read(a_record(productId=None)), ParsedLicense)
    assert isinstance(read(a_record(productId=OURS.upper())), ParsedLicense)


def test_unknown_fields_do_not_change_the_digest() -> None:
    first, second = read(a_record(tier="10 Users")), read(a_record(tier="10 Users", new={"x": 1}))
    assert first == second
    assert read(a_record(tier="25 Users")) != first


def test_the_order_of_fields_does_not_change_the_digest() -> None:
    record = a_record(tier="10 Users", contactDetails={"company": "A", "region": "EMEA"})
    reordered = {name: record[name] for name in reversed(record)}
    assert read(reordered) == read(record)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
known_names = st.sampled_from(
    [*{name.split(".")[1] for name in MARKETPLACE_TRAITS}, "productId", "cloudId", "licenseId"]
)


@given(json_values | st.dictionaries(known_names, json_values, max_size=8))
def test_any_json_is_imported_skipped_or_failed(record: Any) -> None:
    outcome = conversion.parse_record(json.dumps(record).encode(), OURS)
    if isinstance(outcome, ParsedLicense):
        for value in conversion.account_traits(outcome.fields).values():
            assert isinstance(value, str | int | float)
        assert conversion.best_key({outcome.key: outcome.fields, "other": {}})


# --- The best of several --------------------------------------------------------------------

GOOD = {
    "status": "active",
    "licenseType": "COMMERCIAL",
    "installedOnSandbox": "No",
    "maintenanceEndDate": "2026-06-01",
    "lastUpdated": "2026-06-01",
}


@each(
    ("better", "worse"),
    [
        # Each line decides only where the lines above say nothing.
        ({"status": "active"}, {"status": "cancelled"}),
        ({"status": "cancelled"}, {"status": "inactive"}),
        ({"status": "inactive"}, {"status": "unheard of"}),
        ({"status": "Active"}, {"status": "inactive"}),
        ({"status": "active", "licenseType": "EVALUATION"}, {"status": "cancelled"}),
        ({"licenseType": "COMMERCIAL"}, {"licenseType": "COMMUNITY"}),
        ({"licenseType": "ACADEMIC"}, {"licenseType": "FREE"}),
        ({"licenseType": "FREE"}, {"licenseType": "EVALUATION"}),
        ({"licenseType": "COMMUNITY"}, {"licenseType": "EVALUATION"}),
        ({"licenseType": "OPEN_SOURCE"}, {"licenseType": "EVALUATION"}),
        ({"licenseType": "COMMERCIAL"}, {"licenseType": "SOCIAL_IMPACT"}),
        ({"licenseType": "SOCIAL_IMPACT"}, {"licenseType": "EVALUATION"}),
        ({"licenseType": "COMMERCIAL", "installedOnSandbox": "Yes"}, {"licenseType": "FREE"}),
        ({"installedOnSandbox": "No"}, {"installedOnSandbox": "Yes"}),
        ({"installedOnSandbox": "Pending"}, {"installedOnSandbox": "Yes"}),
        ({"installedOnSandbox": None}, {"installedOnSandbox": "Yes"}),
        (
            {"maintenanceEndDate": "2026-01-01"},
            {"installedOnSandbox": "Yes", "maintenanceEndDate": "2027-01-01"},
        ),
        ({"maintenanceEndDate": "2027-01-01"}, {"maintenanceEndDate": "2026-12-31"}),
        ({"maintenanceEndDate": "2026-01-01"}, {"maintenanceEndDate": None}),
        ({"maintenanceEndDate": "2026-01-01"}, {"maintenanceEndDate": "someday"}),
        (
            {"maintenanceEndDate": "2027-01-01", "lastUpdated": "2026-01-01"},
            {"maintenanceEndDate": "2026-01-01", "lastUpdated": "2026-02-01"},
        ),
        ({"lastUpdated": "2026-09-02"}, {"lastUpdated": "2026-09-01"}),
        ({"lastUpdated": "2026-09-02"}, {"lastUpdated": 7}),
    ],
)
def test_the_better_license_counts(better: dict[str, Any], worse: dict[str, Any]) -> None:
    candidates = {"z": {**GOOD, **better}, "a": {**GOOD, **worse}}
    assert conversion.best_key(candidates) == "z"
    assert conversion.best_key(dict(reversed(candidates.items()))) == "z"


def test_the_key_breaks_ties() -> None:
    assert conversion.best_key({"E-2": GOOD, "E-1": GOOD, "E-3": GOOD}) == "E-1"


def test_the_paid_license_of_a_sample_site_counts() -> None:
    names = ("same_cloud_id_a_expired_evaluation", "same_cloud_id_b_active_commercial")
    for order in permutations(names):
        read_ones = [read(CASES[name]) for name in order]
        candidates = {
            parsed.key: parsed.fields for parsed in read_ones if isinstance(parsed, ParsedLicense)
        }
        paid = CASES["same_cloud_id_b_active_commercial"]["appEntitlementNumber"]
        assert conversion.best_key(candidates) == paid
