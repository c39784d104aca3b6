"""Reading ends in time."""

import pytest
from django.test import Client
from rest_framework.response import Response

from engagement.database import sql
from readapi.views import base
from readapi.views.workspaces import WorkspaceList


def slow(self: WorkspaceList) -> Response:
    sql.fetch("SELECT pg_sleep(60)")
    return Response({})


@pytest.mark.django_db(transaction=True)
def test_a_statement_that_takes_too_long_is_answered_503(
    client: Client, acme_token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "READ_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(WorkspaceList, "build_response", slow)
    headers = {"Authorization": f"Bearer {acme_token}"}
    answer = client.get("/v2/workspaces", headers=headers)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "5"
    assert answer.json()["error"]["code"] == "unavailable"
    monkeypatch.undo()
    assert client.get("/v2/workspaces", headers=headers).status_code == 200
