"""What a message leads to."""

from collections.abc import Sequence
from typing import Any

from notifications.models import OutboxMessage


def link_of(message: OutboxMessage) -> str:
    """The admin page about the message's subject or product, or empty."""
    data = message.payload["data"]
    subject = data.get(message.scope) if message.scope else data
    link: str = (subject or {}).get("link", "")
    return link


def first_of(message: OutboxMessage) -> Sequence[dict[str, Any]]:
    """The first subjects of a message about many."""
    first: Sequence[dict[str, Any]] = message.payload["data"].get("first", ())
    return first
