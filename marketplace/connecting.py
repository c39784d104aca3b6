"""Connects a product to a marketplace: verifies the details, and changes the connection's state.

Every change locks the connection's row and increments its generation, so a sync that uses older
details notices and writes nothing more.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Model

from core.fields import DecryptionError
from engagement.models import Product
from marketplace import texts
from marketplace.ledger.accounts import note_changed_events
from marketplace.models import (
    Connection,
    Feedback,
    Ledger,
    LedgerLicense,
    License,
    LicenseAlias,
    LicenseEvent,
    MetricEvent,
    Observation,
    ReportReading,
    Transaction,
)
from marketplace.runs import lifecycle, scheduling
from marketplace.source import queries
from marketplace.source.client import App, ClientFactory, Credentials, MarketplaceClient
from marketplace.source.errors import (
    CredentialsRejected,
    MarketplaceError,
    MarketplaceUnavailable,
)
from marketplace.user_names import USER_NAME_FIELDS, full_user_name, set_user_name

API_TOKEN, VENDOR_ID, PRODUCT_ID = "api_token", "vendor_id", "product_id"


@dataclass(frozen=True)
class ConnectionDetails:
    """The four values as entered. ``repr`` hides the credentials."""

    user_name: str = field(repr=False)
    api_token: str = field(repr=False)
    vendor_id: str
    product_id: str


@dataclass(frozen=True)
class VerifiedDetails:
    """Details that the marketplace accepts, and what it returned for them.

    ``report_problem`` is a sentence if the license report is unavailable at the moment.
    """

    details: ConnectionDetails
    developer_id: str
    app: App
    report_problem: str = ""


@dataclass(frozen=True)
class ConnectionOptions:
    """What people may say beside the four values."""

    token_expires_on: date | None = None
    includes_staff_licenses: bool = False


class DetailsRejected(Exception):
    """The details cannot be used. ``field`` is the one of ConnectionDetails that is wrong, or None
    if none is; ``message`` is for people."""

    def __init__(self, field: str | None, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


class CredentialsRefused(DetailsRejected):
    """The marketplace rejects the user name and the token (401)."""

    def __init__(self) -> None:
        super().__init__(API_TOKEN, texts.CREDENTIALS_REJECTED)


# --- Verifying ------------------------------------------------------------------------------


def verify_details(details: ConnectionDetails, create_client: ClientFactory) -> VerifiedDetails:
    """Verify the details with the marketplace, without saving anything.

    The vendor ID may be a number or the URL of the vendor management page. Raises DetailsRejected.
    """
    vendor_id = parse_vendor_id(details.vendor_id)
    client = create_client(Credentials(details.user_name.strip(), details.api_token.strip()))
    with _asking_for(""):
        return _verify(client, details, vendor_id)


def parse_vendor_id(entered: str) -> str:
    """The vendor ID, from itself or from the URL of the vendor management page. Raises
    DetailsRejected."""
    match = _VENDOR_ID.fullmatch(entered.strip())
    if not match:
        raise DetailsRejected(VENDOR_ID, texts.VENDOR_ID_MISSING)
    return match["number"]


_VENDOR_ID = re.compile(r"(?:https?://\S*/)?(?P<number>[0-9]{1,18})/?(?:[?#]\S*)?")


@contextmanager
def _asking_for(what: str, vendor_id: str = "") -> Iterator[None]:
    """Raise DetailsRejected if a failure of the marketplace says something about the details."""
    try:
        yield
    except CredentialsRejected:
        raise CredentialsRefused from None
    except MarketplaceError as failure:
        if refusal := texts.refusal(what, failure, vendor_id):
            raise DetailsRejected(*refusal) from None
        raise


def _verify(
    client: MarketplaceClient, details: ConnectionDetails, vendor_id: str
) -> VerifiedDetails:
    with _asking_for("vendor", vendor_id):
        developer_id = client.developer_id(vendor_id)
    app = _find_app(client, developer_id, details.product_id.strip())
    report_problem = _check_license_report(client, developer_id, app)
    canonical = ConnectionDetails(
        details.user_name.strip(), details.api_token.strip(), vendor_id, app.product_id
    )
    return VerifiedDetails(canonical, developer_id, app, report_problem)


def _find_app(client: MarketplaceClient, developer_id: str, entered: str) -> App:
    """The vendor's app with this product ID."""
    with _asking_for("apps"):
        apps = list(client.apps(developer_id))
    apps_by_id = {product_id: app for app in apps if (product_id := _uuid(app.product_id))}
    app_product_id = _uuid(entered)
    if app_product_id is None or app_product_id not in apps_by_id:
        message = texts.not_an_app(entered, list(apps_by_id.values()))
        raise DetailsRejected(PRODUCT_ID, message)
    return apps_by_id[app_product_id]


def _check_license_report(client: MarketplaceClient, developer_id: str, app: App) -> str:
    """Read a page of licenses, as a sync does.

    Returns a sentence if the marketplace answers that the report is unavailable at the moment:
    the details are right then, and the first sync can wait. No answer in time is a failure.
    """
    try:
        with _asking_for("reports"):
            queries.probe(client, developer_id, app.product_id)
    except MarketplaceUnavailable as failure:
        if failure.status is None:
            raise
        return texts.REPORT_UNAVAILABLE.format(reason=failure.reason)
    return ""


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def verify_stored_details(
    connection: Connection, create_client: ClientFactory, now: datetime
) -> str:
    """Verify the stored details with the marketplace; return a message for people.

    Raises DetailsRejected. If the marketplace rejects the credentials, the connection requires
    authentication from now on, as after a sync.
    """
    try:
        stored = Connection.objects.defer(None).get(pk=connection.pk)
        user_name, token = full_user_name(stored), stored.api_token
    except DecryptionError:
        raise DetailsRejected(API_TOKEN, texts.UNDECRYPTABLE) from None
    if token is None:
        raise DetailsRejected(None, texts.NOT_CONNECTED)
    product_id = str(connection.app_product_id)
    details = ConnectionDetails(user_name, token, stored.vendor_id, product_id)
    try:
        verified = verify_details(details, create_client)
    except CredentialsRefused:
        _require_authentication(stored, now)
        raise
    message = texts.DETAILS_VERIFIED.format(
        app=verified.app.name or verified.app.key, vendor_id=stored.vendor_id
    )
    return texts.join_sentences(message, verified.report_problem)


