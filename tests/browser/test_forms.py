"""What a region says that cannot be loaded."""

import pytest

from engagement.models import Workspace
from tests.browser.browsing import Browser
from tests.browser.conftest import LogIn
from tests.browser.test_workspaces import ours, ranked

__all__ = ["ours"]
pytestmark = pytest.mark.django_db(transaction=True)

FAILED = "This could not be loaded."
OFFLINE = "() => Promise.reject(new TypeError('offline'))"
SILENT = "() => new Promise(() => {})"


def replace_fetch(browser: Browser, answer: str) -> None:
    browser.driver.execute_script(f"window.real ??= window.fetch; window.fetch = {answer};")


def try_again(browser: Browser, region: str) -> None:
    browser.driver.execute_script("window.fetch = window.real;")
    browser.find(f"{region} .eds-status-line button").click()


def test_a_search_that_fails_says_so_and_tries_again(as_member: LogIn, ours: Workspace) -> None:
    browser = as_member("manager")
    browser.open(f"/admin/?workspace={ours.pk}")
    replace_fetch(browser, OFFLINE)
    browser.find("#eds-find").send_keys("ann")
    browser.wait_until(lambda: FAILED in browser.find("#eds-find-hits").text)
    # The rest needs the index of the search, so any answer of the service counts.
    try_again(browser, "#eds-find-hits")
    browser.wait_until(lambda: FAILED not in browser.find("#eds-find-hits").text)
    assert browser.find("#eds-find-hits").is_displayed()


@pytest.mark.parametrize("region", [".eds-result", ".eds-preview"])
def test_an_effect_that_fails_or_is_slow_says_so_and_tries_again(
    as_member: LogIn, ours: Workspace, region: str
) -> None:
    browser = as_member("manager")
    browser.open(f"/admin/engagement/workspace/{ours.pk}/change/")
    button = "[name=_effect]" if region == ".eds-result" else ".eds-buttons [name=_preview]"
    before = browser.find(region).text

    def press() -> None:
        browser.driver.execute_script("arguments[0].click()", browser.find(button))

    replace_fetch(browser, OFFLINE)
    press()
    browser.wait_until(lambda: FAILED in browser.find(region).text)
    assert before not in browser.find(region).text
    try_again(browser, region)
    browser.wait_until(lambda: FAILED not in browser.find(region).text)
    assert ranked(browser, "last") == ["ann", "bob"] or region == ".eds-preview"

    replace_fetch(browser, SILENT)
    press()
    browser.wait_until(lambda: "Loading…" in browser.find(region).text)
    browser.wait_until(lambda: "This takes longer than usual." in browser.find(region).text)
    try_again(browser, region)
    browser.wait_until(lambda: not browser.all(f"{region} .eds-status-line"))
    assert not browser.all(f"{region}[aria-busy]")
    assert browser.complaints() == []
