"""Who is asking: the bearer token of a request."""

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
# A token's last use is for people to look at; a minute is exact enough.
LAST_USED_PRECISION = timedelta(minutes=1)

TOKEN_MISSING = "Send a read token as `Authorization: Bearer eds_…`."
TOKEN_UNKNOWN = "This read token is unknown or has been revoked."


class BearerTokenAuthentication(BaseAuthentication):
    """Finds the live token that a request carries; ``request.auth`` is then that ApiToken."""

    def authenticate(self, request: Request) -> tuple[None, ApiToken]:
        secret = _bearer(request.META.get("HTTP_AUTHORIZATION", ""))
        try:
            token = get_live_token(secret)
        except AuthenticationFailed:
            _log_refusal(request, secret)
            raise
        record_use(token, timezone.now())
        return None, token

    def authenticate_header(self, request: Request) -> str:
        return SCHEME


def get_live_token(secret: str) -> ApiToken:
    """The token, with its product; AuthenticationFailed where it is no live token of ours."""
    if not credentials.is_well_formed(secret, ApiToken.PREFIX):
        raise AuthenticationFailed(TOKEN_UNKNOWN)
    # Named columns, so that nothing decrypts the stored secret.
    live = ApiToken.objects.filter(revoked_at=None).select_related("product")
    live = live.only("last_used_at", "product__name")
    try:
        return live.get(digest=credentials.digest(secret))
    except ApiToken.DoesNotExist:
        raise AuthenticationFailed(TOKEN_UNKNOWN) from None


def record_use(token: ApiToken, now: datetime) -> None:
    """Remember that the token was used, at most once a minute however many requests it makes."""
    due = now - LAST_USED_PRECISION
    if token.last_used_at is None or token.last_used_at < due:
        unnoted = Q(last_used_at=None) | Q(last_used_at__lt=due)
        ApiToken.objects.filter(unnoted, pk=token.pk).update(last_used_at=now)


def _log_refusal(request: Request, secret: str) -> None:
    """Say whose address a token came from, and which one it was where it is a revoked one."""
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
