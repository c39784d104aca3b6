"""``POST /v2/forget``: a program forgets a user or an account, with a key that may do nothing else.

Unlike the doors, it answers after it has looked the key up and erased, because the sender must
know that the erasure took place.
"""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from django.db import Error
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from access.logins.security_log import client_address
from access.trail import entries
from core import credentials
from core.rate_limits import RateLimit
from engagement import tasks
from engagement.models.credentials import CredentialExpired, CredentialUnknown
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from ingestion.cors import CorsView
from ingestion.doors import bodies, field_types, fields
from ingestion.doors.decoding import make_decoder
from ingestion.errors import IngestionError, invalid_field
from ingestion.models import ForgetKey

# Of one key, in one process. Each request locks the product for a moment.
REQUESTS_PER_MINUTE = 120
RETRY_AFTER = 5

KEY_MISSING = "Send a forget key as `Authorization: Bearer edf_…`."
KEY_UNKNOWN = "This forget key is unknown or has been revoked."
KEY_EXPIRED = "This forget key has expired. A manager of the product can extend it."
ONE_OF_TWO = "Send either userId or groupId."

ERASED = ["id", "traits", "scores", "waiting messages"]
ERASING = ["events", "daily counts", "memberships"]

_per_key = RateLimit(REQUESTS_PER_MINUTE)


class ForgetBody(msgspec.Struct, rename="camel"):
    """Names a user or an account."""

    user_id: field_types.UserId = None
    group_id: field_types.GroupId = None
    suppress: Annotated[
        bool, msgspec.Meta(description="Whether later messages that name the id are dropped.")
    ] = False


_decode = make_decoder(ForgetBody)


class ForgetView(CorsView):
    """Forgets a user or an account. No page may call it: a forget key belongs on a server."""

    http_method_names = ["post"]

    @property
    def default_response_headers(self) -> dict[str, str]:
        return {"Cache-Control": "no-store"}

    def post(self, request: Request) -> Response:
        now = timezone.now()
        key = _live_key(request, now)
        if wait := _per_key.wait(key.pk):
            message = f"At most {REQUESTS_PER_MINUTE} requests a minute. Retry in {wait} s."
            raise IngestionError(429, "rate_limited", message, retry_after=wait)
        body = _decode(bodies.read(request, bodies.MAX_SINGLE_BODY_BYTES))
        subject = _subject(key.product_id, body)
        forgetting.forget(subject, now, suppress=body.suppress)
        tasks.request_clearing()
        address = entries.storable_address(client_address(request))
        actor = entries.Actor(None, f"forget key {key.name}", address)
        entries.record_forgotten(actor, subject.scope.value, key.product_id)
        return Response(_answer(subject.scope, body.suppress, now))

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, Error):
            message = f"Nothing was erased. Retry in {RETRY_AFTER} s."
            exc = IngestionError(503, "unavailable", message, retry_after=RETRY_AFTER)
        if isinstance(exc, IngestionError) and exc.status == 401:
            return self.error_response(exc, {"WWW-Authenticate": "Bearer"})
        return super().handle_exception(exc)


def _live_key(request: HttpRequest, now: datetime) -> ForgetKey:
    secret = credentials.bearer(request.META.get("HTTP_AUTHORIZATION", ""))
    if not secret:
        raise IngestionError(401, "invalid_key", KEY_MISSING)
    # Without the stored secret, which would be decrypted.
    keys = ForgetKey.objects.defer("secret").filter(product__deletion_requested_at=None)
    try:
        key = ForgetKey.find_live(keys, secret, now)
    except CredentialUnknown:
        raise IngestionError(401, "invalid_key", KEY_UNKNOWN) from None
    except CredentialExpired:
        raise IngestionError(401, "invalid_key", KEY_EXPIRED) from None
    key.record_use(now)
    return key


def _subject(product_id: int, body: ForgetBody) -> SubjectRef:
    if (body.user_id is None) == (body.group_id is None):
        raise invalid_field("userId", ONE_OF_TWO)
    if body.user_id is not None:
        user_id = fields.required_id(body.user_id, "userId")
        return SubjectRef(product_id, SubjectScope.USER, user_id)
    group_id = fields.required_id(body.group_id, "groupId")
    return SubjectRef(product_id, SubjectScope.ACCOUNT, group_id)


def _answer(scope: SubjectScope, suppress: bool, now: datetime) -> dict[str, Any]:
    """What is erased and when. The same whether there was one, so that a repeat gets it, too."""
    return {
        "status": "forgotten",
        "scope": scope.value,
        "forgottenAt": now,
        "erased": ERASED,
        "erasing": ERASING,
        "erasingWithin": "minutes",
        "suppressed": suppress,
    }
