"""Failures of the marketplace, by what they mean for the caller.

Their messages never quote the marketplace or the network, which keeps secrets out of logs and
pages.
"""


class MarketplaceError(Exception):
    """A request to the marketplace failed."""


class CredentialsRejected(MarketplaceError):
    """401: the user name or the token is wrong, or the token has expired. Do not retry."""


class MarketplaceForbidden(MarketplaceError):
    """403: the account lacks the permission."""


class MarketplaceNotFound(MarketplaceError):
    """404 or 410: the resource does not exist."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the marketplace returned {status}")
        self.status = status


class MarketplaceBadRequest(MarketplaceError):
    """400: the marketplace rejects a parameter."""


class MarketplaceUnavailable(MarketplaceError):
    """429, 5xx, or no response: the same request may succeed later, after *retry_after* seconds if
    the marketplace says so. *reason* ends a sentence: "it returned 503". *status* is None without
    a response; *is_late* means that the response took too long."""

    def __init__(
        self,
        reason: str,
        retry_after: float | None = None,
        *,
        status: int | None = None,
        is_late: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.status = status
        self.is_late = is_late

    @property
    def is_overloaded(self) -> bool:
        """Whether the marketplace may be unable to produce this response."""
        return self.is_late or (self.status or 0) >= 500


class UnexpectedResponse(MarketplaceError):
    """A response that cannot be used, such as a web page or one that is too large. *reason* ends a
    sentence: "it is a web page"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ExportFailed(MarketplaceError):
    """The marketplace does not produce an export. *reason* ends a sentence: "it failed"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ExportPending(MarketplaceError):
    """The marketplace is still producing the export."""
