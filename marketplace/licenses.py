"""From a license as the marketplace reports it to an account's traits. Pure: no database, no HTTP.

Only the fields that ``engagement.traits.MARKETPLACE_TRAITS`` names are ever read, so contact
persons get no further than this module.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

from engagement.models.subjects import EXTERNAL_ID_LENGTH
from engagement.traits import MARKETPLACE_TRAITS
from marketplace.models import LICENSE_KEY_LENGTH

# Paths of imported fields, such as "tier" and "contactDetails.company", with their values.
Fields: TypeAlias = dict[str, Any]

TRAIT_PREFIX: Final = "am."
TIER_NUMBER: Final = "am.tier.number"
# No field that we import is longer; what is, is something else.
MAX_VALUE_LENGTH: Final = 4096

_PATHS = [name.removeprefix(TRAIT_PREFIX) for name in MARKETPLACE_TRAITS if name != TIER_NUMBER]
_PLAIN = [path for path in _PATHS if "." not in path]
_NESTED: dict[str, list[str]] = {}
for _path in _PATHS:
    if "." in _path:
        _NESTED.setdefault(_path.partition(".")[0], []).append(_path)

# In this order: the first one that a license has is its key.
_KEYS = ("appEntitlementNumber", "licenseId", "addonLicenseId")
# Texts that stand for nothing; RTBF: the right to be forgotten.
_ABSENT = {"", "null", "RTBF"}
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class SkipReason(StrEnum):
    """Why a license is left alone, though nothing is wrong with it."""

    NO_CLOUD_ID = "no Cloud ID"
    OTHER_PRODUCT = "a license of another product"
    FORGOTTEN = "a license of an account that was forgotten for good"


@dataclass(frozen=True)
class ParsedLicense:
    """A license that belongs to an account: the one whose external id is ``cloud_id``."""

    key: str
    cloud_id: str
    fields: Fields
    digest: bytes


@dataclass(frozen=True)
class SkippedRecord:
    reason: SkipReason


@dataclass(frozen=True)
class InvalidRecord:
    """A record that cannot be used; ``reason`` is a sentence without anything personal."""

    key: str
    reason: str


ParsedRecord: TypeAlias = ParsedLicense | SkippedRecord | InvalidRecord


class _Unusable(Exception):
    """Something is wrong with a record; the message is the sentence that says what."""


# --- Reading a record -----------------------------------------------------------------------


def parse_record(raw: bytes | msgspec.Raw, product_id: str) -> ParsedRecord:
    """What to do with a record of the feed, asked for the marketplace's productId *product_id*."""
    try:
        record = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        body = bytes(raw)
        return InvalidRecord(_key_within(body), _unreadable(body, error))
    if not isinstance(record, dict):
        return InvalidRecord("", "The record is not an object.")
    try:
        return _read(record, product_id)
    except _Unusable as error:
        return InvalidRecord(_shown_key(record), str(error))


def _unreadable(raw: bytes, error: Exception) -> str:
    """Why a record cannot be decoded. The decoder's text is not quoted: it may name fields."""
    if isinstance(error, RecursionError):
        return "The record is nested too deeply."
    if isinstance(error, UnicodeDecodeError):
        return "The record is not in UTF-8."
    if _SURROGATE.search(raw):
        return "The record holds half of a character (a lone surrogate)."
    if "out of range" in str(error):
        return "The record holds a number that is out of range."
    return "The record is not readable JSON."


_SURROGATE = re.compile(
    rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]", re.DOTALL
)
_KEY_WITHIN = re.compile(rb'"(?:%s)"\s*:\s*"([A-Za-z0-9-]{1,100})"' % "|".join(_KEYS).encode())


def _key_within(raw: bytes) -> str:
    """What a person recognizes a record by that cannot be decoded."""
    match = _KEY_WITHIN.search(raw)
    return match[1].decode() if match else ""


def _read(record: dict[str, Any], product_id: str) -> ParsedRecord:
    reported_for = _present(record.get("productId"))
    if isinstance(reported_for, str) and reported_for.lower() != product_id.lower():
        return SkippedRecord(SkipReason.OTHER_PRODUCT)
    cloud_id = _identifier(record, "cloudId", EXTERNAL_ID_LENGTH)
    if cloud_id is None:
        return SkippedRecord(SkipReason.NO_CLOUD_ID)
    key = _key(record)
    fields = _fields(record)
    return ParsedLicense(key, cloud_id, fields, _digest(fields))


def _key(record: dict[str, Any]) -> str:
    for name in _KEYS:
        if key := _identifier(record, name, LICENSE_KEY_LENGTH):
            return key
    raise _Unusable(f"The record has none of {', '.join(_KEYS)}: nothing tells it from others.")


