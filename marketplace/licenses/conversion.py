"""Turns a license record of the marketplace into an account's traits, without database or HTTP.

``marketplace.licenses.record_fields`` reads the imported fields only, so contact persons never get
past this module.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from engagement.license_traits import (
    SEATS_TRAIT,
    TIER_LENDER_TRAIT,
    TIER_TRAIT,
    UNLISTED_SINCE_TRAIT,
)
from engagement.models.subjects import EXTERNAL_ID_LENGTH
from marketplace.licenses.record_fields import (
    TRAIT_NAMES,
    Fields,
    decode_usual,
    present,
    read_fields,
)
from marketplace.models import LICENSE_KEY_LENGTH

# The first of these that a license has is its key.
_KEYS = ("appEntitlementNumber", "licenseId", "addonLicenseId")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class SkipReason(StrEnum):
    """Why a valid license is not imported."""

    NO_CLOUD_ID = "no Cloud ID"
    OTHER_PRODUCT = "a license of another product"
    FORGOTTEN = "a license of an account that was deleted permanently"


class ParsedLicense(msgspec.Struct, frozen=True):
    """A license of the account whose external id is ``cloud_id``, which a multi-instance license
    lacks: those of its sites name it. ``encoded`` is the JSON of its fields."""

    key: str
    cloud_id: str
    fields: Fields
    encoded: bytes
    digest: bytes


@dataclass(frozen=True)
class SkippedRecord:
    reason: SkipReason


@dataclass(frozen=True)
class InvalidRecord:
    """A record that cannot be used; ``reason`` is a sentence without personal data."""

    key: str
    reason: str


ParsedRecord: TypeAlias = ParsedLicense | SkippedRecord | InvalidRecord


class _Unusable(Exception):
    """A record is invalid; the message is the reason."""


# --- Reading records ------------------------------------------------------------------------


def parse_records(
    records: Iterable[bytes | msgspec.Raw], product_id: str
) -> list[tuple[str, ParsedRecord]]:
    """Each record's fingerprint and what it says, for the marketplace's productId *product_id*."""
    return [(fingerprint(record), parse_record(record, product_id)) for record in records]


def fingerprint(raw: bytes | msgspec.Raw) -> str:
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def parse_record(raw: bytes | msgspec.Raw, product_id: str) -> ParsedRecord:
    """What the record says, for the marketplace's productId *product_id*."""
    if (fields := decode_usual(raw)) is not None:
        with suppress(_Unusable):
            return _read(fields, fields, product_id)
    try:
        record = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        body = bytes(raw)
        return InvalidRecord(_key_within(body), _unreadable(body, error))
    if not isinstance(record, dict):
        return InvalidRecord("", "The record is not an object.")
    try:
        return _read(record, read_fields(record), product_id)
    except _Unusable as error:
        return InvalidRecord(_shown_key(record), str(error))


def _unreadable(raw: bytes, error: Exception) -> str:
    """Why a record cannot be decoded. The decoder's message is not quoted: it may contain data."""
    if isinstance(error, RecursionError):
        return "The record is nested too deeply."
    if isinstance(error, UnicodeDecodeError):
        return "The record is not valid UTF-8."
    if _SURROGATE.search(raw):
        return "The record contains a lone surrogate (half of a character)."
    if "out of range" in str(error):
        return "The record contains a number that is out of range."
    return "The record is not valid JSON."


_SURROGATE = re.compile(
    rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]", re.DOTALL
)
_KEY_WITHIN = re.compile(rb'"(?:%s)"\s*:\s*"([A-Za-z0-9-]{1,100})"' % "|".join(_KEYS).encode())


def _key_within(raw: bytes) -> str:
    """The key of a record that cannot be decoded, for people."""
    match = _KEY_WITHIN.search(raw)
    return match[1].decode() if match else ""


def _read(record: dict[str, Any], fields: Fields, product_id: str) -> ParsedRecord:
    reported_for = present(record.get("productId"))
    if isinstance(reported_for, str) and reported_for.lower() != product_id.lower():
        return SkippedRecord(SkipReason.OTHER_PRODUCT)
    cloud_id = _identifier(record, "cloudId", EXTERNAL_ID_LENGTH)
    if cloud_id is None and not is_multi_instance(record):
        return SkippedRecord(SkipReason.NO_CLOUD_ID)
    key = _key(record)
    if cloud_id is None:
        if parent_key(fields):
            return SkippedRecord(SkipReason.NO_CLOUD_ID)
        cloud_id = ""
    encoded = msgspec.json.encode(fields)
    digest = hashlib.blake2b(encoded, digest_size=16).digest()
    return ParsedLicense(key, cloud_id, fields, encoded, digest)


def _key(record: dict[str, Any]) -> str:
    for name in _KEYS:
        if key := _identifier(record, name, LICENSE_KEY_LENGTH):
            return key
    raise _Unusable(f"The record has none of {', '.join(_KEYS)}, so it has no key.")


def _identifier(record: dict[str, Any], name: str, limit: int) -> str | None:
    """The exact text of an identifying field; None if it is absent."""
    value = present(record.get(name))
    if value is None:
        return None
    if not isinstance(value, str):
        raise _Unusable(f"Its {name} is not a string.")
    if len(value) > limit:
        raise _Unusable(f"Its {name} is longer than {limit} characters.")
    if _CONTROL_CHARACTER.search(value):
        raise _Unusable(f"Its {name} contains control characters.")
    return value


def _shown_key(record: dict[str, Any]) -> str:
    """The key of an invalid record, for people."""
    for name in _KEYS:
        value = record.get(name)
        if isinstance(value, str) and value.isprintable():
            return value[:LICENSE_KEY_LENGTH]
    return ""


