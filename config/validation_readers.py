"""Lets a read token see what a validated message would meet in the data of its product."""

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.exceptions import AuthenticationFailed

from engagement.models import Product
from ingestion.errors import IngestionError
from readapi import authentication, rights, throttling
from readapi.errors import Forbidden, rate_limit_message


def product_of_reader(request: HttpRequest) -> Product | None:
    """The product of the request's read token; None if it carries no bearer token.

    Raises IngestionError if the token is not valid, may not read users, accounts, and traits, or
    made too many requests.
    """
    scheme = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")[0]
    if scheme.lower() != authentication.SCHEME.lower():
        return None
    try:
        token = authentication.authenticate(request)
        rights.require_kinds(token, ("account", "user"))
        rights.require_user_traits(token)
    except AuthenticationFailed as error:
        raise IngestionError(401, "invalid_token", str(error.detail)) from None
    except Forbidden as error:
        raise IngestionError(403, error.code, str(error)) from None
    now, limit = timezone.now(), settings.READ_REQUESTS_PER_MINUTE
    if limit and throttling.count_request(token, now) > limit:
        wait = throttling.seconds_left(now)
        raise IngestionError(429, "rate_limited", rate_limit_message(limit), retry_after=wait)
    return token.product
