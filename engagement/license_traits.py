"""The traits of a license that pages, insights, and orders read by name.

``engagement.traits.MARKETPLACE_TRAITS`` lists all traits that the marketplace connection writes.
"""

from typing import Final

LICENSE_PREFIX: Final = "am."
LICENSE_TYPE_TRAIT: Final = "am.licenseType"
LICENSE_STATUS_TRAIT: Final = "am.status"
EDITION_TRAIT: Final = "am.appEdition"
HOSTNAME_TRAIT: Final = "am.cloudSiteHostname"
# The hostname that the site had before it was renamed.
FORMER_HOSTNAME_TRAIT: Final = "am.formerSiteHostname"
TIER_TRAIT: Final = "am.tier"
# The number of seats, if the tier names one.
SEATS_TRAIT: Final = "am.tier.number"
# The number of the multi-instance license that the tier comes from.
TIER_LENDER_TRAIT: Final = "am.tier.lentBy"
# The start of the term that ends then, and of the license as it may also be.
LATEST_START_TRAIT: Final = "am.latestMaintenanceStartDate"
MAINTENANCE_START_TRAIT: Final = "am.maintenanceStartDate"
# The day on which a license is up for renewal.
MAINTENANCE_END_TRAIT: Final = "am.maintenanceEndDate"
EVALUATION_END_TRAIT: Final = "am.evaluationEndDate"
# The day on which a sync first did not find the license.
UNLISTED_SINCE_TRAIT: Final = "am.unlistedSince"
