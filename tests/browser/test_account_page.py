"""The page of a large account loads its history after the rest."""

import pytest
from django.urls import reverse

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
