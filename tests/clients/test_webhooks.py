"""Webhooks are verified by the library of another language: npm's standardwebhooks."""

import json
import subprocess
from pathlib import Path

import pytest
from django.utils import timezone

from engagement.models import Product
from notifications import verification
from notifications.delivery import signing
from notifications.models import Destination
from tests.notifications.conftest import receiver
from tests.notifications.receiver import Received, Receiver
from tests.notifications.rows import a_destination

__all__ = ["receiver"]
pytestmark = pytest.mark.django_db
PROGRAM = Path(__file__).parent / "programs" / "webhooks.mjs"


def verify(node: str, secret: str, *received: Received) -> list[object]:
    """What the library makes of the requests: their content, or None."""
    requests = [{"headers": each.headers, "body": each.body.decode()} for each in received]
    ended = subprocess.run(
        [node, PROGRAM, secret],
        input="".join(f"{json.dumps(request)}\n" for request in requests),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_npms_library_verifies_what_is_sent_with_one_secret_and_with_two(
    node: str, acme: Product, receiver: Receiver
) -> None:
    old, new, other = (signing.generate_secret() for _ in range(3))
    destination = a_destination(acme, receiver.url, name="Ünïcode 日本", signing_secrets=old)
    verification.send_test(destination.pk, timezone.now())
    Destination.objects.filter(pk=destination.pk).update(signing_secrets=f"{new} {old}")
    verification.send_test(destination.pk, timezone.now())
    first, second = receiver.received
    contents = [first.content, second.content]
    assert "Ünïcode 日本" in first.data["text"]
    assert verify(node, old, first, second) == contents
    assert verify(node, new, first, second) == [None, second.content]
    assert verify(node, other, first, second) == [None, None]
    second.body += b" "
    assert verify(node, old, second) == [None]
