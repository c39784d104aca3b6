"""The home page for a newcomer, a superuser with data, and a member."""

import pytest
from django.contrib.auth.models import User as AdminUser
from django.utils import timezone

from engagement.messages import Identify, Track
from engagement.models import Account, Product
from engagement.rescoring import rescore
from ingestion.drain import processing
from ingestion.models import IngestionKey
from ingestion.snippets import KEY_PLACEHOLDER
from tests.admin.rows import fill
from tests.browser.browsing import NARROW, WIDE, Browser
from tests.browser.conftest import PASSWORD, LogIn
from tests.engagement.history import track
from tests.pipeline.waiting import wait

pytestmark = pytest.mark.django_db(transaction=True)


def test_from_nothing_set_up_to_a_first_number(browser: Browser) -> None:
    AdminUser.objects.create_superuser("root", password=PASSWORD)
    browser.log_in("root", PASSWORD)
    assert "Nothing is set up yet" in browser.text and KEY_PLACEHOLDER in browser.text
    browser.follow("Add the first product")
    browser.fill("id_name", "Acme")
    browser.press("input[name=_save]")
    browser.follow("Home")
    assert browser.texts(".eds-card h2") == ["Acme"]
    key = IngestionKey.objects.get()
    assert key.secret not in browser.driver.page_source
    browser.press_labelled("Show with the key")
    lines = [element.get_attribute("textContent") or "" for element in browser.all("pre code")]
    assert key.secret in lines[0]
    # Run the JavaScript example as it is.
    assert browser.run(lines[2]) == "done"
    processing.drain(timezone.now)
    rescore.rescore(timezone.now())
    browser.open("/admin/")
    assert "No messages yet" not in browser.text
    assert numbers(browser) == {
        "Scored accounts": "1",
        "Scored users": "1",
        "Accepted (24 h)": "4",
        "In the inbox": "0",
    }
    assert "3 of 7 done" in browser.text
    assert browser.complaints() == []


def numbers(browser: Browser) -> dict[str, str]:
    """The statistics of the first card, without details."""
    labels = browser.texts(".eds-card:first-child .eds-statistics dt")
    values = [text.split("\n")[0] for text in browser.texts(".eds-card:first-child dd")]
    return dict(zip(labels, values, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_superuser_reads_cards_at_any_width_and_light(
    as_root: Browser, acme: Product, globex: Product, acme_key: str, width: int, scheme: str
) -> None:
    fill(globex, 2)
    now = timezone.now()
    wait(acme_key, Identify("ada", now, {}, "a1"), Track("ada", "opened", now), received_at=now)
    processing.drain(timezone.now)
    rescore.rescore(timezone.now())
    as_root.resize(width)
    as_root.prefer(scheme)
    as_root.open("/admin/")
    assert as_root.texts(".eds-card h2") == ["Acme", "Globex"]
    assert not as_root.is_too_wide()
    background = as_root.style(".eds-card", "background-color")
    assert (background == "rgb(255, 255, 255)") is (scheme == "light")
    # A user and an event.
    assert numbers(as_root)["Accepted (24 h)"] == "2"
    as_root.press(".eds-card nav a")
    as_root.follow("a1")
    account = Account.objects.get(product=acme)
    assert as_root.path.startswith(f"/admin/engagement/account/{account.pk}/change/?workspace=")
    assert as_root.complaints() == []


def test_a_reason_in_the_chart_leads_to_its_messages(
    as_member: LogIn, acme: Product, acme_key: str
) -> None:
    IngestionKey.objects.update(revoked_at=timezone.now())
    wait(acme_key, track("ada"), received_at=timezone.now())
    processing.drain(timezone.now)
    browser = as_member("viewer", "vera")
    assert "1 of 1 messages of the last 24 hours were dropped" in browser.text
    browser.follow("Ingestion")
    browser.follow("Revoked key")
    assert "dropped: Revoked key" in browser.text and "user ada" in browser.text


def test_a_member_meets_their_own_products_alone(
    as_member: LogIn, acme: Product, globex: Product
) -> None:
    fill(acme)
    fill(globex, 2)
    browser = as_member("viewer", "vera")
    assert browser.texts(".eds-card h2") == ["Acme"]
    assert "globex" not in browser.driver.page_source.lower()
    assert browser.complaints() == []


def test_staff_without_a_product_know_whom_to_ask(browser: Browser, acme: Product) -> None:
    AdminUser.objects.create_user("nick", password=PASSWORD, is_staff=True)
    browser.log_in("nick", PASSWORD)
    assert "You are not a member of any product yet" in browser.text
    assert "Acme" not in browser.text and browser.complaints() == []
