"""Who floods the service gets in nobody's way: without a valid key, and with one."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from core.database import sql
from engagement.models import Product
from ingestion.inbox import group_commit, quotas
from ingestion.log import status
from ingestion.models import DropCount, DroppedMessage, DropReason, IngestionKey
from ingestion.prometheus import collect_metrics
from tests.engagement.history import track
from tests.ingestion.examples import refusal
from tests.pipeline.conftest import Post
from tests.pipeline.waiting import counts, drain, dropped, wait, waiting

pytestmark = pytest.mark.django_db(transaction=True)

TRACK = {"userId": "ada", "event": "opened"}
NOBODYS = {"HTTP_AUTHORIZATION": "Basic edk_of_nobody"}


@pytest.fixture(autouse=True)
def committer(monkeypatch: pytest.MonkeyPatch) -> Iterator[group_commit.GroupCommitter]:
    """An inbox of the test's own that stores three messages without a valid key, and then none."""
    monkeypatch.setattr(quotas, "UNKNOWN_BURST", 3)
    monkeypatch.setattr(quotas, "UNKNOWN_PER_SECOND", 1e-9)
    group_commit.stop()
    own = group_commit.GroupCommitter()
    monkeypatch.setattr(group_commit, "_committer", own)
    yield own
    own.stop()


def figure(name: str, **labels: str) -> float:
    samples = [sample for family in collect_metrics(timezone.now()) for sample in family.samples]
    return sum(
        sample.value for sample in samples if sample.name == name and sample.labels == labels
    )


# --- Without a valid key ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("authorization", "reason"), [("Basic edk_of_nobody", "unknown_key"), ("", "missing_key")]
)
def test_beyond_some_they_are_counted_only(
    authorization: str, reason: str, post: Post, committer: group_commit.GroupCommitter, db: None
) -> None:
    headers = {"HTTP_AUTHORIZATION": authorization}
    # What an earlier test's inbox had still to count is counted by now.
    before = figure("eds_messages_accepted_total")
    answers = [post("/v2/track", TRACK, **headers).status_code for _ in range(10)]
    assert answers == [202] * 10
    rows = waiting()
    assert len(rows) == 3
    committer.stop()
    drain(timezone.now())
    assert dropped() == [(id, reason) for id in rows]
    # Monitors and the admin's page tell of all ten.
    assert DropCount.objects.get().count == 10
    assert figure("eds_messages_dropped_total", reason=reason) == 10
    assert figure("eds_messages_accepted_total") == before + 10
    assert figure("eds_messages_processed_total") == 7
    drops = status.daily_drops(None, timezone.now())
    assert {name: sum(days) for name, days in drops.by_reason.items()} == {DropReason(reason): 10}


def test_of_a_batch_some_are_stored(post: Post, committer: group_commit.GroupCommitter) -> None:
    batch = {"batch": [{"type": "track", **TRACK} for _ in range(8)]}
    assert post("/segment/v1/batch", batch, **NOBODYS).status_code == 200
    assert len(waiting()) == 3
    committer.stop()
    assert DropCount.objects.get().count == 5


def test_a_key_that_was_made_a_moment_ago_is_not_unknown(
    post: Post, acme: Product, committer: group_commit.GroupCommitter
) -> None:
    for _ in range(5):
        post("/v2/track", TRACK, **NOBODYS)
    key = IngestionKey.create(acme, "new").secret
    assert post("/v2/track", TRACK, HTTP_AUTHORIZATION=f"Basic {key}").status_code == 202
    assert len(waiting()) == 4
    drain()
    assert counts(acme) == {("ada", "opened"): 1}


def test_messages_with_a_revoked_key_are_listed_as_ever(
    post: Post, acme: Product, acme_key: str
) -> None:
    IngestionKey.objects.update(revoked_at=timezone.now())
    for _ in range(5):
        post("/v2/track", TRACK)
    drain()
    assert [reason for _, reason in dropped()] == ["revoked_key"] * 5


def test_a_deleted_key_is_unknown_a_minute_later(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    keys, digest = quotas.KnownKeys(), bytes(IngestionKey.objects.get().digest)
    assert keys.unknown({digest}) == set()
    acme.delete()
    now += 61
    assert keys.unknown({digest}) == {digest}


def test_a_known_key_is_asked_for_once(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups: list[list[bytes]] = []
    fetch = sql.fetch

    def note(statement: Any, parameters: Any = None) -> list[sql.Row]:
        lookups.append(parameters["digests"])
        return fetch(statement, parameters)

    monkeypatch.setattr(sql, "fetch", note)
    keys, digest = quotas.KnownKeys(), bytes(IngestionKey.objects.get().digest)
    assert keys.unknown({digest, b"1", b"2"}) == {b"1", b"2"}
    assert keys.unknown({digest}) == set()
    assert keys.unknown({digest, b"1"}) == {b"1"}
    assert [set(digests) for digests in lookups] == [{digest, b"1", b"2"}, {b"1"}]


def test_after_a_pause_some_are_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr(quotas, "UNKNOWN_PER_SECOND", 2)
    keys = quotas.KnownKeys()
    assert [
        keys.take_unknown_allowance(2),
        keys.take_unknown_allowance(2),
        keys.take_unknown_allowance(2),
    ] == [2, 1, 0]
    now += 1.0
    assert keys.take_unknown_allowance(5) == 2
    now += 3600.0
    assert keys.take_unknown_allowance(5) == 3


# --- With a valid key -------------------------------------------------------------------------


@pytest.fixture
def globex_key(globex: Product) -> str:
    return IngestionKey.create(globex, "test").secret


def answers(post: Post, *keys: str) -> list[int]:
    """What each of the keys is answered, by a process that has just counted."""
    return [post("/v2/track", TRACK, HTTP_AUTHORIZATION=f"Basic {key}").status_code for key in keys]


def test_a_key_may_fill_half_of_the_inbox_and_others_go_on(
    post: Post, acme_key: str, globex_key: str, settings: Settings
) -> None:
    settings.INBOX_LIMIT = 10
    wait(acme_key, *[track("ada")] * 4)
    # The fifth is the last one, though nothing is counted again meanwhile.
    assert answers(post, acme_key, acme_key, globex_key) == [202, 503, 202]
    refused = post("/v2/track", TRACK)
    assert refusal(refused)[0] == 503
    assert int(refused["Retry-After"]) >= 1


def test_in_a_full_inbox_keys_with_more_than_an_equal_share_are_rejected(
    post: Post, acme: Product, acme_key: str, globex_key: str, settings: Settings
) -> None:
    settings.INBOX_LIMIT = 12
    third = IngestionKey.create(acme, "third").secret
    wait(acme_key, *[track("ada")] * 5)
    wait(globex_key, *[track("gil")] * 5)
    wait(third, *[track("ada")] * 2)
    # An equal share is four: the third key has it after two more.
    assert answers(post, acme_key, globex_key, third, third, third) == [503, 503, 202, 202, 503]


def test_over_twice_the_limit_nobody_gets_in(
    post: Post, acme_key: str, globex_key: str, settings: Settings
) -> None:
    settings.INBOX_LIMIT = 2
    wait(acme_key, *[track("ada")] * 4)
    assert answers(post, globex_key) == [503]
    # Without a valid key nothing is stored, but there is nothing to send again either.
    assert post("/v2/track", TRACK, **NOBODYS).status_code == 202
    assert len(waiting()) == 4
    assert not DroppedMessage.objects.exists()
