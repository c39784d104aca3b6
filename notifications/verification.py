"""Verifies destinations: nothing is sent to one before it has shown that it wants it."""

from datetime import datetime

from django.core import signing
from django.db import transaction
from django.urls import reverse

from core.outbound.addresses import Resolver
from core.outbound.requests import Result, send_now
from notifications.delivery import emails, formats, outcomes
from notifications.models import Destination, OutboxMessage, Subscription
from notifications.watching.outbox import draft_test

# A page waits for the response.
TEST_SECONDS = 10.0
CONFIRMATION_DAYS = 7
_SALT = "notifications.confirm"

State = Destination.State


def send_test(pk: int, now: datetime, resolve: Resolver | None = None) -> Result:
    """Send a test message, wait for the response, and log both. Activates the destination if the
    receiver accepts it; of an email address, only its owner does that."""
    destination = Destination.objects.defer(None).select_related("product").get(pk=pk)
    message = draft_test(destination, now)
    if destination.kind == Destination.Kind.EMAIL and destination.state != State.ACTIVE:
        result = _send_confirmation(destination)
    else:
        request = formats.build_request(destination, [message], now, resolve)
        result = send_now(request, TEST_SECONDS)
    _log(message, result, now)
    if result.is_delivered and destination.kind != Destination.Kind.EMAIL:
        activate(pk, now)
    return result


def _log(message: OutboxMessage, result: Result, now: datetime) -> None:
    states = OutboxMessage.State
    message.state = states.DELIVERED if result.is_delivered else states.FAILED
    message.attempts, message.first_attempt_at, message.finished_at = 1, now, now
    with transaction.atomic():
        message.save()
        outcomes.log_attempt([message], result, now)


def activate(pk: int, now: datetime) -> None:
    """Let messages go to the destination. What waits is sent; its subscriptions start now if it was
    never verified before."""
    with transaction.atomic():
        destination = Destination.objects.select_for_update(no_key=True).get(pk=pk)
        if destination.state == State.ACTIVE:
            return
        if destination.state == State.UNVERIFIED:
            destination.verified_at = now
            Subscription.objects.filter(destination=pk).update(started_at=None)
        destination.state, destination.pause_reason = State.ACTIVE, ""
        destination.failures = 0
        destination.failing_since = destination.retry_at = None
        destination.save()
        OutboxMessage.objects.filter(
            destination=pk, state=OutboxMessage.State.WAITING, attempts__gt=0
        ).update(attempts=0, first_attempt_at=None, next_attempt_at=now)


# --- Email ----------------------------------------------------------------------------------


def _send_confirmation(destination: Destination) -> Result:
    url = f"{destination.site_url}{reverse('confirm_email', args=[_token(destination)])}"
    body = (
        f"Somebody who manages {destination.product.name} wants to send notifications to this "
        f"address.\n\nTo agree, open this page within {CONFIRMATION_DAYS} days:\n{url}\n\n"
        "If you do not know what this is about, do nothing: no further email follows.\n"
    )
    subject = f"Confirm notifications of {destination.product.name}"
    return emails.send_email(emails.plain_email(destination.address, subject, body))


def _token(destination: Destination) -> str:
    return signing.dumps([destination.pk, destination.address], salt=_SALT)


def read_token(token: str) -> Destination | None:
    """The destination that the token in a link confirms. None if it is old, or about an address
    that the destination no longer has."""
    try:
        pk, address = signing.loads(token, salt=_SALT, max_age=CONFIRMATION_DAYS * 86_400)
    except signing.BadSignature:
        return None
    destination = Destination.objects.defer(None).select_related("product").filter(pk=pk).first()
    return destination if destination and destination.address == address else None
