"""The ingestion log refreshes itself while "Live" is on, and only then."""

import pytest
from django.utils import timezone

from engagement.models import Product
from ingestion.drain import processing
from tests.browser.browsing import Browser
from tests.browser.conftest import LogIn
from tests.engagement.history import identify
from tests.pipeline.waiting import wait

pytestmark = pytest.mark.django_db(transaction=True)

# Counts the page's own requests.
REQUESTS = "return performance.getEntriesByType('resource').filter(e => /messages/.test(e.name))"
HIDE = """
Object.defineProperty(document, 'hidden', {configurable: true, get: () => arguments[0]});
document.dispatchEvent(new Event('visibilitychange'));
""".replace("arguments[0]", "window.isHidden")


def send(key: str, user: str) -> None:
    wait(key, identify(user), received_at=timezone.now())
    processing.drain(timezone.now)


def requests(browser: Browser) -> int:
    return len(browser.driver.execute_script(REQUESTS))


def test_messages_appear_by_themselves_while_live_is_on(
    as_member: LogIn, acme: Product, acme_key: str
) -> None:
    send(acme_key, "ada")
    browser = as_member("viewer")
    browser.open(f"/admin/ingestion/ingestionlog/{acme.pk}/change/?kind=identify")
    live = browser.find("[data-live]")
    assert (live.text, live.get_attribute("aria-pressed")) == ("Live", "false")
    assert requests(browser) == 0
    live.click()
    browser.wait_until(lambda: requests(browser) > 0)
    send(acme_key, "bob")
    browser.wait_for_text("identify · user bob")
    assert "user ada" in browser.text

    # Not while the page is hidden.
    browser.driver.execute_script(f"window.isHidden = true; {HIDE}")
    send(acme_key, "cleo")
    browser.run("await new Promise(done => setTimeout(done, 2500));")
    before = requests(browser)
    browser.run("await new Promise(done => setTimeout(done, 2500));")
    assert requests(browser) == before
    browser.driver.execute_script(f"window.isHidden = false; {HIDE}")
    browser.wait_for_text("identify · user cleo")

    # It stays on from page to page, until it is turned off.
    browser.follow("Track")
    assert browser.find("[data-live]").get_attribute("aria-pressed") == "true"
    browser.find("[data-live]").click()
    assert browser.find("[data-live]").get_attribute("aria-pressed") == "false"
    assert browser.complaints() == []
