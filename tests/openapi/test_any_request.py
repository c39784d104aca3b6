"""Any request to the APIs gets a response that the description allows."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from engagement.models import Product, Workspace
from ingestion.inbox import group_commit
from tests.cases import FACTOR
from tests.readapi.scored import account_id, fill, user_id

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# The same requests in every run, and only a few.
FIXED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=10 * FACTOR,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def try_each(method: str, use: Callable[[Case[Any]], None]) -> None:
    """Call *use* with requests to each operation that has this method.

    All in one test: Schemathesis would make its first requests while each process collects tests.
    """
    api = schemathesis.openapi.from_wsgi("/openapi.json", get_wsgi_application())
    operations = [found.ok() for found in api.include(method=method).get_all_operations()]
    assert len(operations) > 10
    for operation in operations:
        FIXED(given(case=operation.as_strategy())(use))()


@pytest.fixture
def no_inbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingestion endpoints that store nothing."""
    monkeypatch.setattr(group_commit, "accept", lambda *_: None)


@pytest.fixture
def one_connection() -> Iterator[None]:
    """Let requests share the test's connection and transaction, as with Django's client."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def filled(acme: Product, one_connection: None, settings: Any) -> Workspace:
    settings.READ_REQUESTS_PER_MINUTE = 0
    return fill(acme)


def test_sending(one_connection: None, no_inbox: None) -> None:
    try_each("POST", lambda case: case.call_and_validate(checks=CHECKS))


def test_reading(filled: Workspace, acme_token: str) -> None:
    # Schemathesis does not decompress what a WSGI application returns.
    headers = {"Authorization": f"Bearer {acme_token}", "Accept-Encoding": "identity"}

    def read(case: Case[Any]) -> None:
        use_existing_ids(case, filled)
        case.call_and_validate(checks=CHECKS, headers=headers)

    try_each("GET", read)


def use_existing_ids(case: Case[Any], filled: Workspace) -> None:
    """Replace positive IDs by existing ones, and leave everything else."""
    existing_ids = {
        "workspace_id": filled.pk,
        "account_id": account_id(filled.product, "initech"),
        "user_id": user_id(filled.product, "ann"),
        "segment_id": filled.segments.all()[0].pk,
    }
    for parameters in (case.query, case.path_parameters):
        for name in parameters.keys() & existing_ids.keys():
            if isinstance(parameters[name], int) and parameters[name] > 0:
                parameters[name] = existing_ids[name]
