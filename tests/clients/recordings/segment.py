"""Segment's own SDKs for languages and platforms that do not run here."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

from tests.clients.recordings.story import (
    PREFIX,
    Message,
    Recording,
    Request,
    Story,
    basic,
    local_milliseconds,
    microseconds,
    milliseconds,
    nanoseconds,
    post,
    seconds,
    ticks,
    zoneless,
)

SETTINGS = f"{PREFIX}/v1/projects/{{key}}/settings"
DESTINATION = "Segment.io"
JSON = {"Content-Type": "application/json"}
JSON_UTF8 = {"Content-Type": "application/json; charset=utf-8"}


def library(name: str, version: str, **more: Any) -> Message:
    return {"library": {"name": name, "version": version, **more}}


def upload_url(story: Story) -> str:
    """The address that mobile SDKs make of the host in their settings. They hard-code HTTPS."""
    return f"https://{story.settings['integrations'][DESTINATION]['apiHost']}/b"


# --- Servers --------------------------------------------------------------------------------


def go(story: Story) -> list[Request]:
    body = {
        "messageId": str(uuid4()),
        "sentAt": nanoseconds(story.sent_at),
        "batch": story.calls("page", {"timestamp": nanoseconds(story.at)}),
        "context": library("analytics-go", "3.0.0"),
    }
    headers = {**JSON, "User-Agent": "analytics-go (version: 3.0.0)"}
    # Endpoint: "https://eds.example.com/segment"
    return [post(f"{PREFIX}/v1/batch", body, {**headers, "Authorization": basic(story.key)})]


def java(story: Story) -> list[Request]:
    body = {
        "batch": story.calls("page", {"timestamp": milliseconds(story.at)}),
        "sentAt": milliseconds(story.sent_at),
        "context": library("analytics-java", "3.5.4"),
        "sequence": 1,
        "writeKey": story.key,
    }
    headers = {"Content-Type": "application/json; charset=UTF-8", "Accept-Encoding": "gzip"}
    headers["User-Agent"] = "analytics-java/3.5.4"
    # endpoint("https://eds.example.com/segment/")
    return [post(f"{PREFIX}/v1/import/", body, {**headers, "Authorization": basic(story.key)})]


def ruby(story: Story) -> list[Request]:
    common = {
        "context": library("analytics-ruby", "2.2.3"),
        "timestamp": local_milliseconds(story.at),
    }
    body = {"sentAt": local_milliseconds(story.sent_at), "batch": story.calls("page", common)}
    headers = {**JSON, "Accept": "application/json", "User-Agent": "Ruby"}
    # host: "eds.example.com"
    return [post("/v1/import", body, {**headers, "Authorization": basic(story.key)})]


def php_body(story: Story, consumer: str) -> Message:
    common = {
        "context": library("analytics-php", "3.8.0", consumer=consumer),
        "timestamp": seconds(story.at),
        # json_encode writes an empty array as [], whatever it is meant to be.
        "integrations": [],
    }
    return {"batch": story.calls("page", common), "sentAt": seconds(story.sent_at)}


def php_lib_curl(story: Story) -> list[Request]:
    headers = {**JSON, "User-Agent": "analytics-php/3.8.0", "Authorization": basic(story.key)}
    # 'host' => 'eds.example.com/segment'
    return [post(f"{PREFIX}/v1/batch", php_body(story, "LibCurl"), headers)]


def php_socket(story: Story) -> list[Request]:
    headers = {**JSON, "Authorization": basic(story.key), "Accept": "application/json"}
    headers["User-Agent"] = "analytics-php/3.8.0"
    # 'host' => 'eds.example.com', 'compress_request' => true. The path is fixed.
    return [post("/v1/batch", php_body(story, "Socket"), headers, use_gzip=True)]


# --- Apps -----------------------------------------------------------------------------------


def app_messages(story: Story, context: Message, timestamp: str) -> list[Message]:
    metadata: Message = {"bundled": [], "unbundled": [], "bundledIds": []}
    common = {
        "anonymousId": str(uuid4()),
        "timestamp": timestamp,
        "context": context,
        "integrations": {},
        "_metadata": metadata,
    }

    def shape(message: Message) -> Message:
        # Apps name the category of each screen, and identifies repeat in the context.
        return {**message, "category": ""} if message["type"] == "screen" else message

    return story.calls("screen", common, shape)


def csharp(story: Story) -> list[Request]:
    messages = app_messages(story, library("Analytics-CSharp", "2.3.4"), ticks(story.at))
    body = {"batch": messages, "sentAt": ticks(story.sent_at), "writeKey": story.key}
    headers = {"Accept": "text/plain", "Connection": "close"}
    return [post(upload_url(story), body, headers, use_gzip=True)]


def swift(story: Story) -> list[Request]:
    messages = app_messages(story, library("analytics-swift", "1.1.0"), milliseconds(story.at))
    body = {"batch": messages, "sentAt": milliseconds(story.sent_at), "writeKey": story.key}
    headers = {**JSON_UTF8, "User-Agent": "analytics-ios/1.1.0", "Accept-Encoding": "gzip"}
    return [post(upload_url(story), body, headers)]


def kotlin(story: Story) -> list[Request]:
    # It refuses settings of the destination that do not repeat the key.
    assert isinstance(story.settings["integrations"][DESTINATION]["apiKey"], str)
    messages = app_messages(story, library("analytics-kotlin", "1.13.3"), milliseconds(story.at))
    body = {"batch": messages, "sentAt": milliseconds(story.sent_at), "writeKey": story.key}
    headers = {"User-Agent": "analytics-kotlin/1.13.3", "Content-Type": "text/plain"}
    request = post(upload_url(story), body, headers, use_gzip=True)
    return [request._replace(is_chunked=True)]


def flutter(story: Story) -> list[Request]:
    context = {**library("analytics_flutter", "1.1.10"), "traits": {"email": "ada@example.com"}}
    messages = app_messages(story, context, microseconds(story.at))
    body = {"batch": messages, "sentAt": zoneless(story.sent_at), "writeKey": story.key}
    headers = {**JSON_UTF8, "User-Agent": "analytics-flutter/1.1.10", "Accept-Encoding": "gzip"}
    return [post(upload_url(story), body, headers)]


RECORDINGS = [
    Recording("Segment Go", "3.0.0", "segmentio/analytics-go@00069c0b", go, "page"),
    Recording("Segment Java", "3.5.4", "segmentio/analytics-java@19415ed3", java, "page"),
    Recording(
        "Segment Ruby",
        "2.2.3",
        "segmentio/analytics-ruby@2bba403b",
        ruby,
        "page",
        has_numeric_ids=True,
    ),
    Recording(
        "Segment PHP, LibCurl",
        "3.8.0",
        "segmentio/analytics-php@0ac22027",
        php_lib_curl,
        "page",
        has_numeric_ids=True,
    ),
    Recording(
        "Segment PHP, socket",
        "3.8.0",
        "segmentio/analytics-php@0ac22027",
        php_socket,
        "page",
        has_numeric_ids=True,
    ),
    Recording(
        "Segment C#", "2.3.4", "segmentio/Analytics-CSharp@001b4435", csharp, settings_path=SETTINGS
    ),
    Recording(
        "Segment Swift",
        "1.1.0",
        "segmentio/analytics-swift@0d9ab716",
        swift,
        settings_path=SETTINGS,
    ),
    Recording(
        "Segment Kotlin",
        "1.13.3",
        "segmentio/analytics-kotlin@13113773",
        kotlin,
        settings_path=SETTINGS,
    ),
    Recording(
        "Segment Flutter",
        "1.1.10",
        "segmentio/analytics_flutter@22085907",
        flutter,
        settings_path=SETTINGS,
        # It writes the time of sending without its zone, so nobody can correct its clock.
        clock_ahead=timedelta(),
    ),
]
