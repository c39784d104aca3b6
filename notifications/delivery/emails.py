"""Notifications as emails."""

import smtplib
import time
from collections.abc import Sequence

from django.core.mail import EmailMessage
from django.template.loader import render_to_string

from core.outbound.requests import ERROR_LENGTH, Result
from notifications.delivery.links import first_of, link_of
from notifications.digests.content import is_digest
from notifications.digests.rendering import build_email
from notifications.models import Delivery, Destination, OutboxMessage

SUBJECT_LENGTH = 150
Outcome = Delivery.Outcome


class EmailRequest:
    """An email about one or more messages, or a digest."""

    def __init__(self, destination: Destination, messages: Sequence[OutboxMessage]) -> None:
        if is_digest(messages[0]):
            self._email: EmailMessage = build_email(destination, messages[0], SUBJECT_LENGTH)
            return
        product, first = destination.product.name, messages[0].title
        subject = first if len(messages) == 1 else f"{product}: {len(messages):,} changes"
        lines = [(message.title, _links(message)) for message in messages]
        body = render_to_string("notifications/email.txt", {"product": product, "lines": lines})
        self._email = plain_email(destination.address, subject, body)

    def run(self) -> Result:
        return send_email(self._email)

    def cut_off(self) -> None:
        """Django's timeouts end the connection."""


def plain_email(address: str, subject: str, body: str) -> EmailMessage:
    """An email of plain text. Line breaks in names do not reach its headers."""
    return EmailMessage(" ".join(subject.split())[:SUBJECT_LENGTH], body, to=[address])


def send_email(email: EmailMessage) -> Result:
    """Send the email. Never raises."""
    started = time.monotonic()
    try:
        email.send()
    except smtplib.SMTPResponseException as error:
        text = f"The mail server refused the email: {error.smtp_code}."
        return _failure(Outcome.REFUSED, text, started)
    except smtplib.SMTPRecipientsRefused:
        return _failure(Outcome.REFUSED, "The mail server refused the recipient.", started)
    except TimeoutError:
        return _failure(Outcome.TIMEOUT, "The mail server did not respond in time.", started)
    except (OSError, smtplib.SMTPException) as error:
        text = f"The mail server cannot be reached ({type(error).__name__})."
        return _failure(Outcome.UNREACHABLE, text, started)
    return Result(Outcome.DELIVERED, seconds=time.monotonic() - started)


def _failure(outcome: Outcome, error: str, started: float) -> Result:
    return Result(outcome, seconds=time.monotonic() - started, error=error[:ERROR_LENGTH])


def _links(message: OutboxMessage) -> list[str]:
    links = [f"{subject['name']}: {subject['link']}" for subject in first_of(message)]
    return links or [link for link in [link_of(message)] if link]
