"""The rate limit of a token per minute, across all processes and machines.

Each response says what is left of it, in the headers ``RateLimit-Policy`` and ``RateLimit`` of the
IETF's draft (draft-ietf-httpapi-ratelimit-headers).
"""

import math
from datetime import datetime, timedelta
from typing import LiteralString

from django.conf import settings
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from core.database import sql
from readapi.models import ApiToken

MINUTE = timedelta(minutes=1)

_COUNT: LiteralString = """
    INSERT INTO readapi_usage AS u (token_id, minute, requests)
    VALUES (%(token)s, %(minute)s, 1)
    ON CONFLICT (token_id) DO UPDATE SET
        requests = CASE WHEN u.minute = EXCLUDED.minute THEN u.requests + 1 ELSE 1 END,
        minute = EXCLUDED.minute
    RETURNING requests
"""


class TokenRateThrottle(BaseThrottle):
    """Allows a token ``READ_REQUESTS_PER_MINUTE`` requests in each minute of the clock."""

    def __init__(self) -> None:
        self._now = timezone.now()

    def allow_request(self, request: Request, view: APIView) -> bool:
        limit = settings.READ_REQUESTS_PER_MINUTE
        assert isinstance(request.auth, ApiToken)
        if not limit:
            return True
        requests = count_request(request.auth, self._now)
        view.headers.update(rate_limit_headers(limit, requests, self.wait()))
        return requests <= limit

    def wait(self) -> int:
        """Whole seconds until the next minute begins, at least 1."""
        return seconds_left(self._now)


def rate_limit_headers(limit: int, requests: int, reset_seconds: int) -> dict[str, str]:
    """The policy, and what is left of it after the minute's number of *requests*."""
    remaining = max(0, limit - requests)
    return {
        "RateLimit-Policy": f'"minute";q={limit};w={MINUTE.seconds}',
        "RateLimit": f'"minute";r={remaining};t={reset_seconds}',
    }


def count_request(token: ApiToken, now: datetime) -> int:
    """Count a request of the token and return how many it made in this minute."""
    ((requests,),) = sql.fetch(_COUNT, {"token": token.pk, "minute": _minute(now)})
    return int(requests)


def seconds_left(now: datetime) -> int:
    """Whole seconds until the next minute begins, at least 1."""
    return max(1, math.ceil((_minute(now) + MINUTE - now).total_seconds()))


def _minute(now: datetime) -> datetime:
    return now.replace(second=0, microsecond=0)
