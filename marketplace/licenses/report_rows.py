"""Reads the rows of transactions, feedback, and the metrics' details: named fields, and no others.

Contact persons, companies, partners, and messages never get past this module. A text with "@" may
be an email address in any field, so it counts as absent.
"""

from collections.abc import Mapping
from datetime import date
from typing import Any, Final, NamedTuple

import msgspec

from marketplace.licenses.record_fields import ABSENT

# The ids of a license, those that name it best first.
NAMES: Final = ("appEntitlementNumber", "appEntitlementId", "licenseId", "addonLicenseId")
# The texts of a transaction, which are below purchaseDetails or beside it.
TRANSACTION_TEXTS: Final = (
    *("saleType", "licenseType", "hosting", "billingPeriod", "oldBillingPeriod", "tier", "oldTier"),
    *("maintenanceStartDate", "maintenanceEndDate", "refundReason", "creditNoteReason"),
    *("paymentStatus", "appEdition", "licenseLevel"),
)
# US dollars; negative for money back.
TRANSACTION_AMOUNTS: Final = ("purchasePrice", "vendorAmount")
# How the details of metrics call the hosting of licenses that no sync imports, in lower case.
_OWN_SERVERS: Final = {"data center", "datacenter", "server"}
MAX_MONTHS: Final = 1200
MAX_NAME_LENGTH: Final = 200
MAX_TEXT_LENGTH: Final = 500

Record = Mapping[str, Any]


class TransactionRow(NamedTuple):
    """A line of an order. *names* are the ids of its license."""

    transaction_id: str
    line_item_id: str
    names: list[str]
    cloud_id: str
    sale_date: date | None
    fields: dict[str, Any]


class FeedbackRow(NamedTuple):
    """Why a customer left. Without *names*, nobody knows which license it is about."""

    names: list[str]
    cloud_id: str
    day: date
    type: str
    reason_key: str
    reason: str


class MetricRow(NamedTuple):
    """An event as the marketplace counts it, on its day. *months* says how long the license was
    valid, if the row does."""

    names: list[str]
    cloud_id: str
    day: date
    months: int | None


def read_transaction(raw: bytes | msgspec.Raw, product_id: str) -> TransactionRow | None:
    """The line of an order of this app; None if it is another app's, or cannot be used."""
    record = _decode(raw, product_id)
    transaction_id = _text(record, "transactionId", MAX_NAME_LENGTH)
    line_item_id = _text(record, "transactionLineItemId", MAX_NAME_LENGTH)
    names = _names(record)
    if not (transaction_id and line_item_id and names):
        return None
    purchase = {**record, **_object(record, "purchaseDetails")}
    fields: dict[str, Any] = {
        name: text for name in TRANSACTION_TEXTS if (text := _text(purchase, name))
    }
    for name in TRANSACTION_AMOUNTS:
        if (amount := _amount(purchase.get(name))) is not None:
            fields[name] = amount
    if parts := _prorated(purchase.get("proratedDetails")):
        fields["proratedDetails"] = parts
    return TransactionRow(
        *(transaction_id, line_item_id, names, _text(record, "cloudId", MAX_NAME_LENGTH)),
        _day(purchase.get("saleDate")),
        fields,
    )


def read_feedback(raw: bytes | msgspec.Raw, product_id: str) -> FeedbackRow | None:
    """The feedback on this app; None if it is another app's, or cannot be used."""
    record = _decode(raw, product_id)
    day, type_ = _day(record.get("date")), _text(record, "feedbackType", 50)
    if day is None or not type_:
        return None
    return FeedbackRow(
        *(_names(record), _text(record, "cloudId", MAX_NAME_LENGTH), day, type_.lower()),
        *(_text(record, "reasonKey", 100), _text(record, "reason")),
    )


def read_metric(raw: bytes | msgspec.Raw, product_id: str) -> MetricRow | None:
    """The event of this app; None if it is another app's, cannot be used, or is about a license
    without a Cloud ID on the customer's own servers, which no sync imports.

    The license is in an object of its own, or its fields are beside the others.
    """
    record = _decode(raw, product_id)
    license = {**record, **_object(record, "licenseDetails")}
    day, names = _day(record.get("eventDate")), _names(license)
    cloud_id = _text(license, "cloudId", MAX_NAME_LENGTH)
    is_imported = cloud_id or _text(license, "hosting").casefold() not in _OWN_SERVERS
    if day is None or not names or not is_imported:
        return None
    months = _amount(license.get("monthsValid")) or 0
    return MetricRow(names, cloud_id, day, round(months) if 1 <= months <= MAX_MONTHS else None)


def _decode(raw: bytes | msgspec.Raw, product_id: str) -> Record:
    """The record; an empty one if it is another app's, or cannot be decoded."""
    try:
        record = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    if not isinstance(record, dict):
        return {}
    is_ours = str(record.get("productId") or product_id).lower() == product_id.lower()
    return record if is_ours else {}


def _object(record: Record, name: str) -> Record:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _names(record: Record) -> list[str]:
    names = (_text(record, name, MAX_NAME_LENGTH) for name in NAMES)
    return list(dict.fromkeys(filter(None, names)))


def _text(record: Record, name: str, limit: int = MAX_TEXT_LENGTH) -> str:
    """The text; "" if it is absent, too long, or may be an email address."""
    value = record.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    text = value.strip() if isinstance(value, str) else ""
    is_usable = len(text) <= limit and text.isprintable() and "@" not in text
    return text if is_usable and text not in ABSENT else ""


def _amount(value: Any) -> float | None:
    try:
        amount = float(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None
    # Not infinite, and no NaN, which JSON cannot have.
    return amount if amount is not None and abs(amount) < 1e12 else None


def _prorated(value: Any) -> list[dict[str, Any]]:
    """The users who were added in the running period, and when."""
    parts = [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
    return [
        {"addedUsers": _amount(part.get("addedUsers")), "date": _text(part, "date", 40)}
        for part in parts[:50]
    ]


def _day(value: Any) -> date | None:
    """The UTC day of a date or an instant; None if it is neither."""
    try:
        return date.fromisoformat(value.strip()[:10]) if isinstance(value, str) else None
    except ValueError:
        return None
