"""The sentences about a connection and its syncs: what is wrong, then what to do.

``HEALTH`` says how a connection is doing, ``RESULTS`` how a sync ended, ``FAILURES`` why it was
suspended or failed, and ``REFUSALS`` what is wrong with the details that somebody entered.
"""

from collections.abc import Sequence
from typing import NamedTuple

from django.conf import settings

from marketplace.models import Report, ReportReading, SyncRun
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

LIST_LABELS = {
    "all": "licenses",
    "always_free": "always free licenses",
    "fedramp_moderate": "licenses of government clouds",
    "isolated_cloud": "licenses of isolated clouds",
}
WITHOUT_SCOPES = (
    "A token with scopes, or of a service account, does not work even while it is valid: choose "
    "“Create API token”, not “Create API token with scopes”."
)
UNDECRYPTABLE = (
    "The stored credentials cannot be decrypted: their key is not in EDS_ENCRYPTION_KEYS. Add that "
    "key again, or enter the connection’s details again."
)
API_GONE = (
    "The marketplace no longer serves this address of its API (410). Update this service: a newer "
    "release knows the new address."
)


def join_sentences(*sentences: str) -> str:
    """The sentences that are not empty, as one text."""
    return " ".join(filter(None, sentences))


# --- How a connection is doing --------------------------------------------------------------


class Health(NamedTuple):
    """The level sets the color: good, warning, bad, or quiet. Of people who may not change the
    connection, some get another advice, and the others learn who may."""

    level: str
    title: str
    reason: str
    advice: str = ""
    viewer_advice: str | None = None


MANAGERS_ONLY = "A manager of the product can change this."
_TROUBLE_ADVICE = ("{error}", f"{{error}} {MANAGERS_ONLY}")
HEALTH = {
    "requires_authentication": Health(
        "bad",
        "Requires authentication.",
        "{error}",
        "Create a new API token without scopes in the account’s security settings (the "
        "marketplace rejects tokens with scopes and those of service accounts) and enter all four "
        "details again. A sync then starts at once. Until then nothing is synced, and imported "
        "traits stay.",
        "Nothing is synced until a manager of the product enters the details with a new API "
        "token. Imported traits stay.",
    ),
    "disconnected": Health(
        "quiet",
        "Disconnected.",
        "{error}",
        "Nothing is synced. Imported traits stay on their accounts, and the user name and the API "
        "token were deleted. Enter all four details to connect again.",
        "Nothing is synced. Imported traits stay on their accounts. A manager of the product can "
        "connect it again.",
    ),
    "pending": Health("warning", "Connected.", "The first sync is pending.", *_TROUBLE_ADVICE),
    "interrupted": Health("warning", "Connected.", "A sync is interrupted.", *_TROUBLE_ADVICE),
    "failed": Health("warning", "Connected.", "The last sync failed.", *_TROUBLE_ADVICE),
    "full_failed": Health("warning", "Connected.", "The last full sync failed.", *_TROUBLE_ADVICE),
    "off": Health(
        "warning",
        "Connected.",
        "Syncs are switched off.",
        "The periodic task of the syncs is disabled or missing. Ask the operator to enable “sync "
        "marketplace licenses”. Until then only “Sync now” and “Full sync” start a sync.",
    ),
    "new": Health("good", "Connected.", "The first sync imports all licenses."),
    "active": Health("good", "Connected.", "Licenses are updated {interval}."),
}

# --- How a sync is doing --------------------------------------------------------------------

# The sentence of each state, and its level.
RESULTS = {
    SyncRun.State.SUCCEEDED: ("Succeeded.", "good"),
    SyncRun.State.FAILED: ("Failed.", "bad"),
    SyncRun.State.STOPPED: ("Stopped.", "quiet"),
    SyncRun.State.WAITING: ("Waiting for a free worker.", "quiet"),
    SyncRun.State.RUNNING: ("Running.", "quiet"),
}
RESUMES = "Resumes in {}."

