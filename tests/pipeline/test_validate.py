"""POST /v2/validate says what would become of a request, and accepts nothing of it."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from config.server import handover
from core import credentials
from core.rate_limits import RateLimit
from engagement.models import Product
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.recording.trait_limits import MAX_TRAITS
from engagement.removal import forgetting
from ingestion import views
from ingestion.drain import processing
from ingestion.models import DropReason, InboxMessage, IngestionKey, RefusedCount
from readapi.models import ApiToken
from tests.engagement.history import group, identify
from tests.ingestion.examples import MINIMAL
from tests.pipeline.conftest import Post
from tests.pipeline.waiting import drain, wait

pytestmark = pytest.mark.django_db(transaction=True)

AT_NO_TIME = {"timestamp": "x"}
TRACK = {"userId": "ada", "event": "opened"}


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_per_key", "_per_address"):
        monkeypatch.setattr(views, name, RateLimit(1_000_000))


def validate(post: Post, path: str, body: Any, **headers: Any) -> Any:
    response = post(path, body, **headers)
    assert response.status_code == 200, response.content
    return response.json()


def only(answer: Any) -> Any:
    (message,) = answer["messages"]
    return message


def test_it_says_what_would_be_recorded_and_records_nothing(
    post: Post, acme: Product, acme_key: str
) -> None:
    for path, kind in (
        ("/v2/validate/track", "track"),
        ("/v2/validate/", "track"),
        ("/v2/validate", "identify"),
    ):
        now = timezone.now()
        body = {"type": kind, **TRACK, "context": {"groupId": "org"}, "timestamp": now.isoformat()}
        body |= {"traits": {"plan": "free"}, "messageId": "m1", "properties": {"a": 1}}
        answer = validate(post, path, body)
        assert (answer["status"], answer["key"]) == (202, "valid")
        assert answer["product"] is None and "error" not in answer
        outcome = only(answer)
        is_track = kind == "track"
        assert outcome["outcome"] == "accepted"
        assert outcome["message"] == {
            "type": kind,
            "userId": "ada",
            "previousId": None,
            "groupId": "org" if is_track else None,
            "event": "opened" if is_track else None,
            "traits": None if is_track else {"plan": "free"},
            "timestamp": now.isoformat().replace("+00:00", "Z"),
            "timestampFrom": "message",
            "messageId": "m1",
        }
    assert not InboxMessage.objects.exists() and not RefusedCount.objects.exists()
    # It may take a second, so it is none of the ingestion processes' work.
    assert handover.process_kind(b"/v2/validate/track") == handover.PAGES


def test_a_refused_request_gets_the_very_error_of_its_endpoint(post: Post, acme: Product) -> None:
    bodies: list[Any] = [b"{", [], {}, {"userId": 17}, AT_NO_TIME, b" " * 70_000]
    for kind in ("identify", "group", "track"):
        for body in bodies:
            body_at_no_time = {**MINIMAL[f"/v2/{kind}"], **body} if body == AT_NO_TIME else body
            refusal = post(f"/v2/{kind}", body_at_no_time)
            answer = validate(post, f"/v2/validate/{kind}", body_at_no_time)
            assert answer["error"] == refusal.json()["error"]
            assert answer["status"] == refusal.status_code >= 400
            assert (answer["messages"], answer["product"]) == ([], None)
    answer = validate(post, "/v2/validate", TRACK)
    assert answer["error"]["field"] == "type" and "identify, group, track" in str(answer)
    assert validate(post, "/v2/validate/batch", {"batch": 1})["error"]["field"] == "batch"


def test_a_key_that_is_not_valid_learns_why_and_nothing_else(
    post: Post, acme: Product, acme_token: str, acme_key: str
) -> None:
    wait(acme_key, identify("ada"))
    drain()
    unknown = credentials.generate(IngestionKey.PREFIX)
    revoked = IngestionKey.create(acme, "old")
    IngestionKey.objects.filter(pk=revoked.pk).update(revoked_at=timezone.now())
    for header, reason in (
        ("", DropReason.MISSING_KEY),
        (f"Basic {unknown}", DropReason.UNKNOWN_KEY),
        ("Basic hunter2", DropReason.UNKNOWN_KEY),
        (f"Basic {revoked.secret}", DropReason.REVOKED_KEY),
        (f"Basic {acme_token}", DropReason.READ_TOKEN),
    ):
        answer = validate(post, "/v2/validate/track", TRACK, HTTP_AUTHORIZATION=header)
        assert (answer["key"], answer["product"]) == (reason.value, None)
        outcome = only(answer)
        assert (outcome["outcome"], outcome["reason"]) == ("dropped", reason.value)
        assert reason.label in outcome["explanation"]
        assert "Acme" not in str(answer)
        error = validate(post, "/v2/validate/track", {}, HTTP_AUTHORIZATION=header)
        assert (error["key"], error["product"], error["status"]) == (reason.value, None, 400)


def test_a_key_learns_nothing_of_what_is_stored(
    post: Post, acme: Product, acme_key: str, acme_token: str
) -> None:
    """Browsers show a key to everybody."""
    wait(acme_key, identify("ada"), identify("gone"))
    assert post("/v2/identify", {"userId": "ada", "messageId": "m1"}).status_code == 202
    drain()
    forgotten_user = SubjectRef(acme.pk, SubjectScope.USER, "gone")
    forgetting.forget(forgotten_user, timezone.now(), suppress=True)
    reports = []
    for user, message_id in (("ada", "m1"), ("bob", "m2"), ("gone", "m3")):
        old = (timezone.now() - timedelta(days=20)).isoformat()
        body = {"userId": user, "event": "x", "messageId": message_id, "timestamp": old}
        report = validate(post, "/v2/validate/track", body)
        assert "Acme" not in str(report)
        outcome = only(report)
        assert (outcome["outcome"], outcome["reason"], outcome["notes"]) == ("accepted", None, [])
        reports.append(outcome["explanation"])
    assert len(set(reports)) == 1


def test_a_read_token_sees_what_a_message_would_meet(
    post: Post, acme: Product, acme_key: str, acme_token: str, settings: Settings
) -> None:
    wait(acme_key, identify("ada"))
    drain()

    def ask(token: str, body: Any = TRACK) -> Any:
        return post("/v2/validate/track", body, HTTP_AUTHORIZATION=f"Bearer {token}")

    answer = ask(acme_token).json()
    assert (answer["key"], answer["product"]) == ("read_token", {"name": "Acme"})
    assert only(answer)["outcome"] == "recorded"
    assert only(ask(acme_token, {**TRACK, "userId": "bob"}).json())["outcome"] == "waiting"
    assert ask(acme_token, {}).json()["error"]["field"] == "userId"
    assert ask("eds_unknown").status_code == 401
    for rights in ({"reads": ApiToken.Reads.ACCOUNTS}, {"hides_user_traits": True}):
        refused = ask(ApiToken.create(acme, "less", **rights).secret)
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "insufficient_rights"
    settings.READ_REQUESTS_PER_MINUTE = 1
    assert ask(acme_token).status_code == 429


def test_each_reason_of_the_drain_is_told_before(
    post: Post, acme: Product, acme_key: str, acme_token: str
) -> None:
    now = timezone.now()
    forgotten_user = SubjectRef(acme.pk, SubjectScope.USER, "gone")
    wait(acme_key, identify("gone"), identify("ada"), group("org"))
    full = {f"trait {number}": 1 for number in range(MAX_TRAITS)}
    for start in range(0, MAX_TRAITS, 250):
        part = dict(list(full.items())[start : start + 250])
        assert post("/v2/identify", {"userId": "ada", "traits": part}).status_code == 202
    assert post("/v2/track", {**TRACK, "messageId": "m1"}).status_code == 202
    processing.drain(timezone.now)
    forgetting.forget(forgotten_user, now, suppress=True)

    def outcome_of(kind: str, **body: Any) -> Any:
        headers = {"HTTP_AUTHORIZATION": f"Bearer {acme_token}"}
        return only(validate(post, f"/v2/validate/{kind}", body, **headers))

    assert outcome_of("track", **TRACK)["explanation"] == "It would be recorded."
    assert outcome_of("track", userId="gone", event="x")["reason"] == DropReason.FORGOTTEN
    assert outcome_of("track", **TRACK, messageId="m1")["reason"] == DropReason.DUPLICATE
    assert outcome_of("track", userId="bob", event="x")["outcome"] == "waiting"
    (note,) = outcome_of("track", **TRACK, messageId="m2")["notes"]
    assert note["code"] == "message_id"

    crowded = outcome_of("identify", userId="ada", traits={"one more": 1, "trait 7": 2})
    assert crowded["message"]["traits"] == {"trait 7": 2}
    (note,) = crowded["notes"]
    assert note["code"] == "too_many_traits" and "not kept: one more" in note["message"]

    for days, code, source in (
        (3650, "timestamp_in_future", "receipt"),
        (-8, "too_old_to_score", "message"),
    ):
        at = (now + timedelta(days=days)).isoformat()
        late = outcome_of("track", **TRACK, timestamp=at)
        assert [note["code"] for note in late["notes"]] == [code]
        assert (late["outcome"], late["message"]["timestampFrom"]) == ("recorded", source)
    seconds = outcome_of("track", **TRACK, timestamp="1970-01-21T16:09:11Z")
    assert [note["code"] for note in seconds["notes"]] == ["timestamp_in_seconds"]
    assert outcome_of("track", **TRACK)["message"]["timestampFrom"] == "receipt"


def test_a_batch_gets_a_report_on_each_message(post: Post, acme: Product, acme_token: str) -> None:
    batch = [
        {"type": "track", "userId": "ada", "event": "before"},
        {"type": "identify", "userId": "ada", "messageId": "m1"},
        {"type": "track", "userId": "ada", "event": "after", "messageId": "m1"},
        {"type": "track", "userId": "ada", "event": "after"},
        {"type": "track", "anonymousId": "x", "event": "x"},
        {"type": "track"},
        *[{"type": "group", "groupId": "org"}] * 200,
    ]
    for headers, recorded, waiting in (
        ({}, "accepted", "accepted"),
        ({"HTTP_AUTHORIZATION": f"Bearer {acme_token}"}, "recorded", "waiting"),
    ):
        answer = validate(post, "/v2/validate/batch", {"batch": batch}, **headers)
        assert answer["status"] == 200 and len(answer["messages"]) == 100
        assert [outcome["outcome"] for outcome in answer["messages"][:7]] == [
            *(waiting, recorded, "dropped", recorded, "dropped", "dropped", recorded)
        ]
        reasons = [outcome["reason"] for outcome in answer["messages"][:7]]
        assert reasons[2] == "duplicate" and reasons[4:6] == ["anonymous", "unusable"]
        assert "event is required" in answer["messages"][5]["explanation"]
    assert not InboxMessage.objects.exists()


def test_a_sender_may_validate_so_often_and_others_do_not_wait(
    post: Post, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_per_key", RateLimit(2, lambda: 100.0))
    for body in (TRACK, {}):
        validate(post, "/v2/validate/track", body)
    limited = post("/v2/validate/track", TRACK)
    assert limited.status_code == 429 and limited.json()["error"]["code"] == "rate_limited"
    assert limited["Retry-After"] == "30"
    validate(post, "/v2/validate/track", TRACK, HTTP_AUTHORIZATION="Basic another")


def test_a_limit_comes_back_evenly() -> None:
    now = [0.0]
    limit = RateLimit(60, lambda: now[0])
    assert [limit.wait("a") for _ in range(61)] == [0] * 60 + [1]
    now[0] = 1.0
    assert [limit.wait("a"), limit.wait("a"), limit.wait("b")] == [0, 1, 0]
    now[0] = 3.5
    assert [limit.take("a", 5), limit.take("a", 5), limit.take("b", 70)] == [2, 0, 60]


def test_it_knows_placeholders(post: Post, acme: Product) -> None:
    answer = only(validate(post, "/v2/validate/track", {"userId": "null", "event": "opened"}))
    assert (answer["outcome"], answer["reason"]) == ("dropped", "placeholder")
    beside = {**TRACK, "context": {"groupId": "undefined"}}
    answer = only(validate(post, "/v2/validate/track", beside))
    assert [note["code"] for note in answer["notes"]] == ["placeholder"]
