"""The release number, and where the service shows it."""

import re
import tomllib

import pytest
from django.conf import settings
from django.test import Client

from config import main
from core.version import VERSION
from proofs import upgrade

HEADING = re.compile(r"^## (?:(\d+)\.(\d+)\.(\d+) \(\d{4}-\d\d-\d\d\)|Unreleased)$", re.MULTILINE)


def test_the_package_and_the_changelog_have_the_number_of_the_code() -> None:
    package = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())
    assert package["project"]["version"] == VERSION
    headings = list(HEADING.finditer((settings.BASE_DIR / "CHANGELOG.md").read_text()))
    releases = [tuple(map(int, heading.groups())) for heading in headings if heading.group(1)]
    own = tuple(map(int, VERSION.split(".")))
    # What is not released yet becomes the release with our number.
    assert own > releases[0] if headings[0].group() == "## Unreleased" else own == releases[0]
    assert releases == sorted(releases, reverse=True)
    # Those before this one are upgraded by a proof.
    proved = [tuple(map(int, number.split("."))) for number in upgrade.RELEASES]
    assert proved == sorted(release for release in releases if release != own)


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_a_command_prints_it(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    main.run_command(["manage.py", argument])
    assert capsys.readouterr().out == f"Engagement Data Service {VERSION}\n"


@pytest.mark.django_db
def test_the_admin_shows_it_to_people_who_are_signed_in(admin_client: Client) -> None:
    assert f"Engagement Data Service {VERSION}" in admin_client.get("/admin/").text
    assert VERSION not in Client().get("/admin/login/").text