_UPDATE_NEEDED = "If this persists, the marketplace’s API has changed: update this service."
_STARTS_OVER = (
    "Imported licenses stay, changes continue to arrive, and the next full sync starts over. If "
    "this persists, contact the marketplace’s support."
)
SYNC_TIMED_OUT = f"The sync did not finish within a day. {_STARTS_OVER}"
SYNC_CRASHED = "The worker stopped unexpectedly several times at the same page. See its log."
FAILURES: dict[type[MarketplaceError], str] = {
    CredentialsRejected: "The marketplace rejects the user name or the API token (401). The token "
    "may have expired or been revoked.",
    MarketplaceUnavailable: "The marketplace is unavailable: {0.reason}. The sync resumes later "
    "where it stopped.",
    MarketplaceForbidden: "The marketplace account lacks the permission to view the vendor’s "
    "license reports (403). Ask for this permission, or connect with another account. "
    f"{WITHOUT_SCOPES}",
    MarketplaceNotFound: "The marketplace has no license reports for this vendor and app "
    "({0.status}). If the vendor or the app has moved, enter the details again.",
    MarketplaceBadRequest: f"The marketplace rejected the request for licenses (400). "
    f"{_UPDATE_NEEDED}",
    UnexpectedResponse: f"The marketplace’s response cannot be used: {{0.reason}}. "
    f"{_UPDATE_NEEDED}",
    ExportFailed: "The marketplace cannot export the licenses: {0.reason}.",
}


def sync_error(failure: MarketplaceError) -> str:
    """Why a sync was suspended or failed."""
    return API_GONE if failure.status == 410 else FAILURES[type(failure)].format(failure)


def page_error(reason: str, list_name: str, page: int, attempts: int) -> str:
    """Why a sync failed at a page after this many attempts in a row."""
    times = "once" if attempts == 1 else f"{attempts} times in a row"
    return (
        f"Page {page:,} of the list of {LIST_LABELS[list_name]} failed {times}: "
        f"{reason}. {_STARTS_OVER}"
    )


# --- What a sync brought --------------------------------------------------------------------

READ_IN_HALVES = (
    "The marketplace shows all licenses and data insights only on separate requests for those from "
    "before and after July 2018, so they were read in two parts."
)
NOT_COMPARED = (
    "Whether the marketplace leaves out licenses from before July 2018 could not be checked: it "
    "does not send pages by start date. Compare the number of licenses with the marketplace’s own "
    "report."
)
# An empty report where there were licenses.
NOTHING_LISTED = (
    "The marketplace lists no licenses. The last full sync found {:,}. Imported licenses stay. "
    "Check in the marketplace’s reports that the app still has licenses and that this account may "
    "view them."
)
_WAYS = {
    Report.PAGES: "page by page",
    Report.EXPORT: "as an export",
    Report.DATES: "by start date",
}


def read_otherwise(reason: str, report: str) -> str:
    """How a sync read the lists instead of page by page."""
    return f"The licenses were read {_WAYS[Report(report)]}, because {reason}."


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
    subject = "The only license cannot" if run.seen == 1 else f"None of {run.seen:,} licenses can"
    return join_sentences(
        f"{subject} be used: {summary}.",
        first_reason and f"The first reason: {first_reason}",
        "Only licenses of cloud sites have a Cloud ID. Check that the product ID is that of the "
        "cloud app.",
    )


# --- Other reports --------------------------------------------------------------------------

_REPORT_NAMES = {
    ReportReading.Report.TRANSACTIONS: "transactions",
    ReportReading.Report.FEEDBACK: "customers’ feedback",
    ReportReading.Report.CHURN: "counts of churn",
    ReportReading.Report.CONVERSION: "counts of conversions",
    ReportReading.Report.RENEWAL: "counts of renewals",
    ReportReading.Report.HISTORY: "the history of licenses",
}
# By the failure: a sentence about the report {0}, whose failure is {1}.
_REPORT_FAILURES: dict[type[MarketplaceError], str] = {
    CredentialsRejected: "The marketplace rejects the user name or the API token for {0} (401).",
    MarketplaceForbidden: "This account may not read {0} (403): ask an administrator of the vendor "
    "for the permissions “View sales reports” and “View all other reports”.",
    MarketplaceNotFound: "The marketplace has no report of {0} for this vendor ({1.status}).",
    MarketplaceBadRequest: "The marketplace rejects the request for {0} (400).",
    MarketplaceUnavailable: "The marketplace cannot send {0} at the moment: {1.reason}.",
    ExportFailed: "The marketplace cannot export {0}: {1.reason}.",
    UnexpectedResponse: "The marketplace’s response for {0} cannot be used: {1.reason}.",
}
LICENSES_UNAFFECTED = "Licenses are synced as usual."
REPORT_READ = "{:,} rows were read."
REPORT_PENDING = "It is read after the first sync."
REPORT_UNLISTED = "The marketplace does not list it among the reports that this account may read."
REPORT_PROGRESS = "It is being read: {:,} rows so far."
LICENSES_READ = "It is being read license by license: {:,} licenses, {:,} rows so far."
HISTORY_OFFERED = "It is read once, on request, with the button “Read history”."
HISTORY_REQUESTED = "It is waiting for a free worker."
NO_HISTORY = (
    "The marketplace sends only the present state of each license. The ledger goes on with what "
    "syncs see."
)


