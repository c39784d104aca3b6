"""RudderStack's SDKs for languages and platforms that do not run here."""

import base64
from typing import Any
from uuid import uuid4

from tests.clients.recordings.segment import JSON, JSON_UTF8, library
from tests.clients.recordings.story import (
    PREFIX,
    Message,
    Recording,
    Request,
    Story,
    basic,
    local_milliseconds,
    milliseconds,
    nanoseconds,
    post,
    seconds,
    ticks,
)

SOURCE_CONFIG = f"{PREFIX}/sourceConfig"


# --- Servers --------------------------------------------------------------------------------


def go(story: Story) -> list[Request]:
    common = {
        "anonymousId": story.user,
        "timestamp": nanoseconds(story.at),
        "sentAt": nanoseconds(story.sent_at),
        "context": library("analytics-go", "4.0.0"),
        "channel": "server",
    }
    headers = {
        **JSON,
        "User-Agent": "analytics-go (version: 4.0.0)",
        "RS-targetNode": "0",
        "RS-nodeCount": "1",
        "RS-userAgent": "serverSDK",
        "Authorization": basic(story.key),
    }
    body = {"batch": story.calls("page", common)}
    # NewWithConfig(key, "https://eds.example.com/segment", …)
    return [post(f"{PREFIX}/v1/batch", body, headers, use_gzip=True)]


def java(story: Story) -> list[Request]:
    common = {
        "timestamp": milliseconds(story.at),
        "context": library("java-analytics", "3.1.0"),
        "channel": "server",
    }
    body = {
        "batch": story.calls("page", common),
        "sentAt": milliseconds(story.sent_at),
        "context": library("java-analytics", "3.1.0"),
        "sequence": 1,
    }
    headers = {**JSON_UTF8, "User-Agent": "analytics-java/3.1.0"}
    headers["Authorization"] = basic(story.key)
    # setDataPlaneUrl("https://eds.example.com/segment")
    return [post(f"{PREFIX}/v1/batch", body, headers, use_gzip=True)]


def ruby(story: Story) -> list[Request]:
    common = {
        "context": library("rudderanalytics-ruby", "3.2.1"),
        "integrations": {"All": True},
        "timestamp": local_milliseconds(story.at),
        # Each message has the time of its call.
        "sentAt": milliseconds(story.sent_at),
        "channel": "server",
    }

    def shape(message: Message) -> Message:
        match message["type"]:
            case "identify":
                traits = message.pop("traits")
                return {**message, "context": {**message["context"], "traits": traits}}
            case "page":
                name = message["name"]
                return {**message, "event": name, "properties": {"name": name}}
        return message

    body = {"batch": story.calls("page", common, shape)}
    headers = {**JSON, "Accept": "application/json", "User-Agent": "Ruby"}
    headers["Authorization"] = basic(story.key)
    # data_plane_url: "https://eds.example.com". It drops a path.
    return [post("/v1/batch", body, headers, use_gzip=True)]


def php_body(story: Story, consumer: str) -> Message:
    common = {
        "context": library("rudder-analytics-php", "2.0.1", consumer=consumer),
        "timestamp": seconds(story.at),
        "integrations": [],
    }
    return {"batch": story.calls("page", common), "sentAt": seconds(story.sent_at)}


def php_lib_curl(story: Story) -> list[Request]:
    headers = {**JSON, "User-Agent": "rudder-analytics-php/2.0.1"}
    headers["Authorization"] = basic(story.key)
    # 'data_plane_url' => 'eds.example.com/segment'
    return [post(f"{PREFIX}/v1/batch", php_body(story, "LibCurl"), headers, use_gzip=True)]


def php_socket(story: Story) -> list[Request]:
    headers = {**JSON, "Authorization": basic(story.key), "Accept": "application/json"}
    headers["User-Agent"] = "rudder-analytics-php/2.0.1"
    # 'data_plane_url' => 'eds.example.com'. The path is fixed.
    return [post("/v1/batch", php_body(story, "Socket"), headers)]


