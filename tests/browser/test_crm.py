"""From nothing to the first row of HubSpot, as people click it."""

import pytest
from django.utils import timezone
from selenium.webdriver.support.ui import Select

from destinations import runs
from destinations.models import RecordDestination
from engagement.models import Product
from harness.crm.hubspot import FakeHubSpot
from tests.browser.browsing import Browser
from tests.browser.conftest import LogIn
from tests.destinations.conftest import hubspot
from tests.destinations.rows import scored, work
from tests.notifications.rows import Clock

__all__ = ["hubspot"]

pytestmark = pytest.mark.django_db(transaction=True)


class Filling:
    """Fills in fields, and counts those that a person fills in or leaves as proposed."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.names: list[str] = []

    def choose(self, name: str, text: str) -> None:
        self.names.append(name)
        Select(self._browser.find(f"[name={name}]")).select_by_visible_text(text)

    def write(self, name: str, text: str) -> None:
        self.names.append(name)
        self._browser.fill(f"id_{name}", text)

    def leave(self, name: str, text: str) -> None:
        self.names.append(name)
        option = Select(self._browser.find(f"[name={name}]")).first_selected_option
        assert option.text == text


def test_hubspot_gets_its_first_row_after_eight_fields(
    acme: Product, as_member: LogIn, hubspot: FakeHubSpot
) -> None:
    scored(acme, {"initech": 35.4, "nobody": 20})
    initech = hubspot.add(domain="initech.example", eds_score="12")
    clock = Clock(timezone.now())
    browser = as_member("manager")
    browser.open("/admin/")
    browser.follow("CRM")
    browser.follow("Add CRM")
    filling = Filling(browser)
    filling.leave("vendor", "HubSpot")
    filling.leave("scope", "Accounts")
    # Only Salesforce has these.
    assert not any(browser.find(f"#id_{name}").is_displayed() for name in ("host", "client_id"))
    filling.write("key", hubspot.key)
    browser.press("input[name=_save]")
    assert "HubSpot accepts the key." in browser.text
    filling.leave("match_source", "Domain")
    filling.leave("match_field", "Domain (domain)")
    filling.choose("source_0", "Score")
    filling.choose("field_0", "Eds score (eds_score)")
    browser.press("input[name=_save]")
    assert len(filling.names) <= 8
    work(clock)
    browser.open(browser.path)
    assert "Of 2 accounts, 1 would be updated" in browser.text and hubspot.written_rows == 0
    browser.press_labelled("Start")
    assert runs.request_due(clock.step(60)) == 1
    work(clock)
    assert hubspot.records[initech]["eds_score"] == "35"
    browser.open(browser.path)
    assert "Active. 1 linked." in browser.text
    assert RecordDestination.objects.get().state == "active"
    assert browser.complaints() == []
