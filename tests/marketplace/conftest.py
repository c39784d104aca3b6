"""A simulated marketplace without licenses, and a connection to it."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from engagement.models import Product
from harness.marketplace.feed import Feed
from harness.marketplace.server import Simulator
from harness.marketplace.vendor import create_vendor
from marketplace.models import Connection
from tests.marketplace import connections


@pytest.fixture
def simulator(settings: Settings) -> Iterator[Simulator]:
    with Simulator(Feed([]), create_vendor()) as running:
        settings.MARKETPLACE_API_URL, settings.MARKETPLACE_PROXIES = running.url, {}
        yield running


@pytest.fixture
def connection(acme: Product, simulator: Simulator) -> Connection:
    """Acme's connection; its first sync is due."""
    new_connection = connections.connect(acme, simulator)
    simulator.requests.clear()
    return new_connection