def dotnet(story: Story) -> list[Request]:
    common = {
        "channel": "server",
        "timestamp": ticks(story.at),
        # The time of the call. The caller's own time is in timestamp.
        "originalTimestamp": ticks(story.sent_at),
        "context": library("RudderAnalytics", "2.0.1"),
        "integrations": None,
        "anonymousId": None,
        "sentAt": None,
    }
    body = {
        "WriteKey": story.key,
        "messageId": str(uuid4()),
        "sentAt": ticks(story.sent_at),
        "batch": story.calls("page", common),
    }
    headers = {**JSON, "User-Agent": "rudder-sdk-.net/2.0.1", "Authorization": basic(story.key)}
    # new RudderConfig(dataPlaneUrl: "https://eds.example.com/segment")
    return [post(f"{PREFIX}/v1/batch", body, headers, use_gzip=True)]


# --- Apps -----------------------------------------------------------------------------------


def app_body(story: Story, context: Message) -> Message:
    """Each message has the time of sending, and repeats what is known about the user."""
    anonymous_id = str(uuid4())
    traits = {"anonymousId": anonymous_id, "id": story.user, "userId": story.user}
    common: dict[str, Any] = {
        "channel": "mobile",
        "context": {**context, "traits": {**traits, "email": "ada@example.com", "seats": 3}},
        "originalTimestamp": milliseconds(story.at),
        "anonymousId": anonymous_id,
        "integrations": {"All": True},
        "sentAt": milliseconds(story.sent_at),
    }

    def shape(message: Message) -> Message:
        match message["type"]:
            case "identify":
                del message["traits"]
                return {**message, "event": "identify"}
            case "screen":
                name = message.pop("name")
                return {**message, "event": name, "properties": {"name": name}}
        return message

    return {"sentAt": milliseconds(story.sent_at), "batch": story.calls("screen", common, shape)}


def app_headers(story: Story, content_type: str) -> dict[str, str]:
    # Neither sends anything for a source that is not enabled.
    assert story.settings["source"]["enabled"] is True
    anonymous_id = base64.b64encode(str(uuid4()).encode()).decode()
    authorization = {"Authorization": basic(story.key), "AnonymousId": anonymous_id}
    return {**authorization, "Content-Type": content_type}


def android(story: Story) -> list[Request]:
    body = app_body(story, library("com.rudderstack.android.sdk.core", "1.23.3"))
    headers = app_headers(story, "application/json")
    return [post(f"{PREFIX}/v1/batch", body, headers, use_gzip=True)]


def ios(story: Story) -> list[Request]:
    body = app_body(story, library("rudder-ios-library", "1.10.0"))
    return [post(f"{PREFIX}/v1/batch", body, app_headers(story, "Application/json"))]


RECORDINGS = [
    Recording("RudderStack Go", "4.0.0", "rudderlabs/analytics-go@6cd3a9d1", go, "page"),
    Recording("RudderStack Java", "3.1.0", "rudderlabs/rudder-sdk-java@11187c17", java, "page"),
    Recording("RudderStack Ruby", "3.2.1", "rudderlabs/rudder-sdk-ruby@27857aac", ruby, "page"),
    Recording(
        "RudderStack PHP, LibCurl",
        "2.0.1",
        "rudderlabs/rudder-php-sdk@28b47f3a",
        php_lib_curl,
        "page",
        has_numeric_ids=True,
    ),
    Recording(
        "RudderStack PHP, socket",
        "2.0.1",
        "rudderlabs/rudder-php-sdk@73508bf3",
        php_socket,
        "page",
        has_numeric_ids=True,
    ),
    Recording("RudderStack .NET", "2.0.1", "rudderlabs/rudder-sdk-.net@9c3d7060", dotnet, "page"),
    Recording(
        "RudderStack Android",
        "1.23.3",
        "rudderlabs/rudder-sdk-android@14f9c59d",
        android,
        settings_path=f"{SOURCE_CONFIG}?p=android&v=1.23.3&bv=34",
    ),
    Recording(
        "RudderStack iOS",
        "1.10.0",
        "rudderlabs/rudder-sdk-ios@24b04c2d",
        ios,
        settings_path=f"{SOURCE_CONFIG}?p=ios&v=1.10.0",
    ),
]
