"""Digests as emails and as posts in chats."""

from collections.abc import Iterator
from typing import NamedTuple

from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.urls import reverse

from notifications.digests.content import Content, content_of
from notifications.digests.links import unsubscribe_path
from notifications.models import Destination, OutboxMessage
from trends.changes.sections import Block, Row, describe

# Of each part. The lists have the others.
ROWS_IN_EMAIL, ROWS_IN_CHAT = 5, 3


class Rendered(NamedTuple):
    """An email's subject, its text, and its HTML."""

    subject: str
    text: str
    html: str


def render(content: Content, site_url: str) -> Rendered:
    block = describe(content.changes, content.places, ROWS_IN_EMAIL)
    context = {
        "content": content,
        "block": block,
        "site": site_url,
        "file": content.places.accounts(page="export"),
        "overview": f"{reverse('admin:index')}?workspace={content.workspace.id}",
        "settings": reverse("admin:notifications_digest_change", args=[content.digest_id]),
        "unsubscribe": unsubscribe_path(content.digest_id),
    }
    return Rendered(
        f"{content.text}: {block.period}",
        render_to_string("notifications/digest.txt", context),
        render_to_string("notifications/digest.html", context),
    )


def build_email(
    destination: Destination, message: OutboxMessage, subject_length: int
) -> EmailMultiAlternatives:
    """With the headers by which mail programs offer one click to unsubscribe (RFC 8058), and an
    id by which they know a repeated one."""
    content = content_of(message)
    rendered = render(content, destination.site_url)
    subject = " ".join(rendered.subject.split())[:subject_length]
    email = EmailMultiAlternatives(subject, rendered.text, to=[destination.address])
    email.attach_alternative(rendered.html, "text/html")
    url = f"{destination.site_url}{unsubscribe_path(content.digest_id)}"
    host = destination.site_url.partition("://")[2] or "localhost"
    email.extra_headers = {
        "List-Unsubscribe": f"<{url}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "Message-ID": f"<{message.message_id}@{host.partition(':')[0]}>",
        "Auto-Submitted": "auto-generated",
    }
    return email


class Line(NamedTuple):
    """A line of a post: a text, or a name with its link and the rest."""

    text: str
    name: str = ""
    url: str = ""
    is_heading: bool = False


def chat_lines(message: OutboxMessage, site_url: str) -> Iterator[Line]:
    content = content_of(message)
    block: Block = describe(content.changes, content.places, ROWS_IN_CHAT)
    yield Line(block.summary)
    for section in block.sections:
        count = "" if section.count is None else f" ({section.count:,})"
        yield Line(f"{section.title}{count}", is_heading=True)
        for row in section.rows:
            yield Line(_facts(row), row.name, f"{site_url}{row.path}")


def _facts(row: Row) -> str:
    score = "" if row.score is None else f"{row.score:.1f}"
    change = f"({row.change})" if row.change else ""
    return " ".join(filter(None, (row.value, score, change, row.text)))
