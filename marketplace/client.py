"""HTTP only: the three addresses of the marketplace that the connection reads."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Credentials:
    """Whoever signs in; the token is the password of HTTP Basic and does not show itself."""

    user_name: str
    token: str = field(repr=False)


@dataclass(frozen=True)
class App:
    """One of a vendor's apps. ``product_id`` is what its licenses are reported under."""

    product_id: str
    key: str
    name: str


class Client:
    """Speaks to the marketplace for one set of credentials."""


def connect(credentials: Credentials) -> Client:
    """A client for the marketplace of the setting MARKETPLACE_API_URL, as a page uses it: it
    gives up within seconds."""
    raise NotImplementedError
