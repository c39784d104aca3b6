"""What SDKs load before they send makes them send here, and says nothing about keys.

What each SDK reads was looked up in its source: analytics-kotlin, analytics-swift,
analytics-react-native, analytics_flutter, Analytics-CSharp, and analytics-next by Segment, and
RudderStack's SDKs for JavaScript, Android, and iOS.
"""

from typing import Any

from django.conf import LazySettings
from django.test import Client

from tests.cases import each

SETTINGS = "/segment/v1/projects/{}/settings"
SETTINGS_AT_ROOT = "/v1/projects/{}/settings"
SOURCE_CONFIG = [
    "/sourceConfig",
    "/sourceConfig/",
    "/segment/sourceConfig",
    "/segment/sourceConfig/",
]
QUERY = "?p=npm&v=3.34.1&build=modern&writeKey=edk_one&lockIntegrationsVersion=false"
KEYS = ["edk_one", "edk_another", "unknown", "%C3%A9", "a%20b"]


def destination(client: Client, path: str, **headers: Any) -> dict[str, str]:
    """The settings of the only destination."""
    response = client.get(path, **headers)
    assert response.status_code == 200
    ((name, settings),) = response.json()["integrations"].items()
    assert name == "Segment.io"
    return dict(settings)


@each("path", [SETTINGS, SETTINGS_AT_ROOT])
def test_sdks_send_to_the_host_that_they_called(path: str, client: Client) -> None:
    prefix = path.partition("/projects")[0]
    for host in ("localhost", "127.0.0.1:8000", "[::1]:8000"):
        settings = destination(client, path.format("edk_one"), HTTP_HOST=host)
        assert settings == {"apiKey": "edk_one", "apiHost": host + prefix, "protocol": "http"}
        # Kotlin, Swift, React Native, Flutter, and C# add /b; the SDK for pages adds /t and others.
        for name in ("b", "t"):
            assert client.options(f"{prefix}/{name}").status_code == 200


def test_behind_a_proxy_sdks_send_by_https(client: Client, settings: LazySettings) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.ALLOWED_HOSTS = ["eds.example.com"]
    proxied = {"HTTP_HOST": "eds.example.com", "HTTP_X_FORWARDED_PROTO": "https"}
    assert destination(client, SETTINGS.format("edk_one"), **proxied) == {
        "apiKey": "edk_one",
        "apiHost": "eds.example.com/segment/v1",
        "protocol": "https",
    }


def test_no_header_sends_sdks_elsewhere(client: Client) -> None:
    path = SETTINGS.format("edk_one")
    response = client.get(path, HTTP_HOST="evil.example.com")
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_host"
    forwarded = {"HTTP_X_FORWARDED_HOST": "evil.example.com", "HTTP_X_FORWARDED_PROTO": "https"}
    expected = destination(client, path, HTTP_HOST="localhost")
    assert destination(client, path, HTTP_HOST="localhost", **forwarded) == expected


@each("path", [SETTINGS, SETTINGS_AT_ROOT])
def test_the_settings_are_the_same_for_every_key(path: str, client: Client) -> None:
    # This test has no access to the database.
    answers = []
    for key in KEYS:
        for address in (path.format(key), path.format(key) + "/"):
            response = client.get(address)
            body = response.json()
            assert response.status_code == 200
            body["integrations"]["Segment.io"].pop("apiKey")
            answers.append(
                (
                    body,
                    {
                        name: response[name]
                        for name in ("Cache-Control", "Vary")
                        if name in response
                    },
                )
            )
    assert all(answer == answers[0] for answer in answers)
    assert answers[0][1]["Cache-Control"] == "max-age=300"


def test_the_settings_turn_nothing_else_on(client: Client) -> None:
    settings = client.get(SETTINGS.format("edk_one")).json()
    # The SDK for pages loads further scripts for tracking plans, filters, and destinations.
    assert settings.pop("plan") == {}
    assert settings.pop("metrics") == {"sampleRate": 0}
    assert settings.keys() == {"integrations"}


@each("path", SOURCE_CONFIG)
def test_rudderstack_sdks_start(path: str, client: Client) -> None:
    response = client.get(path + QUERY, HTTP_AUTHORIZATION="Basic ZWRrX29uZTo=")
    assert response.status_code == 200
    assert response.json() == client.get(path).json()
    source = response.json()["source"]
    assert source["enabled"] is True
    assert source["destinations"] == []
    assert not source["config"]["statsCollection"]["errors"]["enabled"]
    assert not source["config"]["statsCollection"]["metrics"]["enabled"]
    texts = ("id", "name", "writeKey", "workspaceId", "updatedAt")
    assert all(isinstance(source[name], str) for name in texts)


@each("path", [SETTINGS.format("edk_one"), *SOURCE_CONFIG])
def test_pages_of_any_origin_may_load_them(path: str, client: Client) -> None:
    preflight = client.options(
        path,
        HTTP_ORIGIN="https://app.example.com",
        HTTP_ACCESS_CONTROL_REQUEST_METHOD="GET",
        HTTP_ACCESS_CONTROL_REQUEST_HEADERS="authorization",
    )
    assert preflight["Access-Control-Allow-Methods"] == "GET"
    assert "Authorization" in preflight["Access-Control-Allow-Headers"]
    for response in (preflight, client.get(path), client.post(path)):
        assert response["Access-Control-Allow-Origin"] == "*"
    refusal = client.post(path)
    assert (refusal.status_code, refusal["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert refusal.json()["error"]["message"].endswith("Use GET.")
    assert client.head(path).status_code == 200
