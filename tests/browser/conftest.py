"""A browser and its logins. Without Chromium and its driver, the tests are skipped, as are the
clients that only ``tests/clients/run`` installs."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from pytest_django import Settings

from engagement.models import Product, ProductMember
from tests.browser.browsing import WIDE, Browser
from tests.clients.conftest import need

PASSWORD = "quite a secret"


@pytest.fixture(autouse=True)
def quickly_checked(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(scope="package")
def running_browser(live_server: Any) -> Iterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    chromedriver = shutil.which("chromedriver")
    need(chromium, "Chromium")
    need(chromedriver, "Chromium's driver")
    assert chromium and chromedriver
    with Browser(chromium, chromedriver, live_server.url) as running:
        yield running


@pytest.fixture
def browser(running_browser: Browser, transactional_db: None) -> Iterator[Browser]:
    """The browser as if it had just started: starting one takes seconds of processor time."""
    running_browser.resize(WIDE)
    yield running_browser
    # No page asks for anything while the database is emptied.
    running_browser.forget()


@pytest.fixture
def as_root(browser: Browser) -> Browser:
    AdminUser.objects.create_superuser("root", password=PASSWORD)
    browser.log_in("root", PASSWORD)
    return browser


LogIn = Callable[..., Browser]


@pytest.fixture
def as_member(browser: Browser, acme: Product) -> LogIn:
    """Log in as a member of Acme with this role."""

    def log_in(role: str, name: str = "maya") -> Browser:
        person = AdminUser.objects.create_user(name, password=PASSWORD, is_staff=True)
        ProductMember.objects.create(product=acme, user=person, role=role)
        browser.log_in(name, PASSWORD)
        return browser

    return log_in
