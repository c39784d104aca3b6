"""JSON-RPC messages, as the Model Context Protocol uses them."""

from typing import Any

import msgspec

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602


class RpcError(Exception):
    """The request cannot be served. ``code`` is one of JSON-RPC's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Message(msgspec.Struct):
    """A request, or a notification if it has no ``id``."""

    jsonrpc: str
    method: str = ""
    params: dict[str, Any] = {}
    id: str | int | None = None


def decode(body: bytes) -> Message:
    """The message. Raises RpcError."""
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RpcError(PARSE_ERROR, "The body must be JSON in UTF-8.") from None
    try:
        message = msgspec.convert(content, Message)
    except (msgspec.ValidationError, RecursionError):
        raise RpcError(INVALID_REQUEST, "Send one JSON-RPC message.") from None
    if message.jsonrpc != "2.0":
        raise RpcError(INVALID_REQUEST, 'jsonrpc must be "2.0".')
    return message


def result(id: str | int | None, value: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id: str | int | None, problem: RpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": problem.code, "message": str(problem)}}
