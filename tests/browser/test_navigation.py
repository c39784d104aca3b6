"""The side bar in a browser: a drawer on a phone, and menus by keyboard."""

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from engagement.models import Product
from tests.admin.rows import fill
from tests.browser.browsing import NARROW, WIDE, Browser
from tests.browser.conftest import LogIn

pytestmark = pytest.mark.django_db(transaction=True)


def press_keys(browser: Browser, *keys: str) -> None:
    ActionChains(browser.driver).send_keys(*keys).perform()


def test_the_side_bar_leads_everywhere_and_is_a_drawer_on_a_phone(
    as_root: Browser, acme: Product, globex: Product
) -> None:
    fill(acme)
    fill(globex, 2)
    as_root.resize(WIDE)
    as_root.open(f"/admin/?workspace={acme.workspaces.get().pk}")
    assert not as_root.find(".eds-menu-button").is_displayed()
    as_root.follow("Users")
    assert as_root.find(".eds-nav [aria-current=page]").text == "Users"
    # The product menu opens, and closes on Escape, with the keyboard alone.
    menu = as_root.find(".eds-switcher summary")
    as_root.driver.execute_script("arguments[0].focus()", menu)
    press_keys(as_root, Keys.ENTER)
    as_root.wait_until(lambda: "Globex" in as_root.find(".eds-switcher").text)
    press_keys(as_root, Keys.ESCAPE)
    as_root.wait_until(lambda: "Globex" not in as_root.find(".eds-switcher").text)
    assert as_root.driver.switch_to.active_element == menu
    press_keys(as_root, Keys.ENTER)
    as_root.follow("Globex")
    assert as_root.find(".eds-chosen").text == "Globex"
    assert as_root.path == f"/admin/engagement/user/?workspace={globex.workspaces.get().pk}"
    # On a phone it is a drawer.
    as_root.resize(NARROW)
    as_root.open(as_root.path)
    assert not as_root.find(".eds-nav").is_displayed() and not as_root.is_too_wide()
    as_root.press(".eds-menu-button")
    as_root.wait_until(lambda: as_root.find(".eds-nav").is_displayed())
    press_keys(as_root, Keys.ESCAPE)
    as_root.wait_until(lambda: not as_root.find(".eds-nav").is_displayed())
    as_root.press(".eds-menu-button")
    as_root.follow("Segments")
    assert as_root.find("h1").text == "Segments"
    assert as_root.complaints() == []


def test_a_long_name_leaves_the_header_on_one_line(as_member: LogIn) -> None:
    browser = as_member("viewer", "victor.the.viewer@globex-international.example")
    for width in (WIDE, 1024):
        browser.resize(width)
        browser.open("/admin/")
        items = browser.all("#site-name, #user-tools > a, #logout-form")
        heights = {item.text: item.size["height"] for item in items if item.is_displayed()}
        # Where the header has no room for its links, the side bar has them.
        assert "Log out" in heights and max(heights.values()) < 40, heights
        assert "Your account" in {link.text for link in browser.all("a") if link.is_displayed()}
        assert not browser.is_too_wide()
    browser.resize(NARROW)
    browser.open("/docs/guides/")
    assert not browser.is_too_wide()
