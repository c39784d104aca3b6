"""Other products that forward what they collect. Their clocks are servers' clocks."""

from datetime import timedelta
from typing import Any

from tests.clients.recordings.segment import JSON, library
from tests.clients.recordings.story import (
    PREFIX,
    Message,
    Recording,
    Request,
    Story,
    basic,
    milliseconds,
    post,
)

ON_TIME = timedelta()


def posthog(story: Story) -> list[Request]:
    """The destination RudderStack, with a request for each event. It knows no accounts."""
    common = {
        "context": {"app": {"name": "PostHogPlugin"}, "os": {}, "page": {}, "screen": {}}
        | library("web", "1.449.2"),
        "channel": "s2s",
        "originalTimestamp": milliseconds(story.at),
        "anonymousId": "0190f2b1-7e1c",
        "properties": {},
    }
    headers = {**JSON, "Authorization": basic(story.key)}
    sent_at = milliseconds(story.sent_at)
    return [
        post(f"{PREFIX}/v1/batch", {"batch": [message], "sentAt": sent_at}, headers)
        for message in story.calls("page", common)
        if message["type"] != "group"
    ]


def posthog_webhook(story: Story) -> list[Request]:
    """The destination HTTP Webhook, with the bodies that docs/sending-data.md shows."""
    headers = {**JSON, "Authorization": f"Basic {story.key}"}
    context = {"groupId": story.account}
    messages = story.calls("page", {"timestamp": milliseconds(story.at), "context": context})
    return [
        post(PREFIX, message, headers)
        for message in messages
        if message["type"] in ("identify", "track", "page")
    ]


def jitsu_event(story: Story) -> Message:
    """What Jitsu adds to each call. It has corrected the clock."""
    fields: dict[str, Any] = {
        "anonymousId": "d3adb33f",
        "timestamp": milliseconds(story.at),
        "sentAt": milliseconds(story.sent_at),
        "receivedAt": milliseconds(story.sent_at),
        "requestIp": "192.0.2.7",
        "context": {**library("jitsu-js", "1.11.0"), "ip": "192.0.2.7", "page": {}},
        "integrations": {},
    }
    return fields


def jitsu(story: Story) -> list[Request]:
    """The destination Segment, with a request for each call."""
    headers = {"Content-type": "application/json", "Authorization": basic(story.key)}
    return [
        # apiBase: https://eds.example.com/segment/v1
        post(f"{PREFIX}/v1/{message['type']}", message, headers)
        for message in story.calls("page", jitsu_event(story))
    ]


def jitsu_webhook(story: Story) -> list[Request]:
    """The destination Webhook."""
    headers = {**JSON, "Authorization": f"Basic {story.key}"}
    return [post(PREFIX, message, headers) for message in story.calls("page", jitsu_event(story))]


RECORDINGS = [
    Recording(
        "PostHog, RudderStack destination",
        "2025",
        "PostHog/posthog@038b35a1",
        posthog,
        "page",
        clock_ahead=ON_TIME,
        account_traits=None,
    ),
    Recording(
        "PostHog, webhook",
        "2025",
        "PostHog/posthog@038b35a1",
        posthog_webhook,
        "page",
        clock_ahead=ON_TIME,
        account_traits={},
    ),
    Recording(
        "Jitsu, Segment destination",
        "2",
        "jitsucom/jitsu@114ad9be",
        jitsu,
        "page",
        clock_ahead=ON_TIME,
    ),
    Recording(
        "Jitsu, webhook",
        "2",
        "jitsucom/jitsu@114ad9be",
        jitsu_webhook,
        "page",
        clock_ahead=ON_TIME,
    ),
]
