"""A refused request reaches no inbox, but its product learns of it: counted, and a few kept."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from core import credentials
from engagement.models import Product
from ingestion import refusals, retention
from ingestion.drain import processing
from ingestion.errors import IngestionError
from ingestion.log import last_24h, newest, search
from ingestion.log.newest import Outcome
from ingestion.models import (
    DroppedMessage,
    DropReason,
    IngestionKey,
    RefusedCount,
    RefusedRequest,
)
from readapi.models import ApiToken
from tests.ingestion.examples import PATHS
from tests.pipeline.conftest import Post
from tests.pipeline.waiting import dropped, places_of

pytestmark = pytest.mark.django_db(transaction=True)

# Planted into bodies: nothing of them may be stored.
SECRET = "planted-in-the-body"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[refusals.Collector]:
    """A collector of the test's own, which saves when the test says so."""
    fresh = refusals.Collector()
    monkeypatch.setattr(refusals, "add", fresh.add)
    yield fresh


def test_a_refused_request_is_counted_and_shown_without_its_body(
    post: Post, collector: refusals.Collector, acme: Product, globex: Product, acme_key: str
) -> None:
    agent = f"sdk/1.0 \x1b {acme_key} {'x' * 200}"
    invalid = {"event": SECRET, "user_id": SECRET}
    assert post("/v2/track", invalid, HTTP_USER_AGENT=agent).status_code == 400
    assert post("/v2/track/", b'{"broken').status_code == 400
    assert post("/v2/identify", b" " * 70_000).status_code == 413
    # Version 1 has its key in the body, beacons in the URL.
    in_body = {"api_key": acme_key, "event": SECRET}
    assert post("/v1/events", in_body, HTTP_AUTHORIZATION="").status_code == 400
    beacon = f"/beacon/v1/batch?writeKey={acme_key}"
    assert post(beacon, {"batch": 1}, HTTP_AUTHORIZATION="").status_code == 400
    # Of nobody's: a key of ours that no product has, another secret, no key.
    unknown = credentials.generate(IngestionKey.PREFIX)
    for key in (f"Basic {unknown}", "Basic hunter2hunter2", ""):
        post("/v2/track", invalid, HTTP_AUTHORIZATION=key)
    assert not RefusedRequest.objects.exists()
    collector.save()

    assert last_24h.count_refused(acme.pk, timezone.now()) == {
        "missing_field": 2,
        "invalid_field": 1,
        "invalid_json": 1,
        "payload_too_large": 1,
    }
    assert last_24h.count_refused(globex.pk, timezone.now()) == {}
    samples = RefusedRequest.objects.filter(product=acme).order_by("id")
    assert [(sample.endpoint, sample.kind, sample.status, sample.code) for sample in samples] == [
        ("/v2/track", "track", 400, "missing_field"),
        ("/v2/track", "track", 400, "invalid_json"),
        ("/v2/identify", "identify", 413, "payload_too_large"),
        ("/v1/events", "track", 400, "missing_field"),
        ("/beacon/v1/batch", "", 400, "invalid_field"),
    ]
    assert RefusedRequest.objects.count() == 5
    first = samples[0]
    assert (first.field, first.key_hint) == ("userId", acme_key[:9])
    assert first.user_agent.startswith(f"sdk/1.0  {acme_key[:9]}… xx")
    assert len(first.user_agent) == 100
    for secret in (SECRET, acme_key, unknown, "hunter2"):
        assert places_of(secret) == set(), secret

    hit = newest.newest_messages(acme, timezone.now(), outcome=Outcome.REFUSED).entries[-1]
    assert (str(hit.message), hit.state) == ("/v2/track", search.MessageState.REFUSED)
    assert hit.explanation.startswith("400 missing_field: userId is required")
    assert hit.remedy.startswith(f"Sent with key {acme_key[:9]}…, sdk/1.0")
    tracks = newest.newest_messages(acme, timezone.now(), kind="track").entries
    assert [str(hit.message) for hit in tracks] == ["/v1/events", "/v2/track", "/v2/track"]

    retention.delete_expired(timezone.now() + timedelta(days=9))
    assert not RefusedRequest.objects.exists() and not RefusedCount.objects.exists()


@pytest.mark.parametrize("path", PATHS)
def test_each_endpoint_tells_of_what_it_refuses(
    path: str, post: Post, collector: refusals.Collector, acme: Product, acme_key: str
) -> None:
    body = {"api_key": acme_key, "writeKey": acme_key, "batch": 1, "traits": 1}
    assert post(path, body).status_code == 400
    collector.save()
    assert RefusedRequest.objects.get().endpoint == path


def test_a_flood_of_refused_requests_is_counted_and_takes_bounded_room(
    post: Post, collector: refusals.Collector, acme: Product, acme_key: str
) -> None:
    for _ in range(12):
        for _ in range(10):
            assert post("/v2/track", {}).status_code == 400
        collector.save()
    post("/v2/track", b"{")
    collector.save()
    assert last_24h.count_refused(acme.pk, timezone.now()) == {
        "missing_field": 120,
        "invalid_json": 1,
    }
    # A flood of one error removes no other.
    rows = RefusedRequest.objects.filter(product=acme)
    assert rows.filter(code="missing_field").count() == refusals.KEPT_SAMPLES
    assert rows.filter(code="invalid_json").count() == 1
    collector.save()


def test_many_keys_take_bounded_memory(collector: refusals.Collector, acme: Product) -> None:
    error = IngestionError(400, "invalid_json", "No.")
    for number in range(refusals.MAX_KEYS * 3):
        at = timezone.now()
        collector.add(refusals.describe(error, f"key {number}", "/v2/track", {}, at))
    assert len(collector._counts) == len(collector._samples) == refusals.MAX_KEYS
    collector.save()
    assert not RefusedCount.objects.exists()


def test_a_read_token_in_place_of_a_key_is_dropped_with_a_reason_of_its_product(
    acme: Product, globex: Product, acme_token: str
) -> None:
    token = ApiToken.objects.get(product=acme)
    headers: dict[str, Any] = {"HTTP_AUTHORIZATION": f"Basic {acme_token}"}
    for _ in range(2):
        response = Client().generic(
            "POST", "/v2/track", b'{"userId": "ada", "event": "x"}', "application/json", **headers
        )
        assert response.status_code == 202
        ApiToken.objects.update(revoked_at=timezone.now())
    processing.drain(timezone.now)
    assert [reason for _, reason in dropped()] == [DropReason.READ_TOKEN] * 2
    listed = DroppedMessage.objects.filter(product=acme).first()
    assert listed is not None and listed.key_hint == token.hint
    (hit, _) = newest.newest_messages(acme, timezone.now()).entries
    assert hit.explanation == "Read token"
    assert hit.remedy.startswith("Send an ingestion key instead. It starts with edk_")
    assert newest.newest_messages(globex, timezone.now()).entries == []
