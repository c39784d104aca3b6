"""The main job of each page by keyboard alone: nothing here clicks, and few keys lead there."""

from contextlib import suppress

import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.keys import Keys

from access.models import Invite
from engagement.models import Product, Segment
from tests.browser.browsing import Browser
from tests.browser.conftest import LogIn
from tests.browser.test_navigation import press_keys
from tests.browser.test_twelve_jobs import names, scored

__all__ = ["scored"]

pytestmark = pytest.mark.django_db(transaction=True)

IS_FOCUSED = "return document.activeElement.matches(arguments[0])"
HAS_FOCUS = "return document.activeElement !== document.body"
LOST_KEYS = 5


def tab_to(browser: Browser, selector: str, at_most: int) -> None:
    """Press Tab until such an element has the focus. A page that is not complete may lose a key,
    or the focus; such a key does not count."""
    moves = 0
    for _ in range(at_most + LOST_KEYS):
        browser.wait_until(
            lambda: browser.driver.execute_script("return document.readyState") == "complete"
        )
        # A key that left the page before takes effect only now.
        with suppress(WebDriverException):
            press_keys(browser, Keys.TAB)
            if browser.driver.execute_script(IS_FOCUSED, selector):
                return
            moves += browser.driver.execute_script(HAS_FOCUS)
        if moves == at_most:
            break
    raise AssertionError(f"{at_most} times Tab do not lead to {selector}.")


def enter(browser: Browser, selector: str, at_most: int) -> None:
    """Go to such an element, and press Enter."""
    tab_to(browser, selector, at_most)
    press_keys(browser, Keys.ENTER)


def skip_to_content(browser: Browser) -> None:
    enter(browser, ".skip-to-content-link", at_most=1)


def test_the_main_job_of_each_page_needs_no_pointer(as_member: LogIn, scored: Product) -> None:
    browser = as_member("manager")
    clicks = browser.clicks
    _read(browser)
    _filter_and_sort(browser)
    _make_a_segment(browser, scored)
    _change_a_weight(browser, scored)
    _search_the_log_and_invite(browser, scored)
    assert browser.clicks == clicks and browser.complaints() == []


def _read(browser: Browser) -> None:
    browser.open("/admin/")
    skip_to_content(browser)
    enter(browser, "a[href*='/account/'][href*='/change/']", at_most=25)
    browser.wait_until(lambda: "/change/" in browser.path)
    skip_to_content(browser)
    enter(browser, ".eds-tabs a[href*='people=quiet']", at_most=25)
    browser.wait_until(lambda: "people=quiet" in browser.path)


def _filter_and_sort(browser: Browser) -> None:
    browser.open("/admin/engagement/account/")
    skip_to_content(browser)
    # The filters come before the rows.
    enter(browser, "#changelist-filter summary", at_most=8)
    enter(browser, ".eds-filter[open] details summary", at_most=2)
    enter(browser, ".eds-filter[open] button[name=segment]:not([value=''])", at_most=3)
    browser.wait_for(".eds-chip")
    skip_to_content(browser)
    enter(browser, "th a[href*='sort=change']", at_most=24)
    browser.wait_until(lambda: "sort=change" in browser.path)
    assert names(browser)[0] == "Ember Care"


def _make_a_segment(browser: Browser, product: Product) -> None:
    workspace = product.workspaces.get()
    browser.open(f"/admin/engagement/segment/?workspace__id__exact={workspace.pk}")
    skip_to_content(browser)
    enter(browser, "a.addlink", at_most=2)
    browser.wait_until(lambda: "/add/" in browser.path)
    # A new row begins in its first text.
    browser.wait_for("#id_name:focus")
    press_keys(browser, "Away")
    tab_to(browser, ".eds-what select", at_most=4)
    press_keys(browser, "Last")
    tab_to(browser, "[name$='-days']", at_most=4)
    press_keys(browser, "3")
    # Enter in a field only previews.
    enter(browser, "input[name=_save]", at_most=12)
    browser.wait_until(Segment.objects.filter(name="Away").exists)


def _change_a_weight(browser: Browser, product: Product) -> None:
    workspace = product.workspaces.get()
    browser.open(f"/admin/engagement/workspace/{workspace.pk}/change/")
    skip_to_content(browser)
    tab_to(browser, ".eds-events select", at_most=20)
    press_keys(browser, "7")
    browser.wait_for_text("Computed for all users and accounts, as saving would.")
    enter(browser, "input[name=_save]", at_most=70)
    browser.wait_until(workspace.weights.filter(weight=7).exists)


def _search_the_log_and_invite(browser: Browser, product: Product) -> None:
    browser.open(f"/admin/ingestion/ingestionlog/{product.pk}/change/")
    skip_to_content(browser)
    tab_to(browser, "#log-term", at_most=2)
    press_keys(browser, "emil", Keys.ENTER)
    browser.wait_for_text("Messages that mention “emil”")
    browser.open(f"/admin/engagement/product/{product.pk}/invite/")
    skip_to_content(browser)
    enter(browser, "input[value=Invite]", at_most=6)
    browser.wait_for(".eds-invite-link")
    assert Invite.objects.filter(product=product).exists()
