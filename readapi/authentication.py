"""Authentication by the bearer token of a request."""

from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from engagement.core import credentials
from engagement.logins import security_log
from readapi.models import ApiToken

SCHEME = "Bearer"
# People look at a token's last use. A minute is exact enough.
LAST_USED_PRECISION = timedelta(minutes=1)

TOKEN_MISSING = "Send a read token as `Authorization: Bearer eds_…`."
TOKEN_UNKNOWN = "This read token is unknown or has been revoked."


class BearerTokenAuthentication(BaseAuthentication):
    """Sets ``request.auth`` to the live ApiToken that the request carries."""

    def authenticate(self, request: Request) -> tuple[None, ApiToken]:
        secret = _bearer(request.META.get("HTTP_AUTHORIZATION", ""))
        try:
            token = get_live_token(secret)
        except AuthenticationFailed:
            _log_rejection(request, secret)
            raise
        record_use(token, timezone.now())
        return None, token

    def authenticate_header(self, request: Request) -> str:
        return SCHEME


def get_live_token(secret: str) -> ApiToken:
    """The live token with its product. Raises AuthenticationFailed if there is none."""
    if not credentials.is_well_formed(secret, ApiToken.PREFIX):
        raise AuthenticationFailed(TOKEN_UNKNOWN)
    tokens = ApiToken.objects.filter(revoked_at=None).select_related("product")
    # Only these columns: loading the stored secret would decrypt it.
    tokens = tokens.only("last_used_at", "product__name")
    try:
        return tokens.get(digest=credentials.digest(secret))
    except ApiToken.DoesNotExist:
        raise AuthenticationFailed(TOKEN_UNKNOWN) from None


def record_use(token: ApiToken, now: datetime) -> None:
    """Store the time of the token's last use, at most once a minute."""
    outdated_before = now - LAST_USED_PRECISION
    if token.last_used_at is None or token.last_used_at < outdated_before:
        is_outdated = Q(last_used_at=None) | Q(last_used_at__lt=outdated_before)
        ApiToken.objects.filter(is_outdated, pk=token.pk).update(last_used_at=now)


def _log_rejection(request: Request, secret: str) -> None:
    """Log the sender's address and, if the token was revoked, which token it was."""
    if credentials.is_well_formed(secret, ApiToken.PREFIX):
        digest = credentials.digest(secret)
        revoked = ApiToken.objects.filter(digest=digest).values_list("pk", flat=True)
        reason, subject = "unknown or revoked", digest.hex()[:8]
    else:
        revoked = ApiToken.objects.none().values_list("pk", flat=True)
        reason, subject = "not a read token", ""
    security_log.log_token_rejected(request._request, reason, subject, revoked.first)


def _bearer(header: str) -> str:
    scheme, _, secret = header.strip().partition(" ")
    if scheme.lower() != SCHEME.lower() or not secret.strip():
        raise AuthenticationFailed(TOKEN_MISSING)
    return secret.strip()
