"""The lists of accounts and users, by keyboard and pointer, on a desk and on a phone."""

from datetime import timedelta

import pytest
from django.utils import timezone

from engagement.models import Account, AccountEngagement, Product, SavedView, Segment
from engagement.scores import histories
from tests.admin.rows import Rows, an_account, fill
from tests.browser.browsing import NARROW, WIDTHS, Browser

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rows(acme: Product) -> Rows:
    rows = fill(acme)
    an_account(acme, "ember", rows.workspace)
    AccountEngagement.objects.filter(account__external_id="ember").update(raw=20)
    return rows


def names(browser: Browser) -> list[str]:
    return [link.text for link in browser.all("#result_list tbody th a")]


def test_a_filtered_list_becomes_a_view(as_root: Browser, rows: Rows) -> None:
    as_root.open("/admin/engagement/account/")
    assert names(as_root) == ["acme-account name", "ember name"]
    as_root.follow("Name")
    as_root.follow("Name")
    assert names(as_root) == ["ember name", "acme-account name"]
    as_root.find(".eds-add-filter > summary").click()
    as_root.find(".eds-filter summary[data-name=trait]").click()
    as_root.fill("trait-name", "domain")
    as_root.fill("trait-value", "ember.example")
    as_root.press_labelled("Filter")
    assert names(as_root) == ["ember name"]
    as_root.find(".eds-views summary").click()
    as_root.fill("view-name", "Ember only")
    as_root.press_labelled("Save")
    assert "The view “Ember only” is saved." in as_root.text
    assert SavedView.objects.get().filters == {"trait.domain": "ember.example"}
    as_root.press(".eds-chip")
    assert len(names(as_root)) == 2 and "changed" in as_root.find(".eds-views").text
    as_root.follow("All accounts")
    assert len(names(as_root)) == 2
    assert as_root.complaints() == []


def test_a_list_with_a_long_address_works_like_any_other(as_root: Browser, rows: Rows) -> None:
    trait = "a trait with a long name " * 4
    columns = "&".join(f"column=trait:{trait}{number}" for number in range(8))
    as_root.open(f"/admin/engagement/account/?workspace={rows.workspace.pk}&{columns}")
    heads = as_root.texts("#result_list thead th")
    assert len(heads) == 9
    as_root.follow("Name")
    as_root.follow("Name")
    assert names(as_root) == ["ember name", "acme-account name"]
    as_root.find(".eds-add-filter > summary").click()
    as_root.driver.find_element("xpath", '//summary[.="Insight"]').click()
    as_root.press("button[name=insight][value=renewal_at_risk]")
    assert names(as_root) == [] and "Insight: " in as_root.find(".eds-chips").text
    as_root.press("a.eds-chip")
    assert names(as_root) == ["ember name", "acme-account name"]
    # The way back from a row has it all.
    as_root.follow("ember name")
    as_root.press(".eds-crumbs a[href*='sort']")
    assert as_root.texts("#result_list thead th") == heads
    assert names(as_root) == ["ember name", "acme-account name"]
    assert as_root.complaints() == []


# Cells whose text is wider than they are, or that end beyond what holds them.
CUT = """
return [...document.querySelectorAll("#result_list tbody :is(th, td, a, small)")]
    .filter(one => getComputedStyle(one).display !== "inline")
    .filter(one => one.scrollWidth > one.clientWidth
        || getComputedStyle(one).textOverflow === "ellipsis"
        || one.getBoundingClientRect().right > innerWidth)
    .map(one => one.outerHTML.slice(0, 200));
"""
HEIGHT = "return document.querySelector('#result_list tbody tr').getBoundingClientRect().height"


def test_no_text_of_a_row_is_cut_at_any_width(as_root: Browser, rows: Rows) -> None:
    Segment.objects.bulk_create(
        Segment(
            workspace=rows.workspace,
            scope="account",
            name=f"A segment of our own with a name of some length, {number}",
            conditions=[{"kind": "trait", "trait": "none", "operator": "is_not_set"}],
        )
        for number in range(60)
    )
    license = {"am.licenseType": "COMMERCIAL", "am.tier": "2000 Users", "am.status": "active"}
    license["am.maintenanceEndDate"] = "2030-11-26"
    Account.objects.filter(external_id="ember").update(
        traits={"name": "Ember Foods", "domain": "ember-foods.example", **license}
    )
    word = "Donaudampfschifffahrtsgesellschaft"
    Account.objects.filter(external_id="acme-account").update(
        traits={"name": f"{word}en und {word * 3}", "domain": f"{word * 3}.example", **license}
    )
    AccountEngagement.objects.update(last_active_at=timezone.now() - timedelta(minutes=53))
    for width in WIDTHS:
        as_root.resize(width)
        as_root.open(f"/admin/engagement/account/?workspace={rows.workspace.pk}&sort=score")
        assert names(as_root)[0] == "Ember Foods"
        assert as_root.driver.execute_script(CUT) == [], width
        assert not as_root.is_too_wide(), width
        if width > NARROW:
            # Two lines: a name and a domain, and a license.
            assert as_root.driver.execute_script(HEIGHT) <= 64, width
            assert as_root.find(".field-license").is_displayed()


def test_a_list_reads_well_on_a_phone(
    as_root: Browser, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_root.resize(NARROW)
    # The line of each row is loaded by the script.
    monkeypatch.setattr(histories, "MAX_COUNTS", 0)
    as_root.open("/admin/engagement/account/")
    assert not as_root.is_too_wide()
    row = as_root.find("#result_list tbody tr")
    name, score, last_active = (
        row.find_element("css selector", selector).location["y"]
        for selector in ("th", ".field-score", ".field-last_active")
    )
    assert name == score < last_active
    as_root.wait_until(lambda: len(as_root.all(".field-history svg")) == 2)
    assert as_root.complaints() == []
