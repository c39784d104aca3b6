"""A person adds a passkey and an app, and signs in with them. The browser has an authenticator."""

import pyotp
import pytest
from django.utils import timezone
from selenium.webdriver.common.virtual_authenticator import VirtualAuthenticatorOptions

from access.models import SecondFactor
from engagement.models import Product
from tests.browser.browsing import NARROW, Browser
from tests.browser.conftest import PASSWORD, LogIn

pytestmark = pytest.mark.django_db(transaction=True)


def log_out(browser: Browser) -> None:
    browser.press("#logout-form button")
    assert "You are logged out" in browser.text and not browser.is_too_wide()


def test_a_passkey_an_app_and_a_recovery_code(as_member: LogIn, acme: Product) -> None:
    browser = as_member("manager")
    options = VirtualAuthenticatorOptions()
    options.is_user_verified = True
    browser.driver.add_virtual_authenticator(options)
    try:
        _follow_the_story(browser)
    finally:
        browser.driver.remove_virtual_authenticator()


def _follow_the_story(browser: Browser) -> None:
    browser.follow("Your account")
    browser.follow("Add a passkey")
    browser.fill("id_name", "Laptop")
    browser.find("input[type=submit]").click()
    browser.wait_for_text("Recovery codes")
    codes = browser.find(".eds-codes").text.split()
    assert len(codes) == 10
    browser.follow("I have stored them")
    assert "Laptop" in browser.text and "10 left" in browser.text
    assert browser.find(".eds-agent").text == "Chrome on Linux"

    # The same device twice.
    browser.follow("Add a passkey")
    browser.find("input[type=submit]").click()
    browser.wait_for_text("This device already has a passkey of your login.")
    browser.follow("Cancel")

    browser.follow("Add an authenticator app")
    assert browser.find(".eds-picture svg").size["width"] > 200
    code = pyotp.TOTP(browser.find("code.secret").text).at(timezone.now())
    browser.fill("id_code", code)
    browser.press("input[type=submit]")
    assert SecondFactor.objects.count() == 2

    log_out(browser)
    browser.resize(NARROW)
    browser.log_in("maya", PASSWORD)
    assert browser.path == "/admin/login/second-factor/" and not browser.is_too_wide()
    browser.find("#passkey-form input[type=submit]").click()
    browser.wait_until(lambda: browser.path == "/admin/")
    assert not browser.is_too_wide()

    browser.open("/admin/account/")
    assert not browser.is_too_wide()
    log_out(browser)
    browser.log_in("maya", PASSWORD)
    browser.fill("id_code", codes[0])
    browser.press("#login-form input[type=submit]")
    assert browser.path == "/admin/"
    assert browser.complaints() == []