def report_error(report: str, failure: MarketplaceError) -> str:
    """Why a report beside the licenses was not read."""
    kind = next(kind for kind in type(failure).mro() if kind in _REPORT_FAILURES)
    name = _REPORT_NAMES[ReportReading.Report(report)]
    return _REPORT_FAILURES[kind].format(name, failure)


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
DETAILS_VERIFIED = (
    "The connection works: this account can read the licenses of {app}, vendor {vendor_id}."
)
# Why the first sync of verified details has to wait.
REPORT_UNAVAILABLE = (
    "The license report is unavailable at the moment: {reason}. The sync is pending and starts by "
    "itself once the report is back."
)
_FORBIDDEN = (
    "This account lacks the permission to view {}. Ask an administrator of the vendor for it, or "
    f"use an account that has it. {WITHOUT_SCOPES}"
)
_UNEXPECTED = (
    "The marketplace’s response cannot be used: {reason}. Nothing was saved. Check that {url} is "
    "the marketplace’s URL, and try again later."
)
_APPS, _REPORTS = "the list of the vendor’s apps", "the vendor’s license reports"
# By what was asked for ("" is anything) and the failure: the field that is wrong, if one is, and
# the sentence. Those for MarketplaceNotFound are for MarketplaceBadRequest, too.
REFUSALS: dict[tuple[str, type[MarketplaceError]], tuple[str | None, str]] = {
    ("", UnexpectedResponse): (None, _UNEXPECTED),
    ("", MarketplaceUnavailable): (
        None,
        "The marketplace is unavailable: {reason}. Nothing was saved. Try again in a few minutes. "
        "If this persists, check that this server can reach {url}.",
    ),
    ("vendor", MarketplaceForbidden): (
        "vendor_id",
        "This account may not view the vendor {vendor_id}. Check the number first: a mistyped one "
        "has the same effect. If it is right, ask an administrator of the vendor to add the "
        f"account. {WITHOUT_SCOPES}",
    ),
    ("vendor", MarketplaceNotFound): (
        "vendor_id",
        "The marketplace has no vendor {vendor_id}. The vendor ID is the number at the end of the "
        "vendor management page’s URL.",
    ),
    ("apps", MarketplaceForbidden): ("user_name", _FORBIDDEN.format(_APPS)),
    ("apps", MarketplaceNotFound): (
        None,
        _UNEXPECTED.format(reason=f"{_APPS} is missing", url="{url}"),
    ),
    ("reports", MarketplaceForbidden): ("user_name", _FORBIDDEN.format(_REPORTS)),
    ("reports", MarketplaceNotFound): (
        None,
        _UNEXPECTED.format(reason="the license reports of the app are missing", url="{url}"),
    ),
}


def refusal(
    asked_for: str, failure: MarketplaceError, vendor_id: str = ""
) -> tuple[str | None, str] | None:
    """The field and the sentence of a failure; None if it says nothing about the details."""
    if failure.status == 410:
        return None, API_GONE
    is_bad_request = isinstance(failure, MarketplaceBadRequest)
    kind = MarketplaceNotFound if is_bad_request else type(failure)
    if (row := REFUSALS.get((asked_for, kind))) is None:
        return None
    values = {"reason": failure.reason, "url": settings.MARKETPLACE_API_URL}
    return row[0], row[1].format(**values, vendor_id=vendor_id)


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
