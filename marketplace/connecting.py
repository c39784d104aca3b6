"""Connecting a product to a marketplace: checking the details, and each change of state.

Whoever changes a connection's state locks its row and gives it another generation, so a sync that
works with older details finds out and writes nothing more.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from django.db import transaction

from engagement.core.fields import DecryptionError
from engagement.models import Product
from marketplace import runs, scheduling, texts
from marketplace.client import App, Credentials, LicenseQuery, MarketplaceClient
from marketplace.errors import (
    CredentialsRejected,
    MarketplaceBadRequest,
    MarketplaceForbidden,
    MarketplaceNotFound,
    MarketplaceUnavailable,
    UnexpectedResponse,
)
from marketplace.models import Connection, License

# Makes the client that speaks for these credentials; ``client.connect`` is the real one.
ClientFactory: TypeAlias = Callable[[Credentials], MarketplaceClient]

USER_NAME, API_TOKEN, VENDOR_ID, PRODUCT_ID = "user_name", "api_token", "vendor_id", "product_id"


@dataclass(frozen=True)
class ConnectionDetails:
    """The four values as a person entered them. The token does not show itself."""

    user_name: str
    api_token: str = field(repr=False)
    vendor_id: str
    product_id: str


@dataclass(frozen=True)
class VerifiedDetails:
    """Details that the marketplace has confirmed, and what it said about them."""

    details: ConnectionDetails
    developer_id: str
    app: App


class DetailsRejected(Exception):
    """The details cannot be used. ``field`` is the one concerned, one of the names above, or None
    where it is none of them; ``sentence`` says what happened and what to do."""

    def __init__(self, field: str | None, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field
        self.sentence = sentence


# --- Checking -------------------------------------------------------------------------------


def verify_details(details: ConnectionDetails, client_for: ClientFactory) -> VerifiedDetails:
    """Ask the marketplace whether the details are right; stores nothing.

    Takes the vendor ID as a number or as the address of the vendor management page. Raises
    DetailsRejected.
    """
    vendor_id = parse_vendor_id(details.vendor_id)
    client = client_for(Credentials(details.user_name.strip(), details.api_token.strip()))
    try:
        return _ask(client, details, vendor_id)
    except CredentialsRejected:
        raise DetailsRejected(API_TOKEN, texts.CREDENTIALS_REJECTED) from None
    except MarketplaceUnavailable as failure:
        raise DetailsRejected(None, texts.unreachable(failure)) from None
    except UnexpectedResponse as failure:
        raise DetailsRejected(None, texts.unexpected(failure)) from None


def parse_vendor_id(given: str) -> str:
    """The number, from itself or from the address of the vendor management page that ends in it;
    raises DetailsRejected."""
    match = _VENDOR_ID.fullmatch(given.strip())
    if not match:
        raise DetailsRejected(VENDOR_ID, texts.VENDOR_ID_MISSING)
    return match["number"]


_VENDOR_ID = re.compile(r"(?:https?://\S*/)?(?P<number>[0-9]{1,18})/?(?:[?#]\S*)?")


def _ask(client: MarketplaceClient, details: ConnectionDetails, vendor_id: str) -> VerifiedDetails:
    try:
        developer_id = client.developer_id(vendor_id)
    except (MarketplaceNotFound, MarketplaceBadRequest):
        raise DetailsRejected(VENDOR_ID, texts.unknown_vendor(vendor_id)) from None
    except MarketplaceForbidden:
        why = texts.forbidden(f"the vendor {vendor_id}")
        raise DetailsRejected(USER_NAME, why) from None
    app = _app(client, developer_id, details.product_id.strip())
    _see_licenses(client, developer_id, app)
    found = ConnectionDetails(
        details.user_name.strip(), details.api_token.strip(), vendor_id, app.product_id
    )
    return VerifiedDetails(found, developer_id, app)


def _app(client: MarketplaceClient, developer_id: str, given: str) -> App:
    """The vendor's app with this product ID."""
    try:
        apps = list(client.apps(developer_id))
    except MarketplaceForbidden:
        why = texts.forbidden("the list of the vendor’s apps")
        raise DetailsRejected(USER_NAME, why) from None
    except (MarketplaceNotFound, MarketplaceBadRequest):
        raise UnexpectedResponse("it has no list of the vendor’s apps") from None
    known = [app for app in apps if _uuid(app.product_id)]
    wanted = _uuid(given)
    for app in known:
        if wanted and _uuid(app.product_id) == wanted:
            return app
    raise DetailsRejected(PRODUCT_ID, texts.not_an_app(given, known))


