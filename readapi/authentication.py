"""Authentication by the bearer token of a request."""

from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from access.logins import security_log
from access.logins.security_log import client_address
from core import credentials
from engagement.models.credentials import CredentialExpired, CredentialUnknown
from readapi import rights
from readapi.errors import Forbidden
from readapi.models import ApiToken

SCHEME = "Bearer"

TOKEN_MISSING = "Send a read token as `Authorization: Bearer eds_…`."
TOKEN_UNKNOWN = "This read token is unknown or has been revoked."
TOKEN_EXPIRED = "This read token has expired. A manager of the product can extend it."


class BearerTokenAuthentication(BaseAuthentication):
    """Sets ``request.auth`` to the live ApiToken that the request carries."""

    for_hooks = False

    def authenticate(self, request: Request) -> tuple[None, ApiToken]:
        return None, authenticate(request._request, self.for_hooks)

    def authenticate_header(self, request: Request) -> str:
        return SCHEME


class HookTokenAuthentication(BearerTokenAuthentication):
    """Sets ``request.auth`` to a token that manages hooks."""

    for_hooks = True


def authenticate(request: HttpRequest, for_hooks: bool = False) -> ApiToken:
    """The live token of the request. Raises AuthenticationFailed, or Forbidden if the token may not
    be used from the client's address, or for this."""
    secret = credentials.bearer(request.META.get("HTTP_AUTHORIZATION", ""))
    if not secret:
        raise AuthenticationFailed(TOKEN_MISSING)
    now, address = timezone.now(), client_address(request)
    try:
        token = _live_token(secret, now)
    except AuthenticationFailed as error:
        _log_rejection(request, secret, error)
        raise
    try:
        rights.require_address(token, address)
    except Forbidden:
        subject = credentials.digest(secret).hex()[:8]
        reason = "not allowed from this address"
        security_log.log_token_rejected(request, reason, subject, lambda: token.pk)
        raise
    rights.require_use(token, for_hooks)
    record_use(token, address, now)
    return token


def carries_read_token(request: HttpRequest) -> bool:
    """Whether the request sends something that looks like a read token."""
    header = request.META.get("HTTP_AUTHORIZATION", "")
    return ApiToken.PREFIX + "_" in header.partition(" ")[2]


def _live_token(secret: str, now: datetime) -> ApiToken:
    """The live token with its product. Raises AuthenticationFailed if there is none."""
    tokens = ApiToken.objects.select_related("product")
    # Only these columns: loading the stored secret would decrypt it.
    tokens = tokens.only("last_used_at", "expires_at", *ApiToken.RIGHTS, "product__name")
    try:
        return ApiToken.find_live(tokens, secret, now)
    except CredentialUnknown:
        raise AuthenticationFailed(TOKEN_UNKNOWN) from None
    except CredentialExpired:
        raise AuthenticationFailed(TOKEN_EXPIRED) from None


def record_use(token: ApiToken, address: str, now: datetime) -> None:
    """Store the time and the address of the token's last use, at most once a minute."""
    token.record_use(now, last_used_from=_storable(address))


def _storable(address: str) -> str | None:
    parsed = rights.parse_address(address)
    return str(parsed) if parsed else None


def _log_rejection(request: HttpRequest, secret: str, error: AuthenticationFailed) -> None:
    """Log the sender's address and, if the token was revoked, which token it was."""
    if credentials.is_well_formed(secret, ApiToken.PREFIX):
        digest = credentials.digest(secret)
        revoked = ApiToken.objects.filter(digest=digest).values_list("pk", flat=True)
        is_expired = str(error.detail) == TOKEN_EXPIRED
        reason, subject = "expired" if is_expired else "unknown or revoked", digest.hex()[:8]
    else:
        revoked = ApiToken.objects.none().values_list("pk", flat=True)
        reason, subject = "not a read token", ""
    security_log.log_token_rejected(request, reason, subject, revoked.first)