# --- Multi-instance licenses ----------------------------------------------------------------


def is_multi_instance(fields: Fields) -> bool:
    """Whether it is a license for several sites, or the license of one of them."""
    return _lower(fields.get("licenseLevel")) == "multi-instance"


def parent_key(fields: Fields) -> str:
    """The number or id of the multi-instance license that a site's license belongs to; "" if it
    belongs to none."""
    for name in ("multiInstanceEntitlementNumber", "multiInstanceEntitlementId"):
        parent = fields.get(name)
        if isinstance(parent, str) and len(parent) <= LICENSE_KEY_LENGTH:
            own = (fields.get("appEntitlementNumber"), fields.get("appEntitlementId"))
            return "" if parent in own else parent
    return ""


def names_as_parent(fields: Fields) -> set[str]:
    """What the licenses of its sites call a multi-instance license."""
    names = (fields.get("appEntitlementNumber"), fields.get("appEntitlementId"))
    return {name for name in names if isinstance(name, str)}


# --- Traits ---------------------------------------------------------------------------------


def account_traits(
    fields: Fields, parent: Fields | None = None, unlisted_since: date | None = None
) -> dict[str, Any]:
    """The traits that a license gives its account: the fields as received, and the tier as a
    number.

    A multi-instance license, the *parent*, lends its tier if the site's has no number.
    """
    traits = {TRAIT_NAMES[path]: value for path, value in fields.items()}
    number = tier_number(fields.get("tier"))
    if number is None and parent is not None and "tier" in parent:
        number = tier_number(parent["tier"])
        traits[TIER_TRAIT] = parent["tier"]
        traits[TIER_LENDER_TRAIT] = parent_key(fields)
    if number is not None:
        traits[SEATS_TRAIT] = number
    if unlisted_since is not None:
        traits[UNLISTED_SINCE_TRAIT] = unlisted_since.isoformat()
    return traits


_COUNT = r"(?P<count>[0-9]{1,12}|[0-9]{1,3}(?:,[0-9]{3}){1,3})\s+users?"
_TIER = re.compile(rf"\s*{_COUNT}\s*", re.IGNORECASE)
_PER_UNIT = re.compile(rf"\s*per unit pricing\s*\(\s*{_COUNT}\s*\)\s*", re.IGNORECASE)


def tier_number(tier: Any) -> int | None:
    """The number of users in a tier such as "10 Users" or "Per Unit Pricing (593 Users)".

    None for everything else, such as "Unlimited Users".
    """
    return _tier_number(tier) if isinstance(tier, str) else None


# The licenses of a vendor have few different tiers.
@lru_cache(maxsize=1_000)
def _tier_number(tier: str) -> int | None:
    match = _TIER.fullmatch(tier) or _PER_UNIT.fullmatch(tier)
    # No license is for zero users: a zero means something else.
    return (int(match["count"].replace(",", "")) or None) if match else None


# --- The best of several --------------------------------------------------------------------

_STATUS = {"active": 0, "cancelled": 1, "inactive": 2}
_PAID, _EVALUATION = 0, 2
# All other types, such as free, community, and unknown ones, rank in between.
_LICENSE_TYPE = {"commercial": _PAID, "academic": _PAID, "starter": _PAID}
_LICENSE_TYPE |= {"evaluation": _EVALUATION}


def best_key(licenses: Mapping[str, Fields], unlisted: Collection[str] = ()) -> str:
    """The key of the license that gives the account its traits.

    Those that are listed rank before the *unlisted* ones; active before cancelled, then inactive;
    paid before other types, then evaluation; other sites before sandboxes. Ties are resolved by the
    later end of maintenance, the later update, and the key.
    """
    return min(licenses, key=lambda key: (key in unlisted, *_rank(licenses[key]), key))


def _rank(fields: Fields) -> tuple[int, int, bool, int, int]:
    return (
        _STATUS.get(_lower(fields.get("status")), len(_STATUS)),
        _LICENSE_TYPE.get(_lower(fields.get("licenseType")), 1),
        _lower(fields.get("installedOnSandbox")) == "yes",
        -_day(fields.get("maintenanceEndDate")),
        -_day(fields.get("lastUpdated")),
    )


def supersedes(license: ParsedLicense, other: ParsedLicense) -> bool:
    """Whether *license* counts, of two different rows of the same license.

    The later update counts. For two updates on one day, data insights decide, which a row from
    before their first day lacks; then the rank of ``best_key``, and then the digest: the order of
    the rows never matters.
    """
    return _precedence(license) < _precedence(other)


def _precedence(license: ParsedLicense) -> tuple[Any, ...]:
    fields = license.fields
    return -updated_ordinal(fields), not has_insights(fields), *_rank(fields), license.digest


def has_insights(fields: Fields) -> bool:
    return not _INSIGHTS.isdisjoint(fields)


# Fields that only come with data insights.
_INSIGHTS = {"evaluationOpportunitySize", "installedOnSandbox", "parentProductName"}
_INSIGHTS |= {"evaluationStartDate", "evaluationEndDate", "parentProductEdition"}


def updated_ordinal(fields: Fields) -> int:
    """The day of the last update as an ordinal number; 0 if there is none."""
    return _day(fields.get("lastUpdated"))


def _lower(value: Any) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def _day(value: Any) -> int:
    """The date as an ordinal number; 0 if it is not one."""
    if not isinstance(value, str):
        return 0
    try:
        return date.fromisoformat(value.strip()[:10]).toordinal()
    except ValueError:
        return 0
