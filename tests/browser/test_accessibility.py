"""axe-core finds nothing on any page, light and dark. One browser, one login."""

import os
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.template.loader import render_to_string
from django.utils import timezone

from access.logins import invites
from access.models import Invite
from engagement.models import Account, Product, ProductMember
from engagement.rescoring import rescore
from ingestion.drain import processing
from ingestion.models import DropCount, DropReason
from tests.admin.rows import fill
from tests.admin.test_permissions import For, addresses
from tests.browser.browsing import NARROW, WIDE, Browser
from tests.browser.conftest import PASSWORD
from tests.browser.test_every_page import NO_PAGES
from tests.clients.conftest import HERE, need
from tests.engagement.history import NOON, identify, tell, track

pytestmark = pytest.mark.django_db(transaction=True)

AXE = HERE / "node_modules" / "axe-core" / "axe.min.js"
# WCAG 2.2 AA, and what axe's authors recommend besides.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Redirects, data, and pages with the same template as another one here.
LEFT_OUT = (
    *("_history", "_revoke", "_reveal", "_export", "_progress", "_preview", "_effect"),
    *("_status", "_forget", "_test", "_sync", "_run", "_try_again", "_password_change"),
    *("_messages", "_revoke_invite"),
)
# Pages for which nobody logs in. Two guides have a table without heads.
OF_ANYBODY = (
    *("/admin/login/", "/invite/", "/nothing", "/docs"),
    *("/docs/guides/sending-data", "/docs/guides/scaling", "/docs/guides/admin"),
    "/docs/guides/?q=slack",
)
# Answers to what went wrong, which no URL shows by itself.
ERRORS = ("403", "403_csrf", "413", "500", "503")
SHOW = "document.open(); document.write(arguments[0]); document.close();"
# The documentation of the API draws itself, and changes its colors gradually.
IS_SETTLED = """
const docs = document.getElementById("docs");
return document.readyState === "complete"
    && (!docs || docs.querySelector(".opblock, .opblock-tag") !== null)
    && document.getAnimations().every(animation => animation.playState !== "running");
"""
# Until then, no color has begun to change.
NEXT_FRAME = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]));"
# Each page in one of the other widths, which alternate. EXAMPLES=10 looks at all of them.
OTHER_WIDTHS = (NARROW, 768, 1024)
ALL_WIDTHS = os.environ.get("EXAMPLES", "1") != "1"
# Of these, only colors depend on the theme.
COLORS = {"type": "rule", "values": ["color-contrast"]}
RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"], runOnly: arguments[0]}).then(results => done(
    results.violations.map(rule => [rule.id, rule.nodes.map(node => node.html.slice(0, 200))])
));
"""


def violations(browser: Browser, rules: Any = RULES) -> list[Any]:
    problems: list[Any] = browser.driver.execute_async_script(RUN, rules)
    return problems


def of_both_themes(browser: Browser, script: str, place: str) -> list[Any]:
    """The violations on the page that is open."""
    browser.driver.execute_script(script)
    problems: list[Any] = []
    for width in (*OTHER_WIDTHS, WIDE) if ALL_WIDTHS else (WIDE,):
        browser.resize(width)
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            browser.driver.execute_async_script(NEXT_FRAME)
            browser.wait_until(lambda: bool(browser.driver.execute_script(IS_SETTLED)))
            problems += [(place, width, scheme, *each) for each in violations(browser)]
    return problems


def test_axe_finds_nothing_on_any_page(browser: Browser, acme: Product, globex: Product) -> None:
    need(AXE.is_file(), "axe-core")
    script = AXE.read_text()
    rows = fill(acme)
    DropCount.objects.create(
        product=acme, day=timezone.now().date(), reason=DropReason.INVALID, count=3
    )
    processing.drain(timezone.now)
    rescore.rescore(timezone.now())
    problems: list[Any] = []
    for url in OF_ANYBODY:
        browser.open(url)
        browser.wait_until(lambda: bool(browser.driver.execute_script(IS_SETTLED)))
        problems += of_both_themes(browser, script, url)
    # An invite; then, as it is over, that it no longer works.
    root = AdminUser.objects.create_superuser("root", password=PASSWORD)
    _, token = invites.create(root, timezone.now(), product=acme)
    for url in (f"/invite/?token={token}", "/invite/"):
        browser.open(url)
        problems += of_both_themes(browser, script, url)
        Invite.objects.update(expires_at=timezone.now())
    for name in ERRORS:
        browser.open("/nothing")
        browser.driver.execute_script(SHOW, render_to_string(f"{name}.html"))
        problems += of_both_themes(browser, script, name)
    browser.open("/admin/")
    browser.log_in("root", PASSWORD)
    ProductMember.objects.create(product=acme, user=root)
    places = [f"/admin/?workspace={rows.workspace.pk}"]
    places += [
        address.url
        for address in addresses(rows)
        if address.name not in NO_PAGES | {"app_list"}
        and address.whom is not For.ANYBODY
        and not address.name.endswith(LEFT_OUT)
    ]
    places += [
        f"/admin/engagement/{kind}/?workspace={rows.workspace.pk}" for kind in ("account", "user")
    ]
    places.append(f"/admin/engagement/segment/add/?workspace={rows.workspace.pk}&scope=account")
    place = f"product={acme.pk}&workspace={rows.workspace.pk}&store_kind=postgres"
    places.append(f"/admin/exports/scheduledexport/add/?{place}")
    for number, url in enumerate(places):
        browser.resize(WIDE)
        browser.open(url)
        if not browser.all("#container") or browser.all("input[name=username][autofocus]"):
            continue
        browser.driver.execute_script(script)
        for scheme, rules in (("light", RULES), ("dark", COLORS)):
            browser.prefer(scheme)
            problems += [(url, scheme, *violation) for violation in violations(browser, rules)]
        for width in OTHER_WIDTHS if ALL_WIDTHS else OTHER_WIDTHS[number % 3 :][:1]:
            browser.resize(width)
            for scheme, rules in (("dark", COLORS), ("light", RULES)):
                browser.prefer(scheme)
                problem = violations(browser, rules)
                problems += [(url, width, scheme, *violation) for violation in problem]
    assert problems == [], "\n".join(map(str, problems))


def test_axe_finds_nothing_on_the_page_of_an_account_on_a_phone(
    as_root: Browser, acme: Product
) -> None:
    need(AXE.is_file(), "axe-core")
    tell(acme, identify("ann", group="initech"), track("ann"), track("ann", hours=-24 * 8))
    rescore.rescore(NOON)
    as_root.resize(NARROW)
    as_root.open(f"/admin/engagement/account/{Account.objects.get().pk}/change/")
    assert as_root.find(".eds-breakdown tbody td.number").is_displayed()
    assert of_both_themes(as_root, AXE.read_text(), "account") == []