def _require_authentication(stored: Connection, now: datetime) -> None:
    """Pause the connection and end its sync, unless it has other details by now."""
    reason = texts.sync_error(CredentialsRejected())
    with transaction.atomic():
        connection = Connection.objects.select_for_update().get(pk=stored.pk)
        is_active = connection.state == Connection.State.ACTIVE
        if not is_active or connection.generation != stored.generation:
            return
        connection.state = Connection.State.REQUIRES_AUTHENTICATION
        connection.state_reason = connection.last_error = reason
        connection.state_changed_at = connection.last_error_at = now
        connection.save(update_fields=_PAUSED_FIELDS)
        lifecycle.stop_unfinished(connection, reason, now)


_PAUSED_FIELDS = ["state", "state_reason", "state_changed_at", "last_error", "last_error_at"]


# --- Changes of state -----------------------------------------------------------------------


def save_connection(
    product: Product,
    verified: VerifiedDetails,
    now: datetime,
    options: ConnectionOptions = ConnectionOptions(),
) -> Connection:
    """Activate the product's connection with these details, whatever its state, and start a sync.

    A sync with older details ends. If the product was connected to another app, that app's licenses
    and their ledger are deleted; their traits stay until others replace them.
    """
    app_product_id = UUID(verified.app.product_id)
    with transaction.atomic():
        # There may be no connection to lock yet.
        Product.objects.select_for_update(no_key=True).get(pk=product.pk)
        connection = _locked(product) or Connection(product=product, generation=0)
        if connection.pk and connection.app_product_id != app_product_id:
            events = LicenseEvent.objects.filter(product=product)
            note_changed_events(product.pk, events.values_list("cloud_id", flat=True))
            for model in _OF_ONE_APP:
                model._default_manager.filter(product=product).delete()
            ReportReading.objects.filter(connection=connection).delete()
            connection.full_synced_at = None
            connection.lists = None
        if connection.includes_staff_licenses != options.includes_staff_licenses:
            # Other licenses are listed from now on.
            connection.full_synced_at = None
        connection.token_expires_on = options.token_expires_on
        connection.includes_staff_licenses = options.includes_staff_licenses
        _activate(connection, verified, now)
        lifecycle.stop_unfinished(connection, "The connection’s details were replaced.", now)
        run = scheduling.create_run(connection, scheduling.due_kind(connection, now), now)
        if verified.report_problem:
            run.error = verified.report_problem
            run.save(update_fields=["error"])
    return connection


_OF_ONE_APP: tuple[type[Model], ...] = (
    *(License, Observation, LicenseEvent, LedgerLicense, LicenseAlias, Ledger),
    *(Transaction, Feedback, MetricEvent),
)


def _activate(connection: Connection, verified: VerifiedDetails, now: datetime) -> None:
    details, app = verified.details, verified.app
    connection.state = Connection.State.ACTIVE
    connection.state_reason = ""
    connection.state_changed_at = now
    connection.generation += 1
    set_user_name(connection, details.user_name)
    connection.api_token = details.api_token
    connection.vendor_id = details.vendor_id
    connection.app_product_id = UUID(app.product_id)
    connection.developer_id = verified.developer_id
    connection.app_name = (app.name or app.key)[:300]
    connection.app_key = app.key[:300]
    connection.last_error = ""
    connection.last_error_at = None
    connection.save(update_fields=_ACTIVATED_FIELDS if connection.pk else None)


_ACTIVATED_FIELDS = [
    *("state", "state_reason", "state_changed_at", "generation", *USER_NAME_FIELDS, "api_token"),
    *("vendor_id", "app_product_id", "developer_id", "app_name", "app_key"),
    *("last_error", "last_error_at", "full_synced_at", "lists"),
    *("token_expires_on", "includes_staff_licenses"),
]


def disconnect(connection: Connection, now: datetime) -> Connection:
    """Stop syncing and delete the stored credentials. Imported traits stay."""
    with transaction.atomic():
        connection_row = Connection.objects.select_for_update().get(pk=connection.pk)
        if connection_row.state == Connection.State.DISCONNECTED:
            return connection_row
        connection_row.state = Connection.State.DISCONNECTED
        connection_row.state_reason = ""
        connection_row.state_changed_at = now
        connection_row.generation += 1
        connection_row.api_token = None
        set_user_name(connection_row, None)
        connection_row.token_expires_on = None
        # A new connection starts with all licenses.
        connection_row.full_synced_at = None
        connection_row.save(update_fields=_DISCONNECTED_FIELDS)
        lifecycle.stop_unfinished(connection_row, "The product was disconnected.", now)
    return connection_row


_DISCONNECTED_FIELDS = [
    *("state", "state_reason", "state_changed_at", "generation", *USER_NAME_FIELDS, "api_token"),
    *("token_expires_on", "full_synced_at"),
]


def _locked(product: Product) -> Connection | None:
    return Connection.objects.select_for_update().filter(product=product).first()
