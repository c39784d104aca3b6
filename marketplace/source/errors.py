"""Failures of the marketplace, by what they mean for the caller.

Their messages never quote the marketplace or the network, which keeps secrets out of logs and
pages.
"""


class MarketplaceError(Exception):
    """A request to the marketplace failed. *reason* ends a sentence: "it returned 503". *status* is
    None without a response, or where the class says it."""

    def __init__(self, reason: str = "", *, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.status = reason, status


class CredentialsRejected(MarketplaceError):
    """401: the user name or the token is wrong, or the token has expired. Do not retry."""


class MarketplaceForbidden(MarketplaceError):
    """403: the account lacks the permission."""


class MarketplaceNotFound(MarketplaceError):
    """404 or 410: the resource does not exist."""


class MarketplaceBadRequest(MarketplaceError):
    """400: the marketplace rejects a parameter."""


class MarketplaceUnavailable(MarketplaceError):
    """429, 5xx, or no response: the same request may succeed later, after *retry_after* seconds if
    the marketplace says so. *is_late* means that the response took too long."""

    def __init__(
        self,
        reason: str,
        retry_after: float | None = None,
        *,
        status: int | None = None,
        is_late: bool = False,
    ) -> None:
        super().__init__(reason, status=status)
        self.retry_after = retry_after
        self.is_late = is_late

    @property
    def is_overloaded(self) -> bool:
        """Whether the marketplace may be unable to produce this response."""
        return self.is_late or (self.status or 0) >= 500


class UnexpectedResponse(MarketplaceError):
    """A response that cannot be used, such as a web page or one that is too large."""


class EndlessList(UnexpectedResponse):
    """A list that goes round in a circle, or has more rows than any."""

    def __init__(self) -> None:
        super().__init__("its list does not end")


class ExportFailed(MarketplaceError):
    """The marketplace does not produce an export."""


class ExportPending(MarketplaceError):
    """The marketplace is still producing the export."""
