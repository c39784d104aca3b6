"""Error messages for people: what is wrong, then what to do."""

from collections.abc import Sequence

from django.conf import settings

from marketplace.models import Report, SyncRun
from marketplace.source.client import App
from marketplace.source.errors import (
    CredentialsRejected,
    ExportFailed,
    MarketplaceBadRequest,
    MarketplaceError,
    MarketplaceForbidden,
    MarketplaceNotFound,
    MarketplaceUnavailable,
    UnexpectedResponse,
)

# More than vendors have.
MAX_LISTED_APPS = 500

UNDECRYPTABLE = (
    "The stored credentials cannot be decrypted: their key is not in EDS_ENCRYPTION_KEYS. Add that "
    "key again, or enter the connection’s details again."
)
LIST_LABELS = {
    "all": "licenses",
    "always_free": "always free licenses",
    "fedramp_moderate": "licenses of government clouds",
    "isolated_cloud": "licenses of isolated clouds",
}


def join_sentences(*sentences: str) -> str:
    """The sentences that are not empty, as one text."""
    return " ".join(filter(None, sentences))


def sync_error(failure: MarketplaceError) -> str:
    """Why a sync was suspended or failed."""
    match failure:
        case CredentialsRejected():
            return (
                "The marketplace rejects the user name or the API token (401). The token may have "
                "expired or been revoked."
            )
        case MarketplaceUnavailable():
            return (
                f"The marketplace is unavailable: {failure.reason}. The sync resumes later where "
                "it stopped."
            )
        case MarketplaceForbidden():
            return (
                "The marketplace account lacks the permission to view the vendor’s license "
                f"reports (403). Ask for this permission, or connect with another account. "
                f"{WITHOUT_SCOPES}"
            )
        case MarketplaceNotFound(status=410):
            return API_GONE
        case MarketplaceNotFound():
            return (
                f"The marketplace has no license reports for this vendor and app "
                f"({failure.status}). If the vendor or the app has moved, enter the details again."
            )
        case MarketplaceBadRequest():
            return f"The marketplace rejected the request for licenses (400). {_UPDATE_NEEDED}"
        case UnexpectedResponse():
            return f"The marketplace’s response cannot be used: {failure.reason}. {_UPDATE_NEEDED}"
        case ExportFailed():
            return f"The marketplace cannot export the licenses: {failure.reason}."
    raise AssertionError(failure)


API_GONE = (
    "The marketplace no longer serves this address of its API (410). Update this service: a newer "
    "release knows the new address."
)
WITHOUT_SCOPES = (
    "A token with scopes, or of a service account, does not work even while it is valid: choose "
    "“Create API token”, not “Create API token with scopes”."
)
_UPDATE_NEEDED = "If this persists, the marketplace’s API has changed: update this service."


def page_error(reason: str, list_name: str, page: int, attempts: int) -> str:
    """Why a sync failed at a page after this many attempts in a row."""
    times = "once" if attempts == 1 else f"{attempts} times in a row"
    return (
        f"Page {page:,} of the list of {LIST_LABELS[list_name]} failed {times}: "
        f"{reason}. {_STARTS_OVER}"
    )


_STARTS_OVER = (
    "Imported licenses stay, changes continue to arrive, and the next full sync starts over. If "
    "this persists, contact the marketplace’s support."
)
SYNC_TIMED_OUT = f"The sync did not finish within a day. {_STARTS_OVER}"
SYNC_CRASHED = "The worker stopped unexpectedly several times at the same page. See its log."


# --- Verifying the details ------------------------------------------------------------------

CREDENTIALS_REJECTED = (
    "The marketplace rejects this user name and API token. Check both. The token may have expired "
    "or been revoked. The account’s password does not work: create an API token in the account’s "
    f"security settings. {WITHOUT_SCOPES}"
)
NOT_CONNECTED = "The product is not connected. Enter the details first."
VENDOR_ID_MISSING = (
    "Enter the vendor ID: the number at the end of the vendor management page’s URL, or the URL "
    "itself."
)


def unreachable(failure: MarketplaceUnavailable) -> str:
    return (
        f"The marketplace is unavailable: {failure.reason}. Nothing was saved. Try again in a few "
        f"minutes. If this persists, check that this server can reach "
        f"{settings.MARKETPLACE_API_URL}."
    )


def unexpected(failure: UnexpectedResponse) -> str:
    return (
        f"The marketplace’s response cannot be used: {failure.reason}. Nothing was saved. Check "
        f"that {settings.MARKETPLACE_API_URL} is the marketplace’s URL, and try again later."
    )


