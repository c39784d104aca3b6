"""The Model Context Protocol, by its official package.

Importing the package takes more than a second and 27 MB, so only ``load_protocol`` imports this.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from readapi.mcp import event_loop
from readapi.mcp.event_loop import RunOutside

Json = dict[str, Any]
# What every client of the protocol must send, and some tools for trying it out do not.
_ASSUMED_HEADERS = [
    (b"content-type", b"application/json"),
    (b"accept", b"application/json, text/event-stream"),
]


class ToolServer(NamedTuple):
    """What the server says about itself, its tools as JSON, and how to call one.

    ``call`` gets a name of the tools and the arguments, and returns the result as JSON.
    """

    name: str
    title: str
    instructions: str
    tools: Sequence[Json]
    call: Callable[[str, Mapping[str, Any]], Json]


class Reply(NamedTuple):
    status: int
    body: bytes


def reply(tool_server: ToolServer, headers: Mapping[str, str], body: bytes) -> Reply:
    """The reply to a POST with the body, and with those of its headers that are the protocol's."""
    return event_loop.run(partial(_reply, tool_server, headers, body))


async def _reply(
    tool_server: ToolServer, headers: Mapping[str, str], body: bytes, run_outside: RunOutside
) -> Reply:
    # Without sessions and streams: nothing is left when the reply is complete.
    manager = StreamableHTTPSessionManager(
        _server(tool_server, run_outside), json_response=True, stateless=True
    )
    scope: Json = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "query_string": b"",
        "headers": _ASSUMED_HEADERS + [_as_bytes(*header) for header in headers.items()],
    }
    waiting: list[Json] = [{"type": "http.request", "body": body, "more_body": False}]
    messages: list[Any] = []

    async def receive() -> Json:
        if not waiting:
            # For the client to leave, which only streams do.
            await anyio.sleep_forever()
        return waiting.pop()

    async def send(message: Any) -> None:
        messages.append(message)

    async with manager.run():
        await manager.handle_request(scope, receive, send)
    start, *rest = messages
    return Reply(int(start["status"]), b"".join(part["body"] for part in rest))


def _as_bytes(name: str, value: str) -> tuple[bytes, bytes]:
    return name.lower().encode(), value.encode("latin-1", "replace")


def _server(tool_server: ToolServer, run_outside: RunOutside) -> Server[Any]:
    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult.model_validate({"tools": tool_server.tools})

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        names = [tool["name"] for tool in tool_server.tools]
        if params.name not in names:
            message = f"Unknown tool. The tools are: {', '.join(names)}."
            raise MCPError(types.INVALID_PARAMS, message)
        call = partial(tool_server.call, params.name, params.arguments or {})
        return types.CallToolResult.model_validate(await run_outside(call))

    server: Server[Any] = Server(
        tool_server.name,
        title=tool_server.title,
        version="2",
        instructions=tool_server.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    # It would send a trace of each message. The service's own traces say what it does.
    server.middleware.clear()
    return server
