"""The page of an account in a browser: what comes after the rest, and values in its chart."""

import pytest
from django.urls import reverse
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from console.subjects import subject_pages
from engagement.models import AccountEngagement, Product
from tests.admin.rows import fill
from tests.browser.browsing import NARROW, Browser

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_chart_of_a_large_account_comes_by_itself(
    as_root: Browser, acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = fill(acme)
    AccountEngagement.objects.update(total_users=2)
    monkeypatch.setattr(subject_pages, "MANY_USERS", 1)
    as_root.resize(NARROW)
    as_root.open(reverse("admin:engagement_account_change", args=[rows.account.pk]))
    as_root.wait_for(".eds-part .eds-chart svg")
    as_root.wait_for_text("Scored events of all time")
    assert as_root.complaints() == [] and not as_root.is_too_wide()
    # A group of people is one click away.
    as_root.wait_for('.eds-tabs a[href*="people=all"]').click()
    as_root.wait_until(lambda: "people=all" in as_root.path)
    as_root.wait_until(lambda: as_root.texts(".eds-tabs [aria-current]") == ["All 2"])


def test_a_chart_says_its_values_to_a_pointer_and_to_the_arrow_keys(
    as_root: Browser, acme: Product
) -> None:
    rows = fill(acme)
    as_root.open(reverse("admin:engagement_user_change", args=[rows.user.pk]))
    plot = as_root.find(".eds-chart > svg[tabindex]")
    days = [row.get_attribute("textContent") for row in as_root.all(".eds-chart tbody th")]
    ActionChains(as_root.driver).move_to_element(plot).perform()
    as_root.wait_for(".eds-chart-tip[role=status]")
    assert as_root.find(".eds-chart-tip strong").text in days[40:50]
    plot.send_keys(Keys.END)
    assert as_root.texts(".eds-chart-tip strong") == [days[-1]]
    value = as_root.all(".eds-chart tbody td")[-1].get_attribute("textContent")
    assert as_root.texts(".eds-chart-tip p") == [f"Score\n{value}"]
    plot.send_keys(Keys.ARROW_LEFT)
    assert as_root.texts(".eds-chart-tip strong") == [days[-2]]
    plot.send_keys(Keys.ESCAPE)
    assert as_root.all(".eds-chart-tip") == []
    assert as_root.complaints() == []
