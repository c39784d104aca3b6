"""A product within its limits is not disturbed; beyond them its messages are listed and counted."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from access.models import TrailEntry
from engagement.limits import limits, new_names, trait_names
from engagement.models import Account, EventName, Product, ProductLimits, ProductUsage, User
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting, maintenance
from ingestion import retention
from ingestion.drain import processing
from ingestion.models import (
    DropCount,
    DroppedMessage,
    HourCount,
    InboxMessage,
    IngestionKey,
    MinuteCount,
)
from tests.admin.conftest import member, root
from tests.admin.test_history import save
from tests.engagement.history import NOON, group, identify, track
from tests.pipeline.waiting import counts, drain, dropped, wait

__all__ = ["member", "root"]


def limit(product: Product, **own: int) -> None:
    ProductLimits.objects.update_or_create(product=product, defaults=own)


def reasons() -> dict[str, int]:
    return dict(DropCount.objects.values_list("reason", "count"))


def test_a_product_that_sends_too_fast_drops_what_is_over(
    acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(acme, messages_per_second=1)
    monkeypatch.setattr(processing, "MAX_LISTED_EXCESS", 2)
    first = wait(acme_key, *(track("ada") for _ in range(58)))
    drain()
    assert not dropped() and len(first) == 58
    # Two more fit into the minute, and one of the next minute.
    over = wait(acme_key, *(track("ada") for _ in range(7)))
    InboxMessage.objects.filter(pk=over[-1]).update(received_at=NOON + timedelta(minutes=1))
    drain()
    assert counts(acme) == {("ada", "opened"): 61}
    assert dropped() == [(arrival, "too_fast") for arrival in over[2:4]]
    assert reasons() == {"too_fast": 4}
    by_reason = dict(HourCount.objects.values_list("reason", "count"))
    assert by_reason == {"": 61, "too_fast": 4}
    assert sorted(MinuteCount.objects.values_list("count", flat=True)) == [1, 60]
    retention.delete_expired(NOON + timedelta(days=3))
    assert not MinuteCount.objects.exists()


def test_a_day_has_a_limit_and_other_products_are_not_disturbed(
    acme: Product, acme_key: str, globex: Product
) -> None:
    globex_key = IngestionKey.create(globex, "test").secret
    limit(acme, messages_per_day=3)
    wait(acme_key, *(track("ada") for _ in range(2)))
    drain()
    wait(globex_key, *(track("bob") for _ in range(4)))
    over = wait(acme_key, *(track("ada") for _ in range(4)))
    drain()
    assert counts(acme) == {("ada", "opened"): 3} and counts(globex) == {("bob", "opened"): 4}
    assert dropped() == [(arrival, "daily_limit") for arrival in over[1:]]


def test_a_product_has_room_for_a_number_of_event_names(acme: Product, acme_key: str) -> None:
    new_names._known_keys.clear()
    limit(acme, event_names=2)
    names = ["one", "two", "three", "one", "four"]
    arrivals = wait(acme_key, *(track("ada", name) for name in names))
    drain()
    assert dropped() == [(arrivals[2], "too_many_names"), (arrivals[4], "too_many_names")]
    assert counts(acme) == {("ada", "one"): 2, ("ada", "two"): 1}
    # Those that exist go on, and more room is used at once.
    limit(acme, event_names=3)
    wait(acme_key, track("ada", "two"), track("ada", "three"))
    drain()
    assert EventName.objects.filter(product=acme).count() == 3 and len(dropped()) == 2


def test_a_product_has_room_for_a_number_of_trait_names(acme: Product, acme_key: str) -> None:
    trait_names._known_names.clear()
    limit(acme, trait_names=2)
    wait(acme_key, identify("ada", plan="pro", seats=1), group("initech", plan="pro", old=None))
    drain()
    # A name in either spelling of a license's is none of the product's.
    arrivals = wait(
        acme_key,
        identify("ada", hours=1, plan="free", id_1=1, **{"am.TIER": "10"}),
        group("initech", hours=1, id_2=2),
        identify("ada", hours=2, seats=2),
    )
    drain()
    assert dropped() == [(arrivals[0], "too_many_traits"), (arrivals[1], "too_many_traits")]
    assert DroppedMessage.objects.get(pk=arrivals[0]).detail.endswith("no room for: id_1")
    assert User.objects.get().traits == {"plan": "free", "seats": 2, "am.tier": "10"}
    assert Account.objects.get().traits == {"plan": "pro"}
    # More room is used at once, and counted for the page.
    limit(acme, trait_names=3)
    wait(acme_key, group("initech", hours=2, id_2=2))
    drain()
    assert Account.objects.get().traits == {"plan": "pro", "id_2": 2} and len(dropped()) == 2
    limits.count_usage(NOON)
    assert ProductUsage.objects.get().trait_names == 3


def test_a_full_product_records_whom_it_knows(acme: Product, acme_key: str) -> None:
    wait(acme_key, identify("ada"), group("initech", user="ada"))
    drain()
    limits.count_usage(NOON)
    usage = ProductUsage.objects.get()
    assert (usage.subjects, usage.event_names) == (2, 0)
    limit(acme, subjects=2)
    arrivals = wait(acme_key, track("ada"), identify("bob"), group("hooli"), identify("ada"))
    drain()
    assert dropped() == [(arrival, "too_many_subjects") for arrival in arrivals[1:3]]
    assert list(User.objects.values_list("external_id", flat=True)) == ["ada"]
    # Near its limit it is counted again after ten minutes, and far from it after an hour.
    limit(acme, subjects=1_000_000)
    limits.count_usage(NOON + timedelta(minutes=11))
    assert ProductUsage.objects.get().counted_at == NOON
    limits.count_usage(NOON + timedelta(minutes=61))
    assert ProductUsage.objects.get().counted_at > NOON


def test_the_list_does_not_bring_back_forgotten_ids(acme: Product, acme_key: str) -> None:
    forgetting.forget(SubjectRef(acme.pk, SubjectScope.USER, "ada"), NOON, suppress=True)
    limit(acme, messages_per_day=1)
    wait(acme_key, track("bob"), track("ada"))
    drain()
    assert not DroppedMessage.objects.filter(user_external_id="ada").exists()
    assert reasons() == {"daily_limit": 1}


def test_pages_say_what_is_near_and_superusers_set_limits(
    member: Client, root: Client, acme: Product
) -> None:
    maintenance.maintain(NOON)
    page = reverse("admin:engagement_product_change", args=[acme.pk])
    assert "100,000" in member.get(page).content.decode()
    ProductUsage.objects.update(event_names=81_000)
    assert "Near: ask a superuser" in member.get(page).content.decode()
    assert "Event names: 81,000 of 100,000." in member.get(reverse("admin:index")).content.decode()
    assert 'name="limits-0-event_names"' not in member.get(page).content.decode()
    assert 'name="limits-0-event_names"' in root.get(page).content.decode()
    save(root, "engagement_product", acme.pk, **{"limits-0-event_names": 500_000})
    assert limits.load([acme.pk])[acme.pk].limits.event_names == 500_000
    entry = TrailEntry.objects.get(kind="product")
    assert entry.changes == {"limit of event_names": [None, 500_000]}


def test_a_product_has_a_number_of_segments(member: Client, acme: Product) -> None:
    limit(acme, segments=1)
    workspace = acme.workspaces.get()
    add = f"{reverse('admin:engagement_segment_add')}?workspace={workspace.pk}&scope=user"
    assert limits.segments_left(acme.pk) == 1
    workspace.segments.create(scope="user", name="Mine")
    assert limits.segments_left(acme.pk) == 0
    page = member.post(add, {"name": "More", "workspace": workspace.pk, "scope": "user"})
    assert b"as many segments as it may have" in page.content
