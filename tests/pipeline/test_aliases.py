"""What the read API says after an alias came through the door."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from core.database import locks, retries
from engagement.messages import Message
from engagement.models import Product, User
from engagement.recording import aliases
from engagement.recording.record import record
from engagement.rescoring import rescore
from tests.engagement.history import alias, identify, received, state, track
from tests.pipeline.conftest import Post
from tests.pipeline.waiting import at_once, drain, dropped

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = "ada@example.com", "u-17"
AT = datetime.now(UTC) - timedelta(hours=1)


def message(kind: str, minutes: int, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": (AT + timedelta(minutes=minutes)).isoformat(), **fields}


IDENTIFIED = [
    message("identify", 0, userId=OLD, traits={"email": OLD, "plan": "free"}),
    message("group", 1, userId=OLD, groupId="initech", traits={"name": "Initech"}),
    message("identify", 2, userId=NEW, traits={"name": "Ada", "plan": "pro"}),
    message("group", 3, userId=NEW, groupId="initech"),
]
TRACKED = [
    *[message("track", 4, userId=OLD, event="Opened")] * 3,
    *[message("track", 5, userId=NEW, event="Opened")] * 2,
]
BY_OLD_ID = {"match_type": "tracking_id", "match_value": OLD}
ALIAS = message("alias", 6, userId=NEW, previousId=OLD, messageId="alias 1")


def read(token: str, path: str, **parameters: Any) -> Any:
    client = Client(headers={"authorization": f"Bearer {token}"})
    return client.get(path, parameters).json()["data"]


def settle() -> None:
    drain(timezone.now())
    rescore.rescore(timezone.now())


@pytest.mark.parametrize("order", [1, -1])
def test_two_ids_are_one_user_in_the_read_api(
    order: int, post: Post, acme: Product, acme_token: str
) -> None:
    scope = {"workspace_id": acme.workspaces.get().pk}
    old = ""
    for part in [IDENTIFIED, TRACKED, [ALIAS, ALIAS]][::order]:
        assert post("/segment/v1/batch", {"batch": part}).status_code == 200
        settle()
        if order == 1 and part is TRACKED:
            old = read(acme_token, "/v2/users", **scope, **BY_OLD_ID)[0]["id"]
    assert [reason for _, reason in dropped()] == ["duplicate"]

    (user,) = read(acme_token, "/v2/users", **scope)
    assert (user["tracking_id"], user["name"], user["email"]) == (NEW, "Ada", OLD)
    assert read(acme_token, "/v2/users", **scope, **BY_OLD_ID) == [user]
    for id in {user["id"], old or user["id"]}:
        full = read(acme_token, f"/v2/users/{id}", **scope, expand="traits,events")
        assert full["id"] == user["id"]
        assert full["traits"]["plan"] == "pro"
        assert [event["count"] for event in full["events"]] == [5]
    (account,) = read(acme_token, "/v2/accounts", **scope)
    assert account["active_users"] == 1


def test_the_short_address_joins_and_too_many_ids_are_listed(
    post: Post, acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aliases, "MAX_IDS_PER_USER", 2)
    assert post("/segment/v1/a", {"userId": NEW, "previousId": OLD}).status_code == 200
    assert post("/segment/v1/alias", {"userId": NEW, "previousId": "other"}).status_code == 200
    drain(timezone.now())
    assert [reason for _, reason in dropped()] == ["alias"]
    assert User.objects.get(external_id=OLD).joined_to == User.objects.get(external_id=NEW)


def test_the_admin_finds_a_user_by_an_old_id_and_names_it(post: Post, acme: Product) -> None:
    post("/segment/v1/batch", {"batch": [*IDENTIFIED, *TRACKED, ALIAS]})
    settle()
    browser = Client()
    browser.force_login(AdminUser.objects.create_superuser("root"))
    page = browser.get(reverse("admin:engagement_user_changelist"), {"q": OLD}, follow=True)
    assert [user.external_id for user in page.context["subjects"]] == [NEW]
    (user,) = page.context["subjects"]
    text = browser.get(reverse("admin:engagement_user_change", args=[user.pk])).content.decode()
    assert "Also known as" in text and OLD in text
    log = reverse("admin:ingestion_ingestionlog_change", args=[acme.pk])
    assert "Opened" in browser.get(log, {"q": OLD}).content.decode()


@pytest.mark.slow
@pytest.mark.whole
def test_workers_side_by_side_leave_one_user(acme: Product) -> None:
    """Each round, four workers name two ids at once, and two aliases contradict each other."""

    def work(*messages: Message) -> Callable[[], None]:
        batch = received(acme, messages)

        def record_batch() -> None:
            with transaction.atomic():
                locks.share_lock_products([acme.pk])
                record(batch)

        return lambda: retries.retry_on_conflict(record_batch)

    for number in range(8):
        old, new = f"old {number}", f"new {number}"
        at_once(
            work(identify(old, -2, "initech", plan="free"), track(old, hours=-1)),
            work(alias(old, new, 1), track(new)),
            work(identify(new, -1, "hooli", plan="pro"), track(old)),
            work(alias(new, old), identify(new, -3)),
        )
    state_after = state(acme)
    assert state_after["joined ids"] == {f"old {number}": f"new {number}" for number in range(8)}
    assert {name: row[0] for name, row in state_after["users"].items()} == {
        f"new {number}": {"plan": "pro"} for number in range(8)
    }
    assert Counter((user, account) for _, user, _, _, account in state_after["events"]) == {
        (f"new {number}", "hooli"): 3 for number in range(8)
    }
