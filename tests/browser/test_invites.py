"""A person who is invited opens the link, chooses a password, and is a member."""

import pytest
from django.contrib.auth.models import User as AdminUser

from engagement.models import Product, ProductMember
from tests.browser.browsing import NARROW
from tests.browser.conftest import PASSWORD, LogIn

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_manager_invites_and_the_person_joins(as_member: LogIn, acme: Product) -> None:
    browser = as_member("manager")
    browser.open(f"/admin/engagement/product/{acme.pk}/change/")
    browser.follow("Invite")
    assert browser.find("#id_role").get_attribute("value") == "viewer"
    browser.press("input[value=Invite]")
    link = browser.find(".eds-invite-link").text
    assert browser.find(".eds-copy").text == "Copy"
    browser.follow("Done")
    assert "The holder of the link" in browser.text
    assert browser.complaints() == []
    browser.forget()

    # On a phone, by somebody who has no login.
    browser.resize(NARROW)
    browser.open(link.removeprefix(browser.address))
    assert browser.path == "/invite/"
    assert browser.find("h1").text == "Join Acme"
    assert not browser.is_too_wide()
    browser.fill("id_username", "ada")
    browser.fill("id_password1", PASSWORD)
    browser.fill("id_password2", PASSWORD)
    browser.press("input[type=submit]")
    assert browser.path == f"/admin/?product={acme.pk}"
    member = ProductMember.objects.get(user=AdminUser.objects.get(username="ada"))
    assert (member.product, member.role) == (acme, ProductMember.Role.VIEWER)
    browser.open(link.removeprefix(browser.address))
    assert "This link no longer works" in browser.text
    refused = [complaint for complaint in browser.complaints() if "status of 404" not in complaint]
    assert refused == []
