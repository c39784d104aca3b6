"""Counts of recent events, and the samples of users that estimate them."""

from datetime import timedelta
from typing import Any

import pytest

from engagement.models import EventName, Product, ScoreSet, User, UserEngagement, Workspace
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from engagement.scores import sampling
from engagement.segments import event_counts
from tests.engagement.history import NOON, identify, tell, track
from tests.engagement.rows import TODAY, account

pytestmark = pytest.mark.django_db


def scores_of(product: Product) -> ScoreSet:
    scores = Workspace.objects.get(product=product).scores
    assert scores is not None
    return scores


def recent_counts(product: Product, today: Any = TODAY) -> dict[str, int]:
    recent = event_counts.count_recent_events(scores_of(product), today)
    assert not recent.is_estimate
    names = EventName.objects.in_bulk(recent.counts)
    return {names[name_id].name: count for name_id, count in recent.counts.items()}


def test_events_of_the_last_thirty_days_are_counted(acme: Product, globex: Product) -> None:
    for product in (acme, globex):
        tell(product, identify("ann", -24 * 90), identify("bob", -24 * 90))
    for days in (0, 1, 29, 30, 60):
        tell(acme, track("ann", "opened", -24 * days), track("bob", "opened", -24 * days))
    tell(acme, track("bob", "shared"), track("bob", "forgotten", -24 * 40))
    tell(globex, track("ann", "opened"), track("ann", "globex event"))
    rescore(NOON)
    assert recent_counts(acme) == {"opened": 6, "shared": 1}
    assert recent_counts(acme, TODAY + timedelta(days=29)) == {"opened": 2, "shared": 1}
    assert recent_counts(globex) == {"opened": 1, "globex event": 1}


def test_an_audience_counts_only_its_users(acme: Product) -> None:
    tell(acme, identify("ann", plan="pro"), identify("bob", plan="free"))
    tell(acme, track("ann", "opened"), track("bob", "opened"), track("bob", "shared"))
    rule = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}
    acme.workspaces.update(audience={"match": "all", "conditions": [rule]})
    sets.request_score_set(acme.workspaces.get().pk)
    rescore(NOON)
    assert recent_counts(acme) == {"opened": 1}


def test_no_events(scores: ScoreSet) -> None:
    assert event_counts.count_recent_events(scores, TODAY) == ({}, 0, False)


def test_many_users_are_estimated_from_a_sample(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_counts, "COUNT_ALL_UP_TO", 300)
    monkeypatch.setattr(event_counts, "SAMPLE_SIZE", 200)
    names = [f"user {number}" for number in range(400)]
    tell(acme, *(identify(name) for name in names), *(track(name) for name in names * 3))
    rescore(NOON)
    recent = event_counts.count_recent_events(scores_of(acme), TODAY)
    assert recent.is_estimate and recent.users == pytest.approx(200, abs=20)
    assert list(recent.counts.values()) == [pytest.approx(1200, rel=0.02)]


@pytest.mark.parametrize(
    ("every", "sizes"), [(1, (20, 100, 299, 300, 1000)), (7, (100, 300, 1000))]
)
def test_a_sample_is_even_however_far_apart_ids_are(
    scores: ScoreSet, globex: Product, every: int, sizes: tuple[int, ...]
) -> None:
    other = ScoreSet.objects.create(
        product=globex, workspace=globex.workspaces.get(), lookback_days=7, default_weight=1
    )
    sets = [scores if number % every == 0 else other for number in range(300 * every)]
    people = User.objects.bulk_create(
        User(
            # Several nodes return the ids of one statement in any order.
            id=number + 1,
            product_id=of.product_id,
            external_id=str(number),
            is_identified=True,
            first_seen_at=NOON,
            last_seen_at=NOON,
        )
        for number, of in enumerate(sets)
    )
    UserEngagement.objects.bulk_create(
        UserEngagement(
            product_id=of.product_id, score_set=of, user=user, raw=0, event_count=0, active_days=0
        )
        for of, user in zip(sets, people, strict=True)
    )
    own = [user.pk for of, user in zip(sets, people, strict=True) if of == scores]
    for size in sizes:
        sample = sampling.sample_subjects(scores, "user", 300, size)
        assert set(sample.ids) <= set(own) and len(set(sample.ids)) == len(sample.ids), size
        if size >= 300:
            assert (sorted(sample.ids), sample.scale) == (own, 1.0), size
        else:
            assert len(sample.ids) * sample.scale == pytest.approx(300, rel=0.1), size
            # A piece is at least one id wide.
            expected = max(size, sampling.ID_RANGES)
            assert len(sample.ids) == pytest.approx(expected, rel=0.1), size


def test_a_sample_of_accounts(scores: ScoreSet) -> None:
    ids = [account(scores, f"account {number}").account_id for number in range(5)]
    assert sorted(sampling.sample_subjects(scores, "account", 5, 10).ids) == ids
    assert sampling.sample_subjects(scores, "user", 0, 10) == ([], 1.0)
