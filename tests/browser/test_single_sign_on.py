"""A person signs in at a certified OpenID provider, in a browser. ``tests/clients/run`` installs
it."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User as AdminUser
from pytest_django import Settings

from config.sign_in import oidc, role_mapping
from engagement.models import Product, ProductMember
from tests.browser.browsing import NARROW, Browser
from tests.clients.conftest import HERE, need
from tests.start.running import free_port

pytestmark = pytest.mark.django_db(transaction=True)

PROGRAM = HERE / "programs" / "identity_provider.mjs"


@pytest.fixture
def issuer(browser: Browser, settings: Settings) -> Iterator[str]:
    node = shutil.which("node")
    need(node, "Node.js")
    assert node
    need((HERE / "node_modules" / "oidc-provider").is_dir(), "oidc-provider")
    port = free_port()
    callback = f"{browser.address}/admin/login/single-sign-on/callback/"
    running = subprocess.Popen(
        [node, PROGRAM, str(port), callback],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert running.stdout is not None and running.stdout.readline() == "ready\n"
        settings.OIDC = oidc(
            issuer=f"http://localhost:{port}",
            client_id="eds",
            client_secret="a secret: of the client",
            name="Example ID",
            scopes="openid email profile",
            groups_claim="groups",
            trusts_emails=False,
        )
        yield settings.OIDC["issuer"]
    finally:
        running.kill()
        running.communicate()


def test_a_person_signs_in_at_a_certified_provider(
    browser: Browser, issuer: str, acme: Product, settings: Settings
) -> None:
    settings.SSO_CREATES_LOGINS = True
    settings.SSO_GROUPS = role_mapping("EDS_SSO_GROUPS", "growth=Acme:manager")
    browser.resize(NARROW)
    browser.open(f"/admin/engagement/product/{acme.pk}/change/")
    assert not browser.is_too_wide()
    browser.follow("Log in with Example ID")
    assert browser.driver.current_url.startswith(f"{issuer}/interaction/")
    browser.driver.find_element("name", "login").send_keys("ada")
    browser.driver.find_element("name", "password").send_keys("anything")
    browser.press("button[type=submit]")
    browser.press("button[type=submit]")
    assert browser.path == f"/admin/engagement/product/{acme.pk}/change/"
    login = AdminUser.objects.get()
    assert (login.username, login.get_full_name()) == ("ada@example.com", "Ada Lovelace")
    assert ProductMember.objects.get(user=login).role == ProductMember.Role.MANAGER
    # A change of the second factors asks the provider for the password again.
    browser.open("/admin/account/")
    assert "Single sign-on" in browser.text and "Change password" not in browser.text
