"""The endpoint ``/mcp``."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from engagement.database import sql
from engagement.models import Product
from readapi import replica, rights
from readapi.authentication import BearerTokenAuthentication
from readapi.errors import NOT_FOUND, TOO_SLOW, Forbidden, InvalidRequest, NotFound, NotReady
from readapi.mcp import messages, tools
from readapi.mcp.messages import INVALID_PARAMS, METHOD_NOT_FOUND, Message, RpcError
from readapi.mcp.tools import Call, Json
from readapi.models import ApiToken
from readapi.throttling import TokenRateThrottle
from readapi.views.base import READ_TIMEOUT_SECONDS, JsonView

# Versions whose handshake and tools this is. Clients of later ones fall back to the handshake.
PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
INSTRUCTIONS = (
    "Engagement of a product's accounts (customers) and users. Scores go from 0 to 100. "
    "score_change compares with one lookback ago. Times are UTC."
)
HEALTH_TOOL = {
    "name": "get_health",
    "title": "Health of ingestion and of the marketplace connection",
    "description": "Messages of the last 24 hours by outcome, what waits, and how the marketplace "
    "connection is doing.",
    "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


class McpView(JsonView):
    """Serves a JSON-RPC message. A token sees what it sees in the read API, at the same limit."""

    authentication_classes = [BearerTokenAuthentication]
    throttle_classes = [TokenRateThrottle]
    schema = None
    # What only other apps know. Set where the view is routed.
    report_health: Callable[[Product, datetime], Json] | None = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        assert isinstance(request.auth, ApiToken)
        rights.require_mcp(request.auth)

    def post(self, request: Request) -> Response:
        if not _is_own_origin(request):
            problem = RpcError(messages.INVALID_REQUEST, "Other origins are not allowed.")
            return Response(messages.error(None, problem), status=403)
        try:
            message = messages.decode(request._request.body)
        except RpcError as problem:
            return Response(messages.error(None, problem), status=400)
        if message.id is None:
            # A notification. There is no session that it could change.
            return Response(status=202)
        try:
            value = self._serve(message, request)
        except RpcError as problem:
            return Response(messages.error(message.id, problem))
        return Response(messages.result(message.id, value))

    def _serve(self, message: Message, request: Request) -> Json:
        match message.method:
            case "initialize":
                return _initialize(message.params)
            case "ping":
                return {}
            case "tools/list":
                described = [tool.describe() for tool in tools.TOOLS.values()]
                return {"tools": [*described, *([HEALTH_TOOL] if self.report_health else [])]}
            case "tools/call":
                return self._call(message.params, request)
        raise RpcError(METHOD_NOT_FOUND, "This server has tools only.")

    def _call(self, params: Json, request: Request) -> Json:
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "Give the tool's name, and its arguments as an object.")
        assert isinstance(request.auth, ApiToken)
        product = request.auth.product
        if name == HEALTH_TOOL["name"] and self.report_health is not None:
            return _tool_result(self.report_health(product, timezone.now()))
        call = Call(request._request, request.auth, arguments)
        try:
            return _tool_result(_answer_in_time(name, call))
        except InvalidRequest as error:
            prefix = f"{error.field}: " if error.field else ""
            return _tool_error(prefix + error.message)
        except Forbidden as error:
            return _tool_error(str(error))
        except NotFound as error:
            return _tool_error(str(error) or NOT_FOUND)
        except NotReady as error:
            return _tool_error(str(error))
        except sql.StatementTimeout:
            return _tool_error(TOO_SLOW)


def _answer_in_time(name: str, call: Call) -> Json:
    def answer() -> Any:
        with sql.cancel_after(READ_TIMEOUT_SECONDS):
            return tools.call(name, call)

    body: Json = replica.read_from_replica(answer)
    return body


def _initialize(params: Json) -> Json:
    version = params.get("protocolVersion")
    return {
        "protocolVersion": version if version in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {
            "name": "engagement-data-service",
            "title": "Engagement Data Service",
            "version": "2",
        },
        "instructions": INSTRUCTIONS,
    }


def _tool_result(body: Json) -> Json:
    text = json.dumps(body, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": body}


def _tool_error(message: str) -> Json:
    return {"content": [{"type": "text", "text": message}], "isError": True}


def _is_own_origin(request: Request) -> bool:
    """Whether a page of the service sent the request, or no page. Another site's page must not,
    even under a host name that it lets point to this service."""
    origin = request.META.get("HTTP_ORIGIN")
    return origin is None or urlsplit(origin).netloc == request.get_host()
