from collections.abc import Iterator

import pytest
from pytest_django import Settings

from access.admin.sign_in import _provider
from config import sign_in
from tests.admin.conftest import member as member
from tests.admin.conftest import root as root
from tests.logins.provider import CLIENT_ID, CLIENT_SECRET, Behavior, Provider


@pytest.fixture(scope="session")
def running_provider() -> Iterator[Provider]:
    with Provider() as running:
        yield running


@pytest.fixture
def provider(running_provider: Provider, settings: Settings) -> Provider:
    """The provider of the settings, which behaves well."""
    running_provider.behavior = Behavior()
    # What a process remembers of its provider.
    _provider.cache_clear()
    settings.OIDC = sign_in.oidc(
        issuer=running_provider.issuer,
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        name="Example ID",
        scopes="openid email profile",
        groups_claim="groups",
        trusts_emails=False,
    )
    return running_provider


@pytest.fixture(autouse=True)
def quickly_checked(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
