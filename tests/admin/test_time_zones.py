"""Each login sees times in a time zone of its own: the chosen one, the browser's, or UTC."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from access.logins.time_zones import COOKIE, offered_time_zones
from access.models import LoginPreferences
from engagement.models import AccountEngagement, UserEngagement
from tests.admin.conftest import logged_in
from tests.admin.rows import NOON, Rows
from tests.admin.test_subject_pages import account_page, counted

pytestmark = pytest.mark.django_db
PREFERENCES = "/admin/preferences/"


@pytest.fixture(autouse=True)
def active_an_hour_ago(acme_rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    for rows in (UserEngagement.objects, AccountEngagement.objects):
        rows.update(last_active_at=NOON - timedelta(hours=1))


def last_active(client: Client, rows: Rows) -> str:
    """The exact time in the tooltip of an account's last activity."""
    html = client.get(account_page(rows)).content.decode()
    (title,) = set(re.findall(r'title="([^"]*)">1 hour ago</time>', html))
    return str(title)


def test_a_login_sees_times_in_the_zone_that_it_chose(
    root: Client, member: Client, acme_rows: Rows
) -> None:
    assert last_active(root, acme_rows) == "2026-03-02 11:00:00 UTC"
    page = root.get(PREFERENCES).content.decode()
    assert '<option value="Europe/Berlin">Berlin</option>' in page and "in UTC." in page
    assert root.post(PREFERENCES, {"time_zone": "Europe/Berlin"}).status_code == 302
    assert last_active(root, acme_rows) == "2026-03-02 12:00:00 CET"
    assert '"Europe/Berlin" selected' in root.get(PREFERENCES).content.decode()
    # Nobody else's pages change, and the choice is there after the next sign-in.
    assert last_active(member, acme_rows) == "2026-03-02 11:00:00 UTC"
    again = logged_in(AdminUser.objects.get(username="root"))
    assert last_active(again, acme_rows) == "2026-03-02 12:00:00 CET"
    # A dropped choice leaves it to the browser.
    root.post(PREFERENCES, {"time_zone": ""})
    root.cookies[COOKIE] = "Asia/Kolkata"
    assert last_active(root, acme_rows) == "2026-03-02 16:30:00 IST"
    assert LoginPreferences.objects.get().time_zone == ""


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "\x00", ""])
def test_what_is_no_time_zone_is_refused_or_ignored(
    root: Client, acme_rows: Rows, zone: str
) -> None:
    root.cookies[COOKIE] = zone.replace("\x00", "%00")
    assert last_active(root, acme_rows) == "2026-03-02 11:00:00 UTC"
    if zone:
        refused = root.post(PREFERENCES, {"time_zone": zone})
        assert "Choose a time zone from the list." in refused.content.decode()
        assert not LoginPreferences.objects.exists()


def test_days_of_scores_stay_days_of_utc(root: Client, acme_rows: Rows) -> None:
    counted(acme_rows)
    before = root.get(account_page(acme_rows)).context["summary"]
    # Where it is already tomorrow.
    root.post(PREFERENCES, {"time_zone": "Pacific/Kiritimati"})
    response = root.get(account_page(acme_rows))
    assert "Scores are of UTC days." in response.content.decode()
    for name in ("score", "chart", "events", "change"):
        assert getattr(response.context["summary"], name) == getattr(before, name), name


def test_lists_and_the_log_follow_the_zone(root: Client, acme_rows: Rows) -> None:
    root.post(PREFERENCES, {"time_zone": "Europe/Berlin"})
    keys = root.get(reverse("admin:ingestion_ingestionkey_changelist")).content.decode()
    assert re.search(
        r'class="field-created_at[^"]*"><time datetime="[^"]+" title="[^"]+ CES?T">', keys
    )
    home = root.get("/admin/").content.decode()
    assert "Messages per hour (UTC)" not in home
    log = reverse("admin:ingestion_ingestionlog_change", args=[acme_rows.product.pk])
    html = root.get(log, {"q": "acme-user"}).content.decode()
    assert " CET" in html and " UTC</div>" not in html


def test_only_names_that_people_choose_are_offered() -> None:
    zone_names = [name for names in offered_time_zones().values() for name in names]
    assert "Europe/Berlin" in zone_names and "America/Argentina/Buenos_Aires" in zone_names
    assert not [name for name in zone_names if name.startswith(("Etc/", "SystemV/", "US/"))]
