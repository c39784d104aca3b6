"""Hooks: tools of automation add and remove webhooks. What they do is in ``notifications.hooks``,
which the addresses pass in: apps do not import each other."""

from typing import Any, ClassVar

import msgspec
from django.core.exceptions import ValidationError
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from access.logins.security_log import client_address
from access.trail import entries
from readapi import parameters
from readapi.authentication import HookTokenAuthentication
from readapi.errors import InvalidRequest
from readapi.models import ApiToken
from readapi.throttling import TokenRateThrottle
from readapi.views.base import JsonView

INVALID = "invalid_parameter"


class HookView(JsonView):
    """A view for tokens that manage hooks."""

    authentication_classes = [HookTokenAuthentication]
    throttle_classes = [TokenRateThrottle]
    hooks: Any = None
    # All query parameters that the endpoint accepts.
    PARAMETERS: ClassVar[tuple[str, ...]] = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        assert isinstance(request.auth, ApiToken)
        self.token = request.auth
        address = entries.storable_address(client_address(request._request))
        self.actor = entries.Actor(None, f"hook token {self.token.name}", address)
        self.query = parameters.parse(request.META["QUERY_STRING"])
        accepted = self.PARAMETERS if request.method == "GET" else ()
        parameters.require_known(self.query, accepted)


class HookList(HookView):
    """The hooks of the product."""

    PARAMETERS = ("target_url",)

    def get(self, request: Request) -> Response:
        target_url = self.query.get("target_url", "")
        return Response({"data": self.hooks.list_hooks(self.token.product_id, target_url)})

    def post(self, request: Request) -> Response:
        try:
            body = msgspec.json.decode(request._request.body, type=self.hooks.HookBody)
        except msgspec.DecodeError as error:
            # It names fields and types, and no values.
            raise InvalidRequest("invalid_body", f"{error}.") from None
        try:
            hook = self.hooks.subscribe(
                self.token.product,
                body,
                self.token.workspace_ids,
                request._request.build_absolute_uri("/").rstrip("/"),
                self.actor,
                timezone.now(),
            )
        except ValidationError as error:
            raise _invalid(error) from None
        return Response(hook, status=201)


class HookDetail(HookView):
    """One hook."""

    def delete(self, request: Request, hook_id: int) -> Response:
        self.hooks.unsubscribe(self.token.product_id, hook_id, self.actor)
        return Response(status=204)


class HookSamples(HookView):
    """Messages to build on."""

    PARAMETERS = ("event",)

    def get(self, request: Request) -> Response:
        try:
            return Response(self.hooks.sample_messages(self.query.get("event", "")))
        except ValidationError as error:
            raise _invalid(error) from None


def _invalid(error: ValidationError) -> InvalidRequest:
    ((field, messages),) = error.message_dict.items()
    return InvalidRequest(INVALID, messages[0], field)