def _see_licenses(client: MarketplaceClient, developer_id: str, app: App) -> None:
    """Read a page of licenses, as a sync will."""
    try:
        client.licenses(developer_id, LicenseQuery(app.product_id), 0)
    except MarketplaceForbidden:
        why = texts.forbidden("the vendor’s license reports")
        raise DetailsRejected(USER_NAME, why) from None
    except (MarketplaceNotFound, MarketplaceBadRequest):
        raise UnexpectedResponse("it has no license reports for the app") from None


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def verify_stored_details(connection: Connection, client_for: ClientFactory) -> str:
    """Ask the marketplace with the stored details; a sentence that says that they work.

    Raises DetailsRejected with the sentence that says why not. Changes nothing.
    """
    try:
        token = Connection.objects.defer(None).get(pk=connection.pk).api_token
    except DecryptionError:
        raise DetailsRejected(API_TOKEN, texts.UNDECRYPTABLE) from None
    if token is None:
        raise DetailsRejected(None, texts.NOT_CONNECTED)
    product_id = str(connection.app_product_id)
    details = ConnectionDetails(connection.user_name, token, connection.vendor_id, product_id)
    app = verify_details(details, client_for).app
    return texts.details_verified(app, connection.vendor_id)


# --- Changes of state -----------------------------------------------------------------------


def save_connection(product: Product, checked: VerifiedDetails, now: datetime) -> Connection:
    """Make the product's connection an active one with these details, and have it sync at once.

    From whatever state it was in; a sync with older details ends. Licenses of another app that
    the product was connected to before are forgotten, their traits stay until they are replaced.
    """
    app_product_id = UUID(checked.app.product_id)
    with transaction.atomic():
        # There may be no connection yet to lock.
        Product.objects.select_for_update(no_key=True).get(pk=product.pk)
        connection = _locked(product) or Connection(product=product, generation=0)
        if connection.pk and connection.app_product_id != app_product_id:
            License.objects.filter(product=product).delete()
            connection.full_synced_at = None
            connection.lists = None
        _activate(connection, checked, now)
        runs.stop_unfinished(connection, "The connection’s details were replaced.", now)
        scheduling.create_run(connection, scheduling.due_kind(connection, now), now)
    return connection


def _activate(connection: Connection, checked: VerifiedDetails, now: datetime) -> None:
    details, app = checked.details, checked.app
    connection.state = Connection.State.ACTIVE
    connection.state_reason = ""
    connection.state_changed_at = now
    connection.generation += 1
    connection.user_name = details.user_name
    connection.api_token = details.api_token
    connection.vendor_id = details.vendor_id
    connection.app_product_id = UUID(app.product_id)
    connection.developer_id = checked.developer_id
    connection.app_name = (app.name or app.key)[:300]
    connection.app_key = app.key[:300]
    connection.last_error = ""
    connection.last_error_at = None
    connection.save(update_fields=_DETAILS if connection.pk else None)


_DETAILS = [
    *("state", "state_reason", "state_changed_at", "generation", "user_name", "api_token"),
    *("vendor_id", "app_product_id", "developer_id", "app_name", "app_key"),
    *("last_error", "last_error_at", "full_synced_at", "lists"),
]


def disconnect(connection: Connection, now: datetime) -> Connection:
    """Stop syncing and delete the stored token; imported traits stay. Again changes nothing."""
    with transaction.atomic():
        locked = Connection.objects.select_for_update().get(pk=connection.pk)
        if locked.state == Connection.State.DISCONNECTED:
            return locked
        locked.state = Connection.State.DISCONNECTED
        locked.state_reason = ""
        locked.state_changed_at = now
        locked.generation += 1
        locked.api_token = None
        # Whoever connects again begins with all licenses.
        locked.full_synced_at = None
        locked.save(update_fields=_REMOVED)
        runs.stop_unfinished(locked, "The product was disconnected.", now)
    return locked


_REMOVED = [
    *("state", "state_reason", "state_changed_at", "generation", "api_token", "full_synced_at"),
]


def _locked(product: Product) -> Connection | None:
    return Connection.objects.select_for_update().filter(product=product).first()
