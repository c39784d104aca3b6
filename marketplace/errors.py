"""What can go wrong with the marketplace, each with what it means for the caller.

Their texts are made here and quote nothing that the marketplace or the network said, so that no
secret gets into a log or onto a page by them.
"""


class MarketplaceError(Exception):
    """A request to the marketplace did not give what was asked for."""


class CredentialsRejected(MarketplaceError):
    """401: a wrong user name or token, or an expired one. Trying again is of no use."""


class MarketplaceForbidden(MarketplaceError):
    """403: signed in, but not permitted."""


class MarketplaceNotFound(MarketplaceError):
    """404 or 410: there is nothing at this address."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the marketplace answered {status}")
        self.status = status


class MarketplaceBadRequest(MarketplaceError):
    """400: the marketplace does not take one of the parameters."""


class MarketplaceUnavailable(MarketplaceError):
    """429, 5xx or no answer: the same request may succeed later, not before *retry_after* seconds
    where the marketplace said so. *reason* is the end of a sentence: "it answered 503"."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class UnexpectedResponse(MarketplaceError):
    """An answer that nobody can read: a web page, a changed shape, one that is too large.
    *reason* is the end of a sentence: "it is a web page"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
