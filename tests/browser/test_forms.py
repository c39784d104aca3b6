"""What a form says before changes are lost, and what a region says that cannot be loaded."""

import pytest
from selenium.webdriver.common.by import By

from engagement.models import Workspace
from tests.browser.browsing import Browser
from tests.browser.conftest import LogIn
from tests.browser.test_workspaces import ours, ranked, unfold

__all__ = ["ours"]
pytestmark = pytest.mark.django_db(transaction=True)

FAILED = "This could not be loaded."
OFFLINE = "() => Promise.reject(new TypeError('offline'))"
SILENT = "() => new Promise(() => {})"


def would_ask(browser: Browser) -> bool:
    """Whether the browser would ask before it leaves the page."""
    return bool(
        browser.driver.execute_script(
            "const leaving = new Event('beforeunload', {cancelable: true});"
            "window.dispatchEvent(leaving); return leaving.defaultPrevented;"
        )
    )


def replace_fetch(browser: Browser, answer: str) -> None:
    browser.driver.execute_script(f"window.real ??= window.fetch; window.fetch = {answer};")


def try_again(browser: Browser, region: str) -> None:
    browser.driver.execute_script("window.fetch = window.real;")
    browser.press(f"{region} .eds-status-line button")


def test_unsaved_changes_are_not_left_without_a_question(as_member: LogIn, ours: Workspace) -> None:
    browser = as_member("manager")
    pages = {
        f"/admin/engagement/workspace/{ours.pk}/change/": "id_name",
        f"/admin/engagement/segment/add/?workspace={ours.pk}&scope=user": "id_name",
        f"/admin/engagement/product/{ours.product_id}/change/": "id_name",
        f"/admin/engagement/product/{ours.product_id}/invite/": "id_email",
        "/admin/password_change/": "id_old_password",
    }
    for path, field in pages.items():
        browser.open(path)
        unfold(browser)
        assert not would_ask(browser), path
        entered = browser.find(f"#{field}").get_attribute("value") or ""
        browser.find(f"#{field}").send_keys("x")
        assert would_ask(browser), path
        browser.driver.find_element(By.ID, field).clear()
        browser.find(f"#{field}").send_keys(entered)
        assert not would_ask(browser), path


def test_a_form_that_came_back_with_an_error_is_not_saved_and_saving_asks_nothing(
    as_member: LogIn, ours: Workspace
) -> None:
    browser = as_member("manager")
    browser.open(f"/admin/engagement/workspace/{ours.pk}/change/")
    browser.fill("id_default_weight", "")
    browser.driver.execute_script("document.querySelector('#workspace_form').noValidate = true")
    browser.press("input[name=_save]")
    assert browser.all(".errornote") and would_ask(browser)
    browser.fill("id_default_weight", "3")
    browser.press("input[name=_save]")
    ours.refresh_from_db()
    assert ours.default_weight == 3 and not would_ask(browser)
    assert browser.path == f"/admin/engagement/workspace/{ours.pk}/change/"
    assert browser.complaints() == []


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


def test_an_error_on_another_tab_is_shown_and_the_summary_leads_to_it(
    as_member: LogIn, ours: Workspace
) -> None:
    browser = as_member("manager")
    browser.open(f"/admin/engagement/product/{ours.product_id}/change/#tab-limits")
    assert browser.find("#limits").is_displayed() and not browser.find("#id_name").is_displayed()
    browser.driver.execute_script("document.getElementById('id_name').value = ''")
    browser.press(".submit-row input[name=_save]")
    assert browser.find("#id_name").is_displayed()
    assert "This field is required." in browser.find("#id_name_error").text
    browser.press(".errornote a[href='#id_name']")
    assert browser.path.endswith("#id_name") and not browser.find("#limits").is_displayed()
    assert browser.complaints() == []
