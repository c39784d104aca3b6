from collections.abc import Iterator
from ipaddress import ip_network

import pytest
from pytest_django import Settings

from tests.notifications.receiver import Receiver, receiving
from tests.notifications.rows import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    """A receiver on this machine, whose network is allowed."""
    settings.WEBHOOK_ALLOWED_NETWORKS = [ip_network("127.0.0.0/8")]
    with receiving() as receiver:
        yield receiver
