"""Merges traits so that the order in which messages arrive does not matter."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

# The traits that the marketplace connection writes. App vendors send some of them, too, often in
# lower case. Those are the same traits.
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
    "am.extendedServerSupport",
    "am.formerSiteHostname",
    "am.hostEntitlementId",
    "am.hostEntitlementNumber",
    "am.hostLicenseId",
    "am.hosting",
    "am.inGracePeriod",
    "am.installedOnSandbox",
    "am.invoiceDunningReason",
    "am.lastUpdated",
    "am.latestEvaluationStartDate",
    "am.latestMaintenanceStartDate",
    "am.licenseId",
    "am.licenseLevel",
    "am.licenseSourceType",
    "am.licenseType",
    "am.maintenanceEndDate",
    "am.maintenanceStartDate",
    "am.multiInstanceEntitlementId",
    "am.multiInstanceEntitlementNumber",
    "am.newBillingSystem",
    "am.parentProductBillingCycle",
    "am.parentProductEdition",
    "am.parentProductName",
    "am.productId",
    "am.status",
    "am.tier",
    "am.tier.lentBy",
    "am.tier.number",
    "am.transactionAccountId",
    "am.unlistedSince",
    "am.upgradeEvaluatingEdition",
    "am.upgradeEvaluationStartDate",
)
_CANONICAL = frozenset(MARKETPLACE_TRAITS)
_SPELLING = {name.lower(): name for name in MARKETPLACE_TRAITS}

# The message's timestamp in microseconds since 1970, raised beyond all times for each rank of its
# source, and the message's place in the order of arrival. Stored as a JSON list.
Stamp: TypeAlias = tuple[int, int]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Larger than any time in microseconds, so that a stamp of a higher rank is greater than all others,
# whatever their times; and small enough for 64 bits.
_RANK = 1 << 60


class Source(IntEnum):
    """Who wrote a trait. A lower source never changes what a higher one wrote."""

    MESSAGE = 0
    MARKETPLACE = 1


class StampDetails(NamedTuple):
    """What a stamp says: who wrote a trait, and when."""

    source: Source
    at: datetime


def canonical_name(name: str) -> str:
    """The one spelling of the trait. The case of a marketplace trait's name does not matter."""
    if name in _CANONICAL or name[:3].lower() != "am.":
        return name
    return _SPELLING.get(name.lower(), name)


def make_stamp(timestamp: datetime, arrival: int, source: Source = Source.MESSAGE) -> Stamp:
    """Who wrote a value, and when. The greater stamp wins: the higher source, then the later
    timestamp, then the later arrival."""
    since = timestamp - _EPOCH
    at = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return at + source * _RANK, arrival


def source_of(stored: Sequence[int]) -> Source:
    """Who wrote the trait with this stored stamp."""
    return Source.MARKETPLACE if stored[0] > _RANK // 2 else Source.MESSAGE


def read_stamp(stored: Sequence[int]) -> StampDetails:
    """Who wrote the trait with this stored stamp, and when."""
    source = source_of(stored)
    return StampDetails(source, _EPOCH + timedelta(microseconds=stored[0] - source * _RANK))


def merge_traits(
    traits: dict[str, Any],
    stamps: dict[str, Any],
    incoming: dict[str, Any],
    stamp: Stamp,
) -> bool:
    """Merge *incoming* into *traits* and *stamps* in place. Returns whether anything changed.

    The last writer of each trait wins. None removes a trait. Its stamp stays, so an older value
    that arrives later does not bring it back.
    """
    incoming = canonical_traits(incoming)
    if not stamps and not traits:
        # A new subject: there is nothing to compare with.
        stamps.update(dict.fromkeys(incoming, stamp))
        traits.update(incoming)
        for name in [name for name, value in incoming.items() if value is None]:
            del traits[name]
        return bool(incoming)
    changed = False
    for name, value in incoming.items():
        previous = stamps.get(name)
        if previous is not None and tuple(previous) >= stamp:
            continue
        stamps[name] = list(stamp)
        if value is None:
            traits.pop(name, None)
        else:
            traits[name] = value
        changed = True
    return changed


def group_by_stamp(traits: dict[str, Any], stamps: dict[str, Any]) -> dict[Stamp, dict[str, Any]]:
    """A subject's traits by their stamps, the oldest first. A removed one is None: it removes the
    trait again."""
    grouped: dict[Stamp, dict[str, Any]] = {}
    for name, stamp in stamps.items():
        grouped.setdefault((stamp[0], stamp[1]), {})[name] = traits.get(name)
    return dict(sorted(grouped.items()))


def canonical_traits(incoming: dict[str, Any]) -> dict[str, Any]:
    """The same traits under their one spelling. The right spelling wins over its variants."""
    if _CANONICAL.issuperset(incoming) or all(canonical_name(name) == name for name in incoming):
        return incoming
    spelled = {canonical_name(name): value for name, value in incoming.items()}
    return {name: incoming.get(name, value) for name, value in spelled.items()}
