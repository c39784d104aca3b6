"""Named actors: ``acme`` is our customer, ``globex`` is somebody else's."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import TransactionTestCase
from hypothesis import HealthCheck, settings
from pytest_django import DjangoDbBlocker
from whitenoise.middleware import WhiteNoiseMiddleware

from config.local.postgres import DATABASE
from engagement.models import Product
from ingestion import refusals
from ingestion.inbox import group_commit, quotas
from ingestion.models import IngestionKey
from readapi.models import ApiToken
from tests.cases import scaled
from tests.database import CITUS, TEST_DATABASE
from tests.emptying import Fresh

# Of properties that say nothing themselves. Hypothesis tries 100. A slow machine fails none.
settings.register_profile(
    "tests",
    max_examples=scaled(20),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tests")


@pytest.fixture(scope="session", autouse=True)
def counted_at_the_end_only() -> Iterator[None]:
    """Have the inbox's thread write how much was accepted when it ends, and not some seconds later,
    in the middle of a test that may not touch the database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_commit, "COUNTS_WRITE_INTERVAL", 3600.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def any_number_of_messages_without_a_valid_key() -> Iterator[None]:
    """Store them all: what a test sees must not depend on what others before it have sent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quotas, "UNKNOWN_BURST", 1e9)
        patch.setattr(quotas, "UNKNOWN_PER_SECOND", 1e9)
        yield


@pytest.fixture(scope="session", autouse=True)
def refused_requests_are_saved_on_request_only() -> Iterator[None]:
    """Have the thread that lists refused requests save nothing in the middle of a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refusals, "SAVE_DELAY", 3600.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def static_files_found_once() -> Iterator[None]:
    """Each test client has a handler of its own, whose WhiteNoise would look for all static files
    anew: that took half of the time of a test that asks for a page."""
    find = WhiteNoiseMiddleware.add_files_from_finders
    paths: dict[str, Any] = {}

    def find_once(whitenoise: WhiteNoiseMiddleware) -> None:
        if not paths:
            find(whitenoise)
            paths.update(whitenoise.files)
        whitenoise.files.update(paths)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", find_once)
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """Create the tests' database as a copy of the service's, which is migrated where tests run in
    several processes. On a cluster it exists, and is migrated and distributed."""
    test = connection.settings_dict["TEST"]
    if CITUS is None:
        test["TEMPLATE"] = DATABASE
    else:
        # Each process has a cluster of its own, and would add its name to the database's.
        test["NAME"] = TEST_DATABASE


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Nobody can drop the database of a cluster that ends with the tests."""
    return CITUS is not None


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Have tests that commit leave the database as they found it.

    End the inbox's thread before the test database is dropped: it holds a connection, and counts
    at its end what it took."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        fresh = Fresh()
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: fresh.restore())
        with django_db_blocker.block():
            yield
        group_commit.stop()


@pytest.fixture
def acme(db: None) -> Product:
    return Product.create_with_workspace("Acme")


@pytest.fixture
def globex(db: None) -> Product:
    return Product.create_with_workspace("Globex")


@pytest.fixture
def acme_key(acme: Product) -> str:
    return IngestionKey.create(acme, "test").secret


@pytest.fixture
def acme_token(acme: Product) -> str:
    return ApiToken.create(acme, "test").secret


@pytest.fixture
def globex_token(globex: Product) -> str:
    return ApiToken.create(globex, "test").secret
