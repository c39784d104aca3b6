"""The twelve jobs that people come for, each in at most three clicks from the overview.

A click is one on a link, a button, or a menu. What people write or choose in a field comes besides.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.utils import timezone
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from engagement.messages import Group, Identify, ReceivedMessage, Track
from engagement.models import Product, Segment
from engagement.recording.record import record
from engagement.rescoring.rescore import rescore
from notifications.models import Subscription
from tests.browser.browsing import Browser
from tests.browser.conftest import LogIn
from tests.browser.test_navigation import press_keys
from tests.notifications.conftest import receiver
from tests.notifications.receiver import Receiver

__all__ = ["receiver"]

pytestmark = pytest.mark.django_db(transaction=True)

# The events of each user: how many days ago, and how often.
ACTIVITY = {
    ("emil", "ember"): ((9, 30), (1, 2)),
    ("gus", "ember"): ((10, 20),),
    ("ann", "acorn"): ((9, 2), (1, 40)),
}
NAMES = {"ember": "Ember Care", "acorn": "Acorn Bank"}


@pytest.fixture
def scored(acme: Product) -> Product:
    """Ember Care, with an evaluation license, falls because of Emil and Gus. Acorn Bank rises."""
    now = timezone.now()
    messages: list[Identify | Group | Track] = [
        Group(account, now - timedelta(days=60), {"name": name, "am.licenseType": license_type})
        for (account, name), license_type in zip(
            NAMES.items(), ("EVALUATION", "COMMERCIAL"), strict=True
        )
    ]
    for (user, account), days in ACTIVITY.items():
        since = now - timedelta(days=50)
        messages.append(Identify(user, since, {"name": user.title(), "role": "admin"}, account))
        for ago, times in days:
            at = now - timedelta(days=ago)
            messages += [Track(user, "shared", at + timedelta(seconds=n)) for n in range(times)]
    record([ReceivedMessage(acme.pk, 3_000_000 + n, now, each) for n, each in enumerate(messages)])
    rescore(now)
    return acme


@contextmanager
def job(browser: Browser, clicks: int) -> Iterator[None]:
    """A job that begins on the overview and takes this number of clicks."""
    assert clicks <= 3
    browser.open("/admin/")
    before = browser.clicks
    yield
    assert browser.clicks - before == clicks
    assert browser.complaints() == []


@pytest.fixture
def paying(scored: Product) -> Segment:
    segment: Segment = scored.workspaces.get().segments.create(
        name="Paying",
        scope="account",
        conditions=[
            {"kind": "trait", "trait": "am.licenseType", "operator": "is", "value": "COMMERCIAL"}
        ],
    )
    return segment


def names(browser: Browser) -> list[str]:
    return browser.texts("#result_list tbody th a")


def test_each_job_takes_at_most_three_clicks(as_member: LogIn, scored: Product) -> None:
    browser = as_member("manager")
    _look(browser)
    _find(browser)
    _change(browser, scored)


def _look(browser: Browser) -> None:
    with job(browser, 2):  # Who rises and who falls: a few on the overview, all of them in a list.
        text = browser.text
        assert [name for name in ("Ember Care", "Acorn Bank") if name not in text] == [], text
        browser.follow("Accounts")
        browser.follow("Change")
        assert names(browser) == ["Ember Care", "Acorn Bank"]
    with job(browser, 2):  # The users who fall.
        browser.follow("Users")
        browser.follow("Change")
        assert set(names(browser)[:2]) == {"Emil", "Gus"} and names(browser)[2:] == ["Ann"]
    with job(browser, 1):  # Why an account falls.
        browser.follow("Ember Care")
        assert "shared" in browser.text
    with job(browser, 2):  # The users of an account who went quiet.
        browser.follow("Ember Care")
        browser.press(".eds-tabs a[href*='people=quiet']")
        assert browser.texts("#people tbody th a") == ["Gus"]
    with job(browser, 2):  # What the marketplace says about a license: a line, and all traits.
        browser.follow("Ember Care")
        assert "Evaluation" in browser.find(".eds-license").text
        browser.click(
            browser.driver.find_element(By.XPATH, "//summary[h2[@id='marketplace-license']]")
        )
        assert "am.licenseType" in browser.text


def _find(browser: Browser) -> None:
    with job(browser, 1):  # An account by a part of its name.
        browser.find(".eds-find input[type=search]").send_keys("bER ca")
        browser.click(browser.wait_for(".eds-find-hits a"))
        assert browser.find("h1").text == "Ember Care"
    with job(browser, 0):  # The same by keyboard, from any page.
        press_keys(browser, "/", "bER ca")
        browser.wait_for(".eds-find-hits a")
        press_keys(browser, Keys.ARROW_DOWN, Keys.ENTER)
        browser.wait_until(lambda: browser.find("h1").text == "Ember Care")
    with job(browser, 2):  # The accounts as a file.
        browser.follow("Accounts")
        export = browser.driver.find_element(By.LINK_TEXT, "Export as CSV")
        # A file leads to no other page.
        browser.driver.execute_script("arguments[0].setAttribute('href', '#')", export)
        browser.click(export)


def _change(browser: Browser, product: Product) -> None:
    browser.follow("Accounts")
    browser.open(f"{browser.path}&activity=unknown&trait.am.licenseType=EVALUATION")
    before = browser.clicks
    browser.follow("Make a segment of this list")
    browser.fill("id_name", "New evaluations")
    browser.press("input[name=_save]")
    assert browser.clicks - before == 2
    segment = Segment.objects.get(name="New evaluations")
    assert "Ember Care" in browser.text and len(segment.conditions) == 2
    with job(browser, 2):  # The weight of an event, with its effect before it is saved.
        browser.follow("Events and weights")
        browser.find("[aria-label='Weight of “shared”'] option[value='7']").click()
        browser.wait_for_text("Computed for all users and accounts, as saving would.")
        browser.press("input[name=_save]")
    with job(browser, 2):  # Score admins only.
        browser.follow("Events and weights")
        row = browser.all(".eds-rows > *")[-1]
        row.find_element(By.CSS_SELECTOR, ".eds-what option[value=trait]").click()
        row.find_element(By.CSS_SELECTOR, "[name$='-trait']").send_keys("role")
        row.find_element(By.CSS_SELECTOR, "[name$='-text']").send_keys("admin")
        browser.press("input[name=_save]")
    workspace = product.workspaces.get()
    assert workspace.weights.get().weight == 7 and workspace.audience
    with job(browser, 2):  # Another name.
        browser.follow("Settings")
        browser.fill("id_name", "Acme Boards")
        browser.press("input[name=_save]")
    product.refresh_from_db()
    assert product.name == "Acme Boards"
    with job(browser, 3):  # A viewer.
        browser.follow("Settings")
        browser.follow("Invite")
        browser.press("input[value=Invite]")
        assert browser.find(".eds-invite-link").text


def choose(browser: Browser, selector: str, text: str) -> None:
    """Choose in a field by a click, which counts."""
    option = browser.find(selector).find_element(By.XPATH, f'.//option[.="{text}"]')
    browser.click(option)


def test_slack_is_told_of_a_paying_account_that_falls_below_40_in_four_clicks_on_one_page(
    as_member: LogIn, paying: Segment, receiver: Receiver
) -> None:
    """Thirteen clicks on six pages before. Here each choice in a field counts, too."""
    browser = as_member("manager")
    product = paying.workspace.product_id
    browser.open(f"/admin/notifications/subscription/add/?product={product}")
    before, page = browser.clicks, browser.path
    assert not browser.find(".eds-new").is_displayed()
    choose(browser, "#id_who", "accounts in Paying")
    browser.fill("id_threshold", "40")
    choose(browser, "#id_destination", "New: Slack …")
    assert browser.find("[data-kind=slack]").is_displayed()
    assert not browser.find("[data-kind=email]").is_displayed()
    browser.fill("id_new-address", receiver.url)
    browser.fill("id_new-name", "CS channel")
    assert browser.path == page
    browser.press(".submit-row input[name=_save]")
    assert browser.clicks - before == 3
    sentence = "CS channel is told: Scores of accounts fall below 40, if in Paying."
    assert sentence in browser.text
    assert receiver.received and browser.complaints() == []
    subscription = Subscription.objects.get()
    assert (subscription.filter_segment, subscription.threshold) == (paying, 40)
