from collections.abc import Iterator
from ipaddress import ip_network

import pytest
from pytest_django import Settings

from destinations.vendors import hubspot as hubspot_client
from destinations.vendors import salesforce as salesforce_client
from harness.crm.hubspot import FakeHubSpot
from harness.crm.salesforce import FakeSalesforce
from harness.crm.server import running
from tests.notifications.rows import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def hubspot(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHubSpot]:
    """HubSpot on this machine."""
    crm = FakeHubSpot()
    with running(crm):
        settings.HUBSPOT_API_URL = crm.url
        settings.WEBHOOK_ALLOWED_NETWORKS = [ip_network("127.0.0.0/8")]
        monkeypatch.setattr(hubspot_client, "SEARCH_PAUSE", 0.0)
        yield crm


@pytest.fixture
def salesforce(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSalesforce]:
    """Salesforce on this machine."""
    crm = FakeSalesforce()
    with running(crm):
        settings.SALESFORCE_URL = crm.url
        settings.WEBHOOK_ALLOWED_NETWORKS = [ip_network("127.0.0.0/8")]
        monkeypatch.setattr(salesforce_client, "LOCK_PAUSE", 0.0)
        yield crm
