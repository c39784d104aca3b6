"""Slow requests are canceled."""

import pytest
from django.test import Client
from rest_framework.response import Response

from core.database import sql
from readapi.views import base
from readapi.views.workspaces import WorkspaceList


def slow(self: WorkspaceList) -> Response:
    sql.fetch("SELECT pg_sleep(60)")
    return Response({})


@pytest.mark.django_db(transaction=True)
def test_a_slow_statement_returns_503(
    client: Client, acme_token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "READ_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(WorkspaceList, "build_response", slow)
    headers = {"Authorization": f"Bearer {acme_token}"}
    response = client.get("/v2/workspaces", headers=headers)
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "5"
    assert response.json()["error"]["code"] == "unavailable"
    monkeypatch.undo()
    assert client.get("/v2/workspaces", headers=headers).status_code == 200
