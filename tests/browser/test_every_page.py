"""Every page under the strict policy, on a phone, in light and dark mode."""

import pytest
from django.utils import timezone

from access.trail import entries
from engagement.models import Product
from ingestion.models import DropCount, DropReason
from tests.admin.rows import Rows, fill
from tests.admin.test_permissions import For, addresses
from tests.browser.browsing import IS_TOO_WIDE, NARROW, WIDTHS, Browser

pytestmark = pytest.mark.django_db(transaction=True)
# These need form data, or are a part of a page.
NO_PAGES = {"logout", "view_on_site", "autocomplete", "jsi18n"}
NO_PAGES |= {"ingestion_ingestionlog_messages", "marketplace_connection_status"}


@pytest.fixture
def rows(acme: Product) -> Rows:
    return fill(acme)


# Whether the page scrolls sideways, and what ends beyond the window and is in no box that scrolls.
# Texts for screen readers are a pixel.
TOO_WIDE = (
    f"const scrolls = {IS_TOO_WIDE};"
    + """
const off = [...document.querySelectorAll("body *")].filter(one => {
    const box = one.getBoundingClientRect();
    if (box.right <= innerWidth + 1 || !box.width || !box.height) return false;
    if (!one.checkVisibility({visibilityProperty: true})) return false;
    if (one.closest("svg, .skip-to-content-link")) return false;
    for (let around = one.parentElement; around; around = around.parentElement) {
        const {overflowX, width} = getComputedStyle(around);
        if (["auto", "scroll"].includes(overflowX) || width === "1px") return false;
    }
    return true;
});
const first = off.map(one => one.outerHTML.slice(0, 100)).slice(0, 3);
return scrolls ? ["it scrolls", ...first] : first;
"""
)


def test_no_page_violates_the_policy_or_is_too_wide_for_a_window(
    as_root: Browser, rows: Rows
) -> None:
    # The trail then has all of its filters, which are the most in one row.
    entries.record(entries.COMMAND_LINE, entries.Action.ADDED, "product", name="Acme")
    problems = []
    # Each page opens in a narrow window.
    as_root.resize(NARROW)
    for address in addresses(rows):
        if address.name in NO_PAGES or address.whom is For.ANYBODY:
            continue
        as_root.open(address.url)
        refused = ("status of 405", "status of 403", "status of 404")
        complaints = [
            complaint
            for complaint in as_root.complaints()
            if not any(r in complaint for r in refused)
        ]
        problems += [(address.name, complaint) for complaint in complaints]
        for width in (*WIDTHS[1:], NARROW):
            as_root.resize(width)
            too_wide: list[str] = as_root.driver.execute_script(TOO_WIDE)
            problems += [(address.name, f"{width}: {what}") for what in too_wide]
    assert problems == []


def test_the_header_keeps_its_line_and_log_out_at_every_width(as_root: Browser, rows: Rows) -> None:
    for width in WIDTHS:
        as_root.resize(width)
        as_root.open("/admin/engagement/account/")
        header, out, crumbs = (
            as_root.find(selector).rect
            for selector in ("#header", "#logout-form button", ".eds-crumbs")
        )
        assert header["height"] == 48 <= crumbs["y"], width
        assert out["x"] + out["width"] <= width and out["y"] + out["height"] <= 48, width
        # What the header has no room for is in the side bar.
        guides = '//a[normalize-space()="Guides"]'
        if width < 1024:
            as_root.press(".eds-menu-button")
        addresses = [
            link for link in as_root.driver.find_elements("xpath", guides) if link.is_displayed()
        ]
        assert len(addresses) == 1, width


def test_the_theme_button_needs_no_exception(as_root: Browser) -> None:
    as_root.open("/admin/auth/user/")
    before = as_root.style("body", "background-color")
    as_root.press(".theme-toggle")
    assert as_root.style("body", "background-color") != before
    assert as_root.complaints() == []


def test_charts_follow_the_colours_that_somebody_prefers(as_root: Browser, rows: Rows) -> None:
    DropCount.objects.create(
        product=rows.product, day=timezone.now().date(), reason=DropReason.INVALID, count=3
    )
    colours = {}
    for scheme in ("light", "dark"):
        as_root.prefer(scheme)
        as_root.open(f"/admin/ingestion/ingestionlog/{rows.product.pk}/change/")
        bar = as_root.style(".eds-chart rect[class^=tone]", "fill")
        colours[scheme] = (as_root.style("body", "background-color"), bar)
    assert colours["light"][0] != colours["dark"][0]
    assert colours["light"][1] != colours["dark"][1]
    assert "rgb(0, 0, 0)" not in str(colours)
    # The chart's data is also in a table.
    as_root.press(".eds-chart-table summary")
    assert "invalid message" in as_root.find(".eds-chart-table table").text.lower()