def forbidden(what: str) -> str:
    return (
        f"This account lacks the permission to view {what}. Ask an administrator of the vendor for "
        f"it, or use an account that has it. {WITHOUT_SCOPES}"
    )


def forbidden_vendor(vendor_id: str) -> str:
    return (
        f"This account may not view the vendor {vendor_id}. Check the number first: a mistyped "
        "one has the same effect. If it is right, ask an administrator of the vendor to add the "
        f"account. {WITHOUT_SCOPES}"
    )


def report_unavailable(failure: MarketplaceUnavailable) -> str:
    """Why the first sync of verified details has to wait."""
    return (
        f"The license report is unavailable at the moment: {failure.reason}. The sync is pending "
        "and starts by itself once the report is back."
    )


def unknown_vendor(vendor_id: str) -> str:
    return (
        f"The marketplace has no vendor {vendor_id}. The vendor ID is the number at the end of the "
        "vendor management page’s URL."
    )


def not_an_app(entered: str, apps: Sequence[App]) -> str:
    """*entered* is not the product ID of any of the vendor's *apps*."""
    for app in apps:
        if entered.casefold() in (app.key.casefold(), app.name.casefold()):
            what = "app key" if entered.casefold() == app.key.casefold() else "name"
            return (
                f"This is the {what} of {app.name or app.key}. Its product ID is {app.product_id}."
            )
    if not apps:
        return "This account cannot see any app of the vendor. Use an account that can."
    lines = [f"{app.name or app.key}: {app.product_id}" for app in apps[:MAX_LISTED_APPS]]
    if len(apps) > MAX_LISTED_APPS:
        lines.append(f"and {len(apps) - MAX_LISTED_APPS:,} more")
    return "\n".join(["The vendor has no app with this product ID. Its apps:", *lines])


def details_verified(app: App, vendor_id: str) -> str:
    return (
        f"The connection works: this account can read the licenses of {app.name or app.key}, "
        f"vendor {vendor_id}."
    )


# --- What a sync brought --------------------------------------------------------------------


def refused_list(name: str, refusal: MarketplaceError) -> str:
    """Why a list is left out."""
    if isinstance(refusal, MarketplaceForbidden):
        return f"The marketplace account may not view {LIST_LABELS[name]} (403): they are left out."
    return f"The marketplace does not list {LIST_LABELS[name]} (400), so they are not synced."


def missing_licenses(list_name: str, reported: int | None, received: int) -> str:
    """What the marketplace did not send."""
    licenses = LIST_LABELS[list_name]
    consequence = "Licenses that the sync did not find keep their state."
    if reported is None:
        return f"The list of {licenses} stops with empty pages. {consequence}"
    return f"The marketplace reports {reported:,} {licenses} and sent {received:,}. {consequence}"


def nothing_usable(run: SyncRun, first_reason: str) -> str:
    """Why a sync that read licenses imported none of them."""
    counts = {
        "without a Cloud ID": run.without_cloud_id,
        "of another product": run.of_other_product,
        "of deleted accounts": run.skipped - run.without_cloud_id - run.of_other_product,
        "unreadable or invalid": run.failed,
    }
    summary = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    reason = f" The first reason: {first_reason}" if first_reason else ""
    advice = (
        "Only licenses of cloud sites have a Cloud ID. Check that the product ID is that of the "
        "cloud app."
    )
    number = "The only license" if run.seen == 1 else f"None of {run.seen:,} licenses"
    verb = "cannot be used" if run.seen == 1 else "can be used"
    return f"{number} {verb}: {summary}.{reason} {advice}"


def nothing_listed(previous: int) -> str:
    """An empty report where there were licenses."""
    return (
        f"The marketplace lists no licenses. The last full sync found {previous:,}. Imported "
        "licenses stay. Check in the marketplace’s reports that the app still has licenses and "
        "that this account may view them."
    )


READ_IN_HALVES = (
    "The marketplace shows all licenses and data insights only on separate requests for those from "
    "before and after July 2018, so they were read in two parts."
)


NOT_COMPARED = (
    "Whether the marketplace leaves out licenses from before July 2018 could not be checked: it "
    "does not send pages by start date. Compare the number of licenses with the marketplace’s own "
    "report."
)


def read_otherwise(reason: str, report: str) -> str:
    """How a sync read the lists instead of page by page."""
    way = {
        Report.PAGES: "page by page",
        Report.EXPORT: "as an export",
        Report.DATES: "by start date",
    }
    return f"The licenses were read {way[Report(report)]}, because {reason}."
