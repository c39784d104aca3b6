"""Connecting a product to a marketplace: checking the details, and each change of state.

Whoever changes a connection's state locks its row and gives it another generation, so a sync that
works with older details finds out and writes nothing more.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from engagement.models import Product
from marketplace.client import App, Client, Credentials
from marketplace.models import Connection

# Makes the client that speaks for these credentials; ``client.connect`` is the real one.
ClientFor: TypeAlias = Callable[[Credentials], Client]

USER_NAME, API_TOKEN, VENDOR_ID, PRODUCT_ID = "user_name", "api_token", "vendor_id", "product_id"


@dataclass(frozen=True)
class Details:
    """The four values as a person entered them. The token does not show itself."""

    user_name: str
    api_token: str = field(repr=False)
    vendor_id: str
    product_id: str


@dataclass(frozen=True)
class Checked:
    """Details that the marketplace has confirmed, and what it said about them."""

    details: Details
    developer_id: str
    app: App


class DetailsRejected(Exception):
    """The details cannot be used. ``field`` is the one concerned, one of the names above, or None
    where it is none of them; ``sentence`` says what happened and what to do."""

    def __init__(self, field: str | None, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field
        self.sentence = sentence


def check(details: Details, client_for: ClientFor) -> Checked:
    """Ask the marketplace whether the details are right; stores nothing.

    Takes the vendor ID as a number or as the address of the vendor management page. Raises
    DetailsRejected.
    """
    raise NotImplementedError


def save(product: Product, checked: Checked, now: datetime) -> Connection:
    """Make the product's connection an active one with these details, and have it sync at once.

    From whatever state it was in; a sync with older details ends. Licenses of another app that
    the product was connected to before are forgotten, their traits stay until they are replaced.
    """
    raise NotImplementedError


def disconnect(connection: Connection, now: datetime) -> Connection:
    """Stop syncing and delete the stored token; imported traits stay. Again changes nothing."""
    raise NotImplementedError


def test(connection: Connection, client_for: ClientFor) -> str:
    """Ask the marketplace with the stored details; a sentence that says that they work.

    Raises DetailsRejected with the sentence that says why not. Changes nothing.
    """
    raise NotImplementedError