def _identifier(record: dict[str, Any], name: str, limit: int) -> str | None:
    """The text of an identifying field, exactly as it came; None where it is absent."""
    value = _present(record.get(name))
    if value is None:
        return None
    if not isinstance(value, str):
        raise _Unusable(f"Its {name} is not a text.")
    if len(value) > limit:
        raise _Unusable(f"Its {name} is longer than {limit} characters.")
    if _CONTROL_CHARACTER.search(value):
        raise _Unusable(f"Its {name} holds control characters.")
    return value


def _shown_key(record: dict[str, Any]) -> str:
    """What a person recognises an unusable record by."""
    for name in _KEYS:
        value = record.get(name)
        if isinstance(value, str) and value.isprintable():
            return value[:LICENSE_KEY_LENGTH]
    return ""


def _fields(record: dict[str, Any]) -> Fields:
    fields = {path: value for path in _PLAIN if (value := _value(record.get(path))) is not None}
    for group, paths in _NESTED.items():
        inner = record.get(group)
        if isinstance(inner, dict):
            for path in paths:
                if (value := _value(inner.get(path[len(group) + 1 :]))) is not None:
                    fields[path] = value
    return fields


def _value(value: Any) -> Any:
    """A field's value as received; None for what is absent or can be no trait."""
    if type(value) is str:
        if value.strip() in _ABSENT or len(value) > MAX_VALUE_LENGTH:
            return None
        # The database holds no NUL.
        return value.replace("\0", "\ufffd") if "\0" in value else value
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    return None


def _present(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip() in _ABSENT else value


def _digest(fields: Fields) -> bytes:
    encoded = msgspec.json.encode(fields, order="sorted")
    return hashlib.blake2b(encoded, digest_size=16).digest()


# --- Traits ---------------------------------------------------------------------------------


def account_traits(fields: Fields) -> dict[str, Any]:
    """The account's traits that a license gives it: values as received, and the tier's number."""
    named = {TRAIT_PREFIX + path: value for path, value in fields.items()}
    number = tier_number(fields.get("tier"))
    if number is not None:
        named[TIER_NUMBER] = number
    return named


_COUNT = r"(?P<count>[0-9]{1,12}|[0-9]{1,3}(?:,[0-9]{3}){1,3})\s+users?"
_TIER = re.compile(rf"\s*{_COUNT}\s*", re.IGNORECASE)
_PER_UNIT = re.compile(rf"\s*per unit pricing\s*\(\s*{_COUNT}\s*\)\s*", re.IGNORECASE)


def tier_number(tier: Any) -> int | None:
    """How many users a tier is for, where it says so: "10 Users", "Per Unit Pricing (593 Users)".

    None for everything else: there is no number for "Unlimited Users", and none is guessed.
    """
    if not isinstance(tier, str):
        return None
    match = _TIER.fullmatch(tier) or _PER_UNIT.fullmatch(tier)
    # No license is for nobody: a zero means something else.
    return (int(match["count"].replace(",", "")) or None) if match else None


# --- The best of several --------------------------------------------------------------------

_STATUS = {"active": 0, "cancelled": 1, "inactive": 2}
_PAID, _EVALUATION = 0, 2
# What is neither paid nor an evaluation is in between: free, community, and kinds yet unknown.
_LICENSE_TYPE = {"commercial": _PAID, "academic": _PAID, "starter": _PAID}
_LICENSE_TYPE |= {"evaluation": _EVALUATION}


def best_key(licenses: Mapping[str, Fields]) -> str:
    """The key of the license that an account's traits come from, of all that it has.

    Active before cancelled before inactive, paid before free and community before evaluation, not
    on a sandbox before on one, the later end of maintenance, the later update, then the key.
    """
    return min(licenses, key=lambda key: (*_rank(licenses[key]), key))


def _rank(fields: Fields) -> tuple[int, int, bool, int, int]:
    return (
        _STATUS.get(_lower(fields.get("status")), len(_STATUS)),
        _LICENSE_TYPE.get(_lower(fields.get("licenseType")), 1),
        _lower(fields.get("installedOnSandbox")) == "yes",
        -_day(fields.get("maintenanceEndDate")),
        -_day(fields.get("lastUpdated")),
    )


def supersedes(license: ParsedLicense, other: ParsedLicense) -> bool:
    """Whether the one row counts, of two different rows of the same license.

    The later update counts. Of two updates on one day the row that ``best`` would choose counts;
    the digest decides the rest, so that the order in which rows come never matters.
    """
    return _precedence(license) < _precedence(other)


def _precedence(license: ParsedLicense) -> tuple[Any, ...]:
    return -updated_ordinal(license.fields), *_rank(license.fields), license.digest


def updated_ordinal(fields: Fields) -> int:
    """The day of the last update as a number that grows with it; 0 for none."""
    return _day(fields.get("lastUpdated"))


def _lower(value: Any) -> str:
    return value.strip().lower() if isinstance(value, str) else ""


def _day(value: Any) -> int:
    """A date as a number that grows with it; 0 for none."""
    if not isinstance(value, str):
        return 0
    try:
        return date.fromisoformat(value.strip()[:10]).toordinal()
    except ValueError:
        return 0
