"""Whatever is asked of the APIs, the answer is one that their description names."""

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
# The same requests every time, and few enough for every run of the tests.
FIXED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=20,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)

described = schemathesis.openapi.from_wsgi("/openapi.json", get_wsgi_application())


@pytest.fixture
def nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doors, with nobody who stores what they accept."""
    monkeypatch.setattr(group_commit, "accept", lambda *_: None)


@pytest.fixture
def one_connection() -> Iterator[None]:
    """Requests share the test's connection with its transaction, as those of Django's client."""
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


@described.include(method="POST").parametrize()
@FIXED
def test_of_sending(case: Case[Any], one_connection: None, nothing_behind: None) -> None:
    case.call_and_validate(checks=CHECKS)


@described.include(method="GET").parametrize()
@FIXED
def test_of_reading(case: Case[Any], filled: Workspace, acme_token: str) -> None:
    point_at_what_is_there(case, filled)
    case.call_and_validate(checks=CHECKS, headers={"Authorization": f"Bearer {acme_token}"})


def point_at_what_is_there(case: Case[Any], filled: Workspace) -> None:
    """Put ids that exist in the place of those that do not; what is no id stays as it is."""
    there = {
        "workspace_id": filled.pk,
        "account_id": account_id(filled.product, "initech"),
        "user_id": user_id(filled.product, "ann"),
        "segment_id": filled.segments.all()[0].pk,
    }
    for given in (case.query, case.path_parameters):
        for name in given.keys() & there.keys():
            if isinstance(given[name], int) and given[name] > 0:
                given[name] = there[name]
