"""A newcomer, a manager, and a viewer click through the admin."""

import pytest
from django.contrib.auth.models import User as AdminUser
from django.utils import timezone

from engagement.models import Product, ProductMember, User
from ingestion.drain import processing
from ingestion.models import IngestionKey, QuarantinedMessage
from ingestion.snippets import KEY_PLACEHOLDER
from tests.admin.rows import quarantined
from tests.browser.browsing import Browser
from tests.browser.conftest import PASSWORD, LogIn

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_newcomer_sends_a_first_event_and_finds_it(browser: Browser) -> None:
    AdminUser.objects.create_superuser("root", password=PASSWORD)
    product = Product.create_with_workspace("Acme")
    browser.log_in("root", "a slip of the fingers")
    assert "Please enter the correct username and password" in browser.text
    browser.fill("id_password", PASSWORD)
    browser.press("input[type=submit]")
    # The product's page says what to do next.
    browser.follow("Settings")
    assert "There is none yet: create one." in browser.text
    browser.follow("create one")
    browser.fill("id_name", "web")
    browser.press("input[name=_save]")
    # The key's page shows it once, and code examples that contain it.
    key = IngestionKey.objects.get()
    assert key.secret in browser.find(".messagelist").text
    snippets = [element.get_attribute("textContent") or "" for element in browser.all("pre code")]
    assert all(key.secret in element for element in snippets)
    browser.press(".messagelist .eds-copy")
    browser.wait_for_text("ed")
    # Run the JavaScript example as it is.
    assert browser.run(snippets[2]) == "done"
    processing.drain(timezone.now)
    assert User.objects.get(product=product).email == "ada@example.com"
    # The ingestion log has it.
    browser.follow("ingestion log")
    browser.fill("log-term", "u1")
    browser.press(".eds-log-search input[type=submit]")
    assert "Ada is a user of Acme" in browser.text
    assert "track · “Report_Created” · user u1" in browser.text and "Recorded" in browser.text
    # The key's page does not show the secret again.
    browser.open(f"/admin/ingestion/ingestionkey/{key.pk}/change/")
    assert key.secret not in browser.driver.page_source and KEY_PLACEHOLDER in browser.text
    assert browser.complaints() == []


def test_a_manager_rotates_a_key_and_revokes_the_old_one(as_member: LogIn, acme: Product) -> None:
    old = IngestionKey.create(acme, "web")
    browser = as_member("manager")
    browser.open(f"/admin/engagement/product/{acme.pk}/change/")
    browser.follow("Keys and tokens")
    browser.press_labelled("Rotate")
    new = IngestionKey.objects.exclude(pk=old.pk).get()
    assert new.secret in browser.text and "stays live until you revoke it" in browser.text
    browser.follow(f"web ({old.hint}…)")
    browser.follow("Revoke")
    assert "Applications that use this ingestion key stop working immediately." in browser.text
    browser.press("input[value=Revoke]")
    live = IngestionKey.objects.filter(revoked_at=None)
    assert [key.pk for key in live] == [new.pk]
    assert browser.complaints() == []


def test_enter_in_a_products_name_saves_it_and_reveals_nothing(
    as_member: LogIn, acme: Product
) -> None:
    key = IngestionKey.create(acme, "web")
    browser = as_member("manager")
    browser.open(f"/admin/engagement/product/{acme.pk}/change/")
    browser.fill("id_name", "Acme & Sons\n")
    browser.wait_for(".messagelist")
    acme.refresh_from_db()
    assert acme.name == "Acme & Sons"
    assert key.secret not in browser.driver.page_source


def test_a_manager_tries_a_quarantined_message_again_from_the_log(
    as_member: LogIn, acme: Product
) -> None:
    key = IngestionKey.create(acme, "web")
    quarantined(acme, 1_000_001, key, "ada")
    browser = as_member("manager")
    browser.follow("Ingestion")
    assert "In quarantine" in browser.text
    browser.press_labelled("Try again")
    assert "1 message is back in the inbox" in browser.text
    assert not QuarantinedMessage.objects.exists()
    processing.drain(timezone.now)
    assert User.objects.get().external_id == "ada"


def test_a_viewer_meets_no_button_that_changes_something(as_member: LogIn, acme: Product) -> None:
    key = IngestionKey.create(acme, "web")
    quarantined(acme, 1_000_001, key, "ada")
    browser = as_member("viewer", "vera")
    for path in (
        f"/admin/engagement/product/{acme.pk}/change/",
        f"/admin/ingestion/ingestionkey/{key.pk}/change/",
        f"/admin/ingestion/ingestionlog/{acme.pk}/change/",
        "/admin/ingestion/quarantinedmessage/1000001/change/",
        f"/admin/engagement/workspace/{acme.workspaces.get().pk}/change/",
    ):
        browser.open(path)
        assert "Acme" in browser.text
        pressed = {label.lower() for label in browser.labels()}
        forbidden = {"reveal", "rotate", "revoke", "try again", "delete", "save"}
        assert not pressed & forbidden, (path, pressed)
        assert key.secret not in browser.driver.page_source
    assert browser.complaints() == []


def test_a_superuser_names_a_member_by_the_first_letters(as_root: Browser, acme: Product) -> None:
    AdminUser.objects.create_user("vera", is_staff=True)
    as_root.open(f"/admin/engagement/product/{acme.pk}/change/")
    assert not as_root.find("#productmember_set-group").is_displayed()
    as_root.press("a[href='#tab-members']")
    assert as_root.find("a[href='#tab-members']").get_attribute("aria-current") == "true"
    as_root.press("#productmember_set-0 .select2-selection")
    as_root.wait_for(".select2-search__field").send_keys("ver")
    as_root.wait_until(lambda: as_root.texts(".select2-results__option") == ["vera"])
    as_root.press(".select2-results__option")
    as_root.press("#id_productmember_set-0-role option[value=viewer]")
    as_root.press("input[name=_save]")
    # The tab stays.
    assert as_root.path.endswith("#tab-members") and as_root.find("#invites").is_displayed()
    member = ProductMember.objects.get()
    assert (member.user.get_username(), member.role) == ("vera", "viewer")
    assert as_root.complaints() == []
