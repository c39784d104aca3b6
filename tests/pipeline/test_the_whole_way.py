"""From a request to a score that the read API tells, in both wire formats."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from engagement.models import Product
from engagement.rescoring import rescore
from tests.ingestion.examples import PATHS
from tests.pipeline.conftest import Post
from tests.pipeline.waiting import drain, dropped, places_of, quarantined, waiting

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime.now(UTC).replace(microsecond=0)
HOUR_AGO = NOW - timedelta(hours=1)

Sent = list[tuple[str, dict[str, Any]]]


def v2(key: str) -> Sent:
    """Milton works a lot at Initech, Peter a little at Globex."""
    at = HOUR_AGO.isoformat()
    milton = {"email": "Milton@Initech.example", "name": "Milton", "age": 55}
    return [
        ("/v2/identify", {"userId": "milton", "traits": milton, "groupId": "initech"}),
        ("/v2/identify", {"userId": "peter", "traits": {"email": "peter@globex.example"}}),
        ("/v2/group", {"groupId": "initech", "traits": {"name": "Initech"}}),
        ("/v2/group", {"groupId": "globex", "userId": "peter", "traits": {"name": "Globex"}}),
        *[("/v2/track", {"userId": "milton", "event": "stapled", "timestamp": at})] * 9,
        *[("/v2/track", {"userId": "peter", "event": "stapled", "timestamp": at})] * 3,
    ]


def v1(key: str) -> Sent:
    """The same facts as ``v2``, as a legacy client tells them."""
    spelled = {"userId": "user_id", "groupId": "group_id"}
    moved = {"/v2/identify": "/v1/users", "/v2/group": "/v1/groups", "/v2/track": "/v1/events"}
    requests: Sent = []
    for path, body in v2(key):
        legacy = {spelled.get(name, name): value for name, value in body.items()}
        if "timestamp" in legacy:
            legacy["timestamp"] = int(HOUR_AGO.timestamp()) * 1000
        requests.append((moved[path], {"api_key": key, **legacy}))
    return requests


def read(token: str, path: str, **parameters: Any) -> Any:
    client = Client(headers={"authorization": f"Bearer {token}"})
    response = client.get(path, parameters)
    assert response.status_code == 200
    return response.json()["data"]


@pytest.mark.parametrize("sent_as", [v2, v1])
def test_what_is_posted_comes_back_ranked_and_scored(
    sent_as: Any, post: Post, acme: Product, acme_key: str, acme_token: str
) -> None:
    for path, body in sent_as(acme_key):
        headers = {} if path.startswith("/v2") else {"HTTP_AUTHORIZATION": ""}
        assert post(path, body, **headers).status_code == 202
    drain(timezone.now())
    assert (waiting(), quarantined(), dropped()) == ([], [], [])
    rescore.rescore(timezone.now())

    workspace = {"workspace_id": acme.workspaces.get().pk}
    accounts = read(acme_token, "/v2/accounts", **workspace)
    assert [account["tracking_id"] for account in accounts] == ["initech", "globex"]
    assert [account["name"] for account in accounts] == ["Initech", "Globex"]
    assert accounts[0]["score"] > accounts[1]["score"] > 0
    assert [account["active_users"] for account in accounts] == [1, 1]

    by_email = {"match_type": "email", "match_value": "milton@initech.example"}
    (milton,) = read(acme_token, "/v2/users", **workspace, **by_email)
    assert (milton["tracking_id"], milton["name"]) == ("milton", "Milton")
    assert milton["account"]["tracking_id"] == "initech"
    assert datetime.fromisoformat(milton["last_active_at"]) == HOUR_AGO

    everybody = read(acme_token, "/v2/users", **workspace)
    assert [account["tracking_id"] for account in everybody] == ["milton", "peter"]
    assert milton["score"] == everybody[0]["score"] > everybody[1]["score"] > 0


def test_properties_are_found_nowhere(post: Post, acme_key: str) -> None:
    """Nor is what else is unknown, nor the key; the trait shows that the search would find it."""
    unknown = {
        "properties": {"planted-name": "planted-value"},
        "context": {"ip": "planted-value", "page": {"url": "planted-value"}},
        "integrations": {"planted-name": True},
        "planted-name": ["planted-value"],
        "api_key": acme_key,
    }
    ids = {"userId": "ada", "user_id": "ada", "groupId": "g", "group_id": "g", "event": "x"}
    for path in PATHS:
        assert post(path, {**ids, "traits": {"trait": "found-trait"}, **unknown}).status_code == 202
    wrong_key = post("/v2/track", {**ids, **unknown}, HTTP_AUTHORIZATION="Basic planted-key")
    assert wrong_key.status_code == 202
    assert places_of("found-trait") == {"ingestion_inboxmessage.payload"}
    assert places_of("planted") == set()
    drain(timezone.now())
    rescore.rescore(timezone.now())
    assert [reason for _, reason in dropped()] == ["unknown_key"]
    assert places_of("found-trait") == {"engagement_user.traits", "engagement_account.traits"}
    assert places_of("planted") == set()
    assert places_of(acme_key) == set()
