"""Static files: browsers keep them, and get new ones after an upgrade."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.templatetags.static import static
from django.test import Client
from django.urls import reverse

from config.web.bundles import BUNDLES
from config.web.static_files import release_digest


@pytest.mark.django_db
def test_browsers_keep_what_a_page_loads() -> None:
    html = Client().get(reverse("admin:login")).content.decode()
    urls = re.findall(r'(?:href|src)="(/static/[^"]+)"', html)
    assert len(urls) > 4
    for url in urls:
        answer = Client().get(url)
        answer.getvalue()
        assert answer.status_code == 200, url
        assert "immutable" in answer.headers["Cache-Control"], url


def test_browsers_keep_the_script_that_forms_wait_for(root: Client) -> None:
    caching = root.get(reverse("admin:jsi18n")).headers["Cache-Control"]
    assert caching == "private, max-age=86400"


def test_what_every_page_needs_is_one_style_sheet_and_one_script(root: Client) -> None:
    html = root.get(reverse("admin:index")).content.decode()
    loaded = re.findall(r'(?:href|src)="/static/[^/]+/([^"]+\.(?:css|js))"', html)
    assert {"config/pages.css", "config/pages.js"} <= set(loaded)
    parts = {part for names in BUNDLES.values() for part in names}
    assert not parts & set(loaded) and len(loaded) <= 10, loaded
    for name, of_name in BUNDLES.items():
        content = b"".join(Client().get(static(name)))
        own = [Path(str(finders.find(part))).read_bytes() for part in of_name]
        assert all(part in content for part in own)


def test_urls_of_other_releases_lead_to_the_current_file() -> None:
    current = static("config/admin.css")
    for url in ("/static/config/admin.css", "/static/0123456789ab/config/admin.css"):
        assert Client().get(url).headers["Location"] == current
    assert Client().get(static("config/nothing.css")).status_code == 404


def test_a_changed_file_changes_the_urls(tmp_path: Path) -> None:
    css = tmp_path / "config" / "static" / "config" / "own.css"
    css.parent.mkdir(parents=True)
    css.write_text("a {}")
    before = release_digest(tmp_path)
    assert before == release_digest(tmp_path)
    css.write_text("b {}")
    changed = release_digest(tmp_path)
    assert changed != before
    image = tmp_path / "docs" / "images" / "own.svg"
    image.parent.mkdir(parents=True)
    image.write_text("<svg/>")
    assert release_digest(tmp_path) != changed
    assert release_digest(settings.BASE_DIR) in settings.STATIC_URL
