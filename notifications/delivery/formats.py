"""Requests to destinations: a signed webhook, a post to a chat, or an email."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.conf import settings

from engagement.core import trace_context
from engagement.outbound.addresses import Resolver
from engagement.outbound.requests import OutboundRequest, Request
from notifications.delivery import emails, signing
from notifications.delivery.links import first_of, link_of
from notifications.models import Destination, OutboxMessage

# Messages in one request. Programs get them one by one.
BATCH_SIZES = {
    Destination.Kind.WEBHOOK: 1,
    Destination.Kind.SLACK: 20,
    Destination.Kind.TEAMS: 20,
    Destination.Kind.EMAIL: 200,
}


def batch_size(destination: Destination) -> int:
    return BATCH_SIZES[Destination.Kind(destination.kind)]


def build_request(
    destination: Destination,
    messages: Sequence[OutboxMessage],
    now: datetime,
    resolve: Resolver | None = None,
    traceparent: str | None = None,
) -> Request:
    """The request that delivers the messages. A webhook learns their trace."""
    if destination.kind == Destination.Kind.EMAIL:
        return emails.EmailRequest(destination.address, destination.product.name, messages)
    content = request_content(destination, messages)
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/json", "User-Agent": settings.USER_AGENT}
    if destination.kind == Destination.Kind.WEBHOOK:
        message_id = messages[0].message_id
        if traceparent:
            headers[trace_context.HEADER] = traceparent
        headers |= signing.signed_headers(destination.secret_list(), message_id, now, body)
    return OutboundRequest(destination.address, body, headers, resolve)


def request_content(destination: Destination, messages: Sequence[OutboxMessage]) -> Any:
    """What the request's body says, before it is encoded."""
    match destination.kind:
        case Destination.Kind.SLACK:
            return _slack(messages)
        case Destination.Kind.TEAMS:
            return _teams(messages)
    return messages[0].payload


# --- Slack ----------------------------------------------------------------------------------

# Slack rejects longer texts.
SLACK_LENGTH = 3000


def _slack(messages: Sequence[OutboxMessage]) -> dict[str, Any]:
    lines = [_slack_line(message) for message in messages]
    section = {"type": "mrkdwn", "text": "\n".join(lines)[:SLACK_LENGTH]}
    return {
        # Notifications and screen readers show this text.
        "text": _slack_escape(messages[0].title)[:SLACK_LENGTH],
        "blocks": [{"type": "section", "text": section}],
    }


def _slack_line(message: OutboxMessage) -> str:
    title, name, link = _slack_escape(message.title), _slack_escape(message.name), link_of(message)
    if link and name and title.startswith(name):
        title = f"<{link}|{_slack_label(name)}>{title.removeprefix(name)}"
    elif link:
        title = f"{title} <{link}|Open>"
    links = [
        f"<{subject['link']}|{_slack_label(_slack_escape(subject['name']))}>"
        for subject in first_of(message)
    ]
    return f"{title}\n{', '.join(links)} …" if links else title


def _slack_escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _slack_label(text: str) -> str:
    # A bar would end the address of a link.
    return text.replace("|", "¦")


# --- Microsoft Teams ------------------------------------------------------------------------


def _teams(messages: Sequence[OutboxMessage]) -> dict[str, Any]:
    """An adaptive card, which the workflow “Post to a channel” takes."""
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "wrap": True, "text": _teams_line(message)}
            for message in messages
        ],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _teams_line(message: OutboxMessage) -> str:
    link = link_of(message)
    title = _teams_escape(message.title)
    if link:
        title = f"{title} [Open]({link})"
    links = [f"[{_teams_escape(each['name'])}]({each['link']})" for each in first_of(message)]
    return f"{title}\n\n{', '.join(links)} …" if links else title


def _teams_escape(text: str) -> str:
    for char in "\\[]()*_`":
        text = text.replace(char, f"\\{char}")
    return text
