"""Any request to the APIs gets a response that the description allows."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from engagement.models import Product, Workspace
from ingestion.inbox import group_commit
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
    max_examples=20,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)

# Without the thousands of requests that the coverage phase lists, 130 for each operation. Each test
# process would compute them all. The tests of each parameter and each field have its limits.
FEW = SchemathesisConfig.from_dict({"phases": {"coverage": {"enabled": False}}})

api = schemathesis.openapi.from_wsgi("/openapi.json", get_wsgi_application(), config=FEW)


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


@api.include(method="POST").parametrize()
@FIXED
def test_sending(case: Case[Any], one_connection: None, no_inbox: None) -> None:
    case.call_and_validate(checks=CHECKS)


@api.include(method="GET").parametrize()
@FIXED
def test_reading(case: Case[Any], filled: Workspace, acme_token: str) -> None:
    use_existing_ids(case, filled)
    # Schemathesis does not decompress what a WSGI application returns.
    headers = {"Authorization": f"Bearer {acme_token}", "Accept-Encoding": "identity"}
    case.call_and_validate(checks=CHECKS, headers=headers)


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
