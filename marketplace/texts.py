"""What people are told when something is in the way: what happened, and what to do."""

from collections.abc import Sequence

from django.conf import settings

from marketplace.client import App
from marketplace.errors import (
    CredentialsRejected,
    MarketplaceBadRequest,
    MarketplaceError,
    MarketplaceForbidden,
    MarketplaceNotFound,
    MarketplaceUnavailable,
    UnexpectedResponse,
)

# A longer list of apps helps nobody.
MAX_LISTED_APPS = 20

UNDECRYPTABLE = (
    "The stored API token cannot be decrypted: the key that encrypted it is not in "
    "EDS_ENCRYPTION_KEYS. Add that key again, or enter the details of the connection again."
)
LIST_LABELS = {
    "all": "licenses",
    "always_free": "always free licenses",
    "fedramp_moderate": "licenses of government clouds",
    "isolated_cloud": "licenses of isolated clouds",
}
# By the name of the list that the marketplace refused.
LIST_REJECTED = {
    name: f"The marketplace does not list {licenses} (400); they were left out."
    for name, licenses in LIST_LABELS.items()
}


def sync_error(failure: MarketplaceError) -> str:
    """Why a sync does not go on."""
    match failure:
        case CredentialsRejected():
            return (
                "The marketplace rejects the user name or the API token (401); the token may have "
                "expired or been revoked."
            )
        case MarketplaceUnavailable():
            return (
                f"The marketplace is unavailable: {failure.reason}. The sync goes on later where "
                "it stopped."
            )
        case MarketplaceForbidden():
            return (
                "The marketplace account may not read the vendor’s license reports (403). Have it "
                "given the permission to view them, or connect with another account."
            )
        case MarketplaceNotFound():
            return (
                f"The marketplace has no license reports for this vendor and app "
                f"({failure.status}). If the vendor or the app has moved, enter the details again."
            )
        case MarketplaceBadRequest():
            return (
                "The marketplace refused the request for licenses (400). If it stays so, its "
                "interface has changed and this service needs an update."
            )
        case UnexpectedResponse():
            return (
                f"The marketplace’s answer cannot be used: {failure.reason}. If it stays so, its "
                "interface has changed and this service needs an update."
            )
    raise AssertionError(failure)


def page_error(failure: MarketplaceUnavailable, list_name: str, page: int, attempts: int) -> str:
    """Why a sync ends at a page that it could not read in so many attempts in a row."""
    tried = "one attempt" if attempts == 1 else f"{attempts} attempts in a row"
    return (
        f"Page {page:,} of the list of {LIST_LABELS[list_name]} could not be read in {tried}: "
        f"{failure.reason}. {_AFRESH}"
    )


_AFRESH = (
    "The sync was given up. The licenses that it brought stay, later syncs bring what changes, and "
    "the next full sync starts from the beginning. If it stays so, ask the marketplace’s support."
)
SYNC_TIMED_OUT = f"The sync did not end within a day. {_AFRESH}"
SYNC_CRASHED = "The worker stopped unexpectedly several times at the same page. See its log."


# --- Checking the details -------------------------------------------------------------------

CREDENTIALS_REJECTED = (
    "The marketplace rejects this user name with this API token. Check both; the token may have "
    "expired or been revoked, and the account’s password does not work here: make an API token in "
    "the account’s security settings."
)
NOT_CONNECTED = "The product is not connected; enter the details first."
VENDOR_ID_MISSING = (
    "Enter the vendor ID: the number at the end of the vendor management page’s address, or that "
    "whole address."
)


def unreachable(failure: MarketplaceUnavailable) -> str:
    return (
        f"The marketplace could not be asked: {failure.reason}. Nothing was stored. Try again in "
        f"some minutes; if it stays so, check that this server can reach "
        f"{settings.MARKETPLACE_API_URL}."
    )


def unexpected(failure: UnexpectedResponse) -> str:
    return (
        f"The marketplace’s answer cannot be used: {failure.reason}. Nothing was stored. Check "
        f"that {settings.MARKETPLACE_API_URL} is the marketplace’s address, and try again later."
    )


def forbidden(what: str) -> str:
    return (
        f"This account lacks the permission to view {what}. Have an administrator of the vendor "
        "give it that permission, or use the account of somebody who has it."
    )


def unknown_vendor(vendor_id: str) -> str:
    return (
        f"The marketplace knows no vendor {vendor_id}. The vendor ID is the number at the end of "
        "the vendor management page’s address."
    )


def not_an_app(given: str, apps: Sequence[App]) -> str:
    """*given* is not the product ID of one of the vendor's *apps*."""
    for app in apps:
        if given.casefold() in (app.key.casefold(), app.name.casefold()):
            which = "app key" if given.casefold() == app.key.casefold() else "name"
            return (
                f"That is the {which} of {app.name or app.key}; its product ID is {app.product_id}."
            )
    if not apps:
        return "The vendor has no apps that this account may see, so there is none to connect."
    listed = "; ".join(f"{app.name or app.key}: {app.product_id}" for app in apps[:MAX_LISTED_APPS])
    more = f"; and {len(apps) - MAX_LISTED_APPS} more" if len(apps) > MAX_LISTED_APPS else ""
    return f"The vendor has no app with this product ID. Its apps are {listed}{more}."


def details_verified(app: App, vendor_id: str) -> str:
    return (
        f"The details work: the marketplace shows the licenses of {app.name or app.key} "
        f"to this account of vendor {vendor_id}."
    )
