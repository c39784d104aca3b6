"""Any request to the APIs gets a response that the description allows."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections

from engagement.models import Product, Workspace
from ingestion.inbox import group_commit
from tests.readapi.scored import account_id, fill, user_id


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


@pytest.mark.slow
def test_sending(db: None, one_connection: None, no_inbox: None) -> None:
    from tests.openapi.drawing import CHECKS, try_each

    def send(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    try_each("POST", send)


@pytest.mark.slow
def test_reading(filled: Workspace, acme_token: str) -> None:
    from tests.openapi.drawing import CHECKS, try_each

    # Schemathesis does not decompress what a WSGI application returns.
    headers = {"Authorization": f"Bearer {acme_token}", "Accept-Encoding": "identity"}

    def read(case: Any) -> None:
        use_existing_ids(case, filled)
        case.call_and_validate(checks=CHECKS, headers=headers)

    try_each("GET", read)


def use_existing_ids(case: Any, filled: Workspace) -> None:
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
