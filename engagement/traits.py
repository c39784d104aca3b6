"""Merging traits so that the order in which messages arrive does not matter."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

# Names that the marketplace license connection writes. App vendors send some of them themselves,
# often in lower case: those are the same traits.
MARKETPLACE_TRAITS = (
    "am.addonKey",
    "am.addonLicenseId",
    "am.addonName",
    "am.appEdition",
    "am.appEntitlementId",
    "am.appEntitlementNumber",
    "am.attribution.campaignContent",
    "am.attribution.campaignMedium",
    "am.attribution.campaignName",
    "am.attribution.campaignSource",
    "am.attribution.channel",
    "am.attribution.referrerDomain",
    "am.cloudId",
    "am.cloudSiteHostname",
    "am.contactDetails.company",
    "am.contactDetails.country",
    "am.contactDetails.region",
    "am.daysToConvertEval",
    "am.evaluationEndDate",
    "am.evaluationLicense",
    "am.evaluationOpportunitySize",
    "am.evaluationSaleDate",
    "am.evaluationStartDate",
    "am.hostEntitlementId",
    "am.hostEntitlementNumber",
    "am.hostLicenseId",
    "am.hosting",
    "am.inGracePeriod",
    "am.installedOnSandbox",
    "am.lastUpdated",
    "am.latestEvaluationStartDate",
    "am.latestMaintenanceStartDate",
    "am.licenseId",
    "am.licenseType",
    "am.maintenanceEndDate",
    "am.maintenanceStartDate",
    "am.parentProductBillingCycle",
    "am.parentProductEdition",
    "am.parentProductName",
    "am.productId",
    "am.status",
    "am.tier",
    "am.tier.number",
    "am.transactionAccountId",
)
_KNOWN = frozenset(MARKETPLACE_TRAITS)
_SPELLING = {name.lower(): name for name in MARKETPLACE_TRAITS}

# Microseconds since 1970 of the message's timestamp, and the message's place in the order of
# arrival. Stored as a JSON list. The first is raised beyond all times for each rank of its source.
Stamp: TypeAlias = tuple[int, int]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Larger than any time in microseconds, in the past or the future, so that stamps of a higher rank
# are greater than all others, whatever their times; and small enough for 64 bits.
_RANK = 1 << 60


class Source(IntEnum):
    """Who wrote a trait. The value of a higher one stays, whatever a lower one says and when."""

    MESSAGE = 0
    MARKETPLACE = 1


class StampDetails(NamedTuple):
    """What a stamp says: by whom and when a trait was written."""

    source: Source
    at: datetime


def canonical_name(name: str) -> str:
    """The trait's one spelling: a name that is a known ``am.`` trait but for case is that trait."""
    if name in _KNOWN or name[:3].lower() != "am.":
        return name
    return _SPELLING.get(name.lower(), name)


def make_stamp(timestamp: datetime, arrival: int, source: Source = Source.MESSAGE) -> Stamp:
    """When and by whom a value was written: the higher source wins, of equal ones the later
    timestamp, and of equal timestamps the later arrival."""
    since = timestamp - _EPOCH
    at = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return at + source * _RANK, arrival


def read_stamp(stored: Sequence[int]) -> StampDetails:
    """By whom and when the trait with this stored stamp was written."""
    source = Source.MARKETPLACE if stored[0] > _RANK // 2 else Source.MESSAGE
    return StampDetails(source, _EPOCH + timedelta(microseconds=stored[0] - source * _RANK))


def merge_traits(
    traits: dict[str, Any],
    stamps: dict[str, Any],
    incoming: dict[str, Any],
    written: Stamp,
) -> bool:
    """Merge *incoming* into *traits* and *stamps* in place; whether anything changed.

    Per trait the last writer wins. None removes a trait; its stamp stays, so that an older value
    that arrives later does not bring it back.
    """
    changed = False
    for name, value in canonical_traits(incoming).items():
        known = stamps.get(name)
        if known is not None and tuple(known) >= written:
            continue
        stamps[name] = list(written)
        if value is None:
            traits.pop(name, None)
        else:
            traits[name] = value
        changed = True
    return changed


def canonical_traits(incoming: dict[str, Any]) -> dict[str, Any]:
    """The same traits under their one spelling; a trait spelled right beats its variants."""
    if all(canonical_name(name) == name for name in incoming):
        return incoming
    spelled = {canonical_name(name): value for name, value in incoming.items()}
    return {name: incoming.get(name, value) for name, value in spelled.items()}
