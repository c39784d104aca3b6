"""``POST /v2/forget``: a program forgets people with a key that may do nothing else."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone

from access.models import TrailEntry
from core import credentials
from core.rate_limits import RateLimit
from engagement.models import Account, DailyCount, ForgottenSubject, Product, User
from engagement.removal import forgetting
from engagement.removal.jobs import ERASE_FORGOTTEN
from ingestion import forget_requests
from ingestion.models import ForgetKey, IngestionKey
from readapi.models import ApiToken
from tests.cases import each
from tests.engagement.history import group, identify, tell, track
from tests.jobs import run_job

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins with all requests of a minute, and its clock stands still."""
    limit = RateLimit(forget_requests.REQUESTS_PER_MINUTE, lambda: 0.0)
    monkeypatch.setattr(forget_requests, "_per_key", limit)


@pytest.fixture
def acme() -> Product:
    product = Product.create_with_workspace("Acme")
    tell(
        product,
        identify("ada", group="initech", traits={"email": "ada@initech.example"}),
        identify("bob", group="initech"),
        group("initech", traits={"name": "Initech"}),
        track("ada", "Report_Created"),
        track("bob", "Report_Created"),
    )
    return product


@pytest.fixture
def key(acme: Product) -> str:
    return ForgetKey.create(acme, "erasure").secret


def forget(secret: Any, body: Any, **headers: Any) -> Any:
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    if secret:
        headers["HTTP_AUTHORIZATION"] = f"Bearer {secret}"
    return Client().post("/v2/forget", text, content_type="application/json", **headers)


def test_a_user_is_erased_with_events_and_a_repeat_changes_nothing(acme: Product, key: str) -> None:
    answer = forget(key, {"userId": "ada"})
    assert answer.status_code == 200
    first = answer.json()
    assert first["scope"] == "user" and first["suppressed"] is False
    assert first["erased"] == ["id", "traits", "scores", "waiting messages"]
    assert not User.objects.filter(external_id="ada").exists()
    run_job(ERASE_FORGOTTEN, timezone.now())
    assert DailyCount.objects.filter(product=acme).count() == 1
    repeat = forget(key, {"userId": "ada"}).json()
    assert repeat == first | {"forgottenAt": repeat["forgottenAt"]}
    assert list(User.objects.values_list("external_id", flat=True)) == ["bob"]


def test_an_account_is_erased_and_its_users_stay(acme: Product, key: str) -> None:
    assert forget(key, {"groupId": "initech"}).json()["scope"] == "account"
    assert not Account.objects.filter(external_id="initech").exists()
    assert User.objects.filter(is_identified=True).count() == 2


def test_suppressed_ids_stay_away_and_repeats_leave_one_row(acme: Product, key: str) -> None:
    for _ in range(3):
        assert forget(key, {"userId": "ada", "suppress": True}).json()["suppressed"] is True
        run_job(ERASE_FORGOTTEN, timezone.now())
    tell(acme, identify("ada"))
    assert not User.objects.filter(external_id="ada").exists()
    assert ForgottenSubject.objects.count() == 1


def test_the_trail_says_who_asked_without_the_id(acme: Product, key: str) -> None:
    forget(key, {"userId": "ada"})
    entry = TrailEntry.objects.get(action=TrailEntry.Action.FORGOTTEN)
    assert (entry.product_id, entry.person) == (acme.pk, "forget key erasure")
    assert entry.address == "127.0.0.1"
    assert "ada" not in str(vars(entry)) and key not in str(vars(entry))


def test_somebody_of_another_product_is_not_erased(acme: Product) -> None:
    globex = ForgetKey.create(Product.create_with_workspace("Globex"), "erasure").secret
    # The answer does not tell that somebody else has this user.
    assert forget(globex, {"userId": "ada"}).status_code == 200
    assert User.objects.filter(product=acme, external_id="ada").exists()


@each("kind", ["none", "ingestion", "read", "revoked", "expired", "unknown", "deleted"])
def test_no_other_key_may_forget(kind: str, acme: Product) -> None:
    now = timezone.now()
    own = ForgetKey.create(acme, "own")
    secrets = {
        "none": "",
        "ingestion": IngestionKey.create(acme, "web").secret,
        "read": ApiToken.create(acme, "crm").secret,
        "unknown": credentials.generate("edf"),
    }
    match kind:
        case "revoked":
            ForgetKey.objects.update(revoked_at=now)
        case "expired":
            ForgetKey.objects.update(expires_at=now - timedelta(seconds=1))
        case "deleted":
            Product.objects.update(deletion_requested_at=now)
    answer = forget(secrets.get(kind, own.secret), {"userId": "ada"})
    assert answer.status_code == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "invalid_key"
    assert User.objects.filter(external_id="ada").exists()
    ForgetKey.objects.all().delete()
    Product.objects.update(deletion_requested_at=None)


def test_a_forget_key_can_neither_send_nor_read(acme: Product, key: str) -> None:
    reading = Client().get("/v2/workspaces", headers={"Authorization": f"Bearer {key}"})
    assert reading.status_code == 401
    body = {"userId": "eve"}
    authorization = {"Authorization": f"Basic {key}"}
    report = Client().post(
        "/v2/validate/identify", body, content_type="application/json", headers=authorization
    )
    assert report.json()["key"] != "valid"


@each(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"userId": ""}',
        '{"userId": "a", "groupId": "b"}',
        '{"userId": 7}',
        '{"userId": "a", "suppress": "yes"}',
        '{"userId": "\\u0000"}',
        b"\xff",
        '{"userId": "' + "x" * 513 + '"}',
    ],
)
def test_bad_input_gets_a_sentence_and_erases_nothing(
    body: str | bytes, acme: Product, key: str
) -> None:
    answer = forget(key, body)
    assert answer.status_code == 400 and answer.json()["error"]["message"]
    assert not ForgottenSubject.objects.exists()


def test_too_many_requests_and_too_large_ones_are_refused(acme: Product, key: str) -> None:
    assert forget(key, " " * 70_000).status_code == 413
    forget_requests._per_key.take(ForgetKey.objects.get().pk, forget_requests.REQUESTS_PER_MINUTE)
    answer = forget(key, "{}")
    assert answer.status_code == 429 and answer.headers["Retry-After"] == "1"


def test_without_the_database_nothing_is_promised(
    acme: Product, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DatabaseError("planted")

    monkeypatch.setattr(forgetting, "forget", fail)
    answer = forget(key, {"userId": "ada"})
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "5"
    assert "planted" not in answer.content.decode()


def test_pages_of_other_origins_may_not_call_it(acme: Product, key: str) -> None:
    answer = forget(key, {"userId": "ada"}, HTTP_ORIGIN="https://example.com")
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert Client().options("/v2/forget").status_code == 405
