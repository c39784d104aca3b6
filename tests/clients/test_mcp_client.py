"""The official client of the Model Context Protocol uses the tools of a running service."""

import json
from typing import Any

import anyio
import httpx2
import pytest
import requests

from tests.clients.service import Service


@pytest.fixture
def scored(service: Service, prefix: str) -> str:
    """The ID of a user who is scored."""
    user = f"{prefix}ada"
    headers = {"Authorization": f"Basic {service.key}"}
    for event in ("Report_Created", "Dashboard_Viewed"):
        message = {"userId": user, "event": event}
        requests.post(f"{service.address}/v2/track", json=message, headers=headers, timeout=10)
    identify: dict[str, Any] = {
        "userId": user,
        "groupId": f"{prefix}initech",
        "traits": {"name": "Ada Lovelace"},
    }
    requests.post(f"{service.address}/v2/identify", json=identify, headers=headers, timeout=10)
    service.read_counted("user", user, {"Report_Created": 1, "Dashboard_Viewed": 1})
    return user


def client_of(service: Service, http: httpx2.AsyncClient, mode: str = "auto") -> Any:
    # Importing it takes half a second, which every process that collects tests would spend.
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    return Client(streamable_http_client(f"{service.address}/mcp", http_client=http), mode=mode)


async def use(service: Service, user: str, mode: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {service.read_token}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        client_of(service, http, mode) as client,
    ):
        listed = await client.list_tools()
        matches = await client.call_tool("find_users", {"tracking_id": user})
        [row] = _content(matches)["data"]
        explained = await client.call_tool("explain_user", {"user_id": row["id"]})
        health = await client.call_tool("get_health", {})
        error = await client.call_tool("explain_user", {"user_id": 0})
        return {
            "version": client.protocol_version,
            "server": client.server_info and client.server_info.name,
            "tools": {tool.name for tool in listed.tools},
            "name": row["name"],
            "events": {event["name"] for event in _content(explained)["data"]["events"]},
            "recorded": _content(health)["ingestion"]["recorded"],
            "error": error.is_error and getattr(error.content[0], "text", None),
        }


def _content(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    content: dict[str, Any] = result.structured_content
    assert json.loads(result.content[0].text) == content
    return content


# The first needs no handshake, and the second begins with one, as older clients do.
@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_official_client_finds_and_explains(
    mode: str, version: str, service: Service, scored: str
) -> None:
    answers = anyio.run(use, service, scored, mode)
    assert answers["version"] == version
    assert answers["server"] == "engagement-data-service"
    assert {"find_accounts", "explain_user", "who_moved", "get_health"} <= answers["tools"]
    assert answers["name"] == "Ada Lovelace"
    assert answers["events"] == {"Report_Created", "Dashboard_Viewed"}
    assert answers["recorded"] >= 3
    assert answers["error"] == "user_id: user_id must be a positive integer."


def test_a_wrong_token_is_refused(service: Service) -> None:
    async def connect() -> None:
        headers = {"Authorization": "Bearer eds_unknown"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            client_of(service, http),
        ):
            pass

    with pytest.raises(BaseExceptionGroup):
        anyio.run(connect)
