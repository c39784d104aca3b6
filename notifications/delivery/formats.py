"""Requests to destinations: a signed webhook, a post to a chat, or an email."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings

from core import trace_context
from core.outbound.addresses import Resolver
from core.outbound.requests import OutboundRequest, Request
from notifications.delivery import emails, signing
from notifications.delivery.links import first_of, link_of
from notifications.digests.content import is_digest
from notifications.digests.rendering import chat_lines
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
        return emails.EmailRequest(destination, messages)
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
            return _slack(messages, destination.site_url)
        case Destination.Kind.TEAMS:
            return _teams(messages, destination.site_url)
    # Tools that read no headers tell messages apart by it.
    return {"id": messages[0].message_id, **messages[0].payload}


# --- Chats ----------------------------------------------------------------------------------

# Senders choose names, and some are long. A chat shows their beginning; a webhook has all.
NAME_LENGTH = 80


def _short(name: str) -> str:
    return name if len(name) <= NAME_LENGTH else f"{name[: NAME_LENGTH - 1]}…"


def _split_title(message: OutboxMessage) -> tuple[str, str]:
    """The name that the title begins with, shortened, and the rest of the title."""
    if message.name and message.title.startswith(message.name):
        return _short(message.name), message.title.removeprefix(message.name)
    return "", message.title


def _fitting(links: Sequence[str], length: int) -> str:
    """As many of the links as fit, and whole ones only."""
    fitting = ""
    for link in links:
        longer = f"{fitting}, {link}" if fitting else link
        if len(longer) > length:
            break
        fitting = longer
    return f"{fitting} …"


# --- Slack ----------------------------------------------------------------------------------

# Slack rejects longer texts.
SLACK_LENGTH = 3000
SLACK_NAMES_LENGTH = 2000


def _slack(messages: Sequence[OutboxMessage], site_url: str) -> dict[str, Any]:
    sections = [""]
    lines = (line for message in messages for line in _slack_lines(message, site_url))
    for line in lines:
        if len(sections[-1]) + len(line) < SLACK_LENGTH:
            sections[-1] += f"\n{line}" if sections[-1] else line
        else:
            sections.append(line)
    return {
        # Notifications and screen readers show this text.
        "text": _slack_escape("".join(_split_title(messages[0]))),
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": section}} for section in sections
        ],
    }


def _slack_lines(message: OutboxMessage, site_url: str) -> Iterator[str]:
    if not is_digest(message):
        yield _slack_line(message)
        return
    yield f"*{_slack_escape(message.title)}*"
    for line in chat_lines(message, site_url):
        name, text = _slack_escape(_short(line.name)), _slack_escape(line.text)
        if name:
            yield f"• <{line.url}|{_slack_label(name)}> {text}"
        else:
            yield f"*{text}*" if line.is_heading else text


def _slack_line(message: OutboxMessage) -> str:
    name, rest = map(_slack_escape, _split_title(message))
    link = link_of(message)
    if link and name:
        title = f"<{link}|{_slack_label(name)}>{rest}"
    else:
        title = f"{name}{rest} <{link}|Open>" if link else f"{name}{rest}"
    links = [
        f"<{subject['link']}|{_slack_label(_slack_escape(_short(subject['name'])))}>"
        for subject in first_of(message)
    ]
    return f"{title}\n{_fitting(links, SLACK_NAMES_LENGTH)}" if links else title


def _slack_escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _slack_label(text: str) -> str:
    # A bar would end the address of a link.
    return text.replace("|", "¦")


# --- Microsoft Teams ------------------------------------------------------------------------

# For the names of all summaries in a post. Teams rejects posts of more than 28 KB.
TEAMS_NAMES_LENGTH = 6000


def _teams(messages: Sequence[OutboxMessage], site_url: str) -> dict[str, Any]:
    """An adaptive card, which the workflow “Post to a channel” takes."""
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "wrap": True, "text": text}
            for message in messages
            for text in _teams_lines(message, TEAMS_NAMES_LENGTH // len(messages), site_url)
        ],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _teams_lines(message: OutboxMessage, names_length: int, site_url: str) -> Iterator[str]:
    if not is_digest(message):
        yield _teams_line(message, names_length)
        return
    yield f"**{_teams_escape(message.title)}**"
    for line in chat_lines(message, site_url):
        name, text = _teams_escape(_short(line.name)), _teams_escape(line.text)
        if name:
            yield f"[{name}]({line.url}) {text}"
        else:
            yield f"**{text}**" if line.is_heading else text


def _teams_line(message: OutboxMessage, names_length: int) -> str:
    link = link_of(message)
    title = _teams_escape("".join(_split_title(message)))
    if link:
        title = f"{title} [Open]({link})"
    links = [
        f"[{_teams_escape(_short(each['name']))}]({each['link']})" for each in first_of(message)
    ]
    return f"{title}\n\n{_fitting(links, names_length)}" if links else title


def _teams_escape(text: str) -> str:
    for char in "\\[]()*_`":
        text = text.replace(char, f"\\{char}")
    return text
