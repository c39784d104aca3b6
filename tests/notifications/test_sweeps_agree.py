"""Every change is told once, and no other: compared with plain sets over random traffic."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.models import EventWeight, Product, Segment
from engagement.rescoring import sets
from engagement.segments import counts, members
from notifications.models import OutboxMessage, WatchedMember
from notifications.watching import changes
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import group, identify, tell, track
from tests.engagement.plain import Definition, Did, raw
from tests.notifications.rows import Clock, a_destination, a_segment, settle, subscribe

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

USERS = ["ann", "bob", "cyd", "dan"]
EVENT, OTHER_EVENT = "opened", "paid"

activities = st.tuples(st.sampled_from(USERS), st.sampled_from([EVENT, OTHER_EVENT]),
                     st.integers(0, 16))  # fmt: skip
steps = st.one_of(
    st.tuples(st.just("events"), st.lists(activities, min_size=1, max_size=4)),
    st.tuples(st.just("days"), st.integers(1, 8)),
    st.tuples(st.just("rule"), st.integers(0, 6)),
    st.tuples(st.just("weight"), st.integers(0, 3)),
    st.tuples(st.just("nothing"), st.none()),
)


@dataclass
class Model:
    """Who is in the segment “at least *least* points in seven days”, in plain Python."""

    least: int = 2
    weights: dict[str, int] = field(default_factory=dict)
    events: list[Did] = field(default_factory=list)

    def members(self, now: datetime) -> set[str]:
        definition = Definition(7, 1, self.weights)
        today = now.astimezone(UTC).date()
        points = {
            user: raw([did for did in self.events if did.user == user], definition, today)
            for user in USERS
        }
        return {user for user in USERS if points[user] >= self.least}


def condition(least: int) -> list[dict[str, Any]]:
    return [{"kind": "metric", "metric": "raw_score", "operator": "at_least", "value": least}]


@examples(3)
@given(st.lists(steps, min_size=3, max_size=5), st.integers(1, 3))
@leaves_no_rows
def test_all_changes_are_told_and_no_others(story: list[Any], rows_per_step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "ROWS_PER_STEP", rows_per_step)
        _play(story)


def _play(story: list[Any]) -> None:
    product = Product.create_with_workspace("Acme")
    clock, model = Clock(), Model()
    tell(product, *[identify(user) for user in USERS])
    settle(clock)
    segment = a_segment(product, scope="user", name="Busy")
    edit_rule(segment, model.least)
    destination = a_destination(product)
    subscriptions = {
        (trigger, asks): subscribe(
            destination, f"segment_{trigger}", segment=segment, tells_changed_rules=asks
        )
        for trigger in ("entered", "left")
        for asks in (False, True)
    }
    settle(clock)
    expected: dict[Any, list[tuple[str, str]]] = {key: [] for key in subscriptions}
    before = model.members(clock.now)
    for kind, value in story:
        take_step(product, segment, clock, model, kind, value)
        settle(clock)
        after = model.members(clock.now)
        for (trigger, asks), _ in subscriptions.items():
            changed = after - before if trigger == "entered" else before - after
            if asks or kind not in ("rule", "weight"):
                expected[trigger, asks] += [(trigger, user) for user in sorted(changed)]
        before = after
    for key, subscription in subscriptions.items():
        rows = OutboxMessage.objects.filter(subscription_id=subscription.pk).order_by("pk")
        pairs = [(key[0], row.external_id) for row in rows]
        assert by_step(pairs) == by_step(expected[key]), key
    ids = list(OutboxMessage.objects.values_list("message_id", flat=True))
    assert len(ids) == len(set(ids))
    watch = next(iter(subscriptions.values())).watch
    assert watch is not None
    stored = WatchedMember.objects.filter(product=product, watch=watch).count()
    assert stored == len(before)


def by_step(pairs: list[tuple[str, str]]) -> dict[str, int]:
    """How often each user was told of."""
    counted: dict[str, int] = {}
    for _, user in pairs:
        counted[user] = counted.get(user, 0) + 1
    return counted


def edit_rule(segment: Segment, least: int) -> None:
    segment.conditions = condition(least)
    segment.save()
    # As of now: a changed weight has replaced the score set since.
    segment.workspace.refresh_from_db()
    counts.invalidate([segment.workspace.scores_id] if segment.workspace.scores_id else [])


def take_step(
    product: Product, segment: Segment, clock: Clock, model: Model, kind: str, value: Any
) -> None:
    match kind:
        case "events":
            for user, event, days in value:
                at = clock.now - timedelta(days=days)
                model.events.append(Did(user, event, at))
                message = track(user, event)
                tell(product, type(message)(user, event, at, None))
        case "days":
            clock.now += timedelta(days=value)
        case "rule":
            model.least = value
            edit_rule(segment, value)
        case "weight":
            model.weights[OTHER_EVENT] = value
            tell(product, group("initech"))
            set_weight(product, value)


def set_weight(product: Product, weight: int) -> None:
    from engagement.models import EventName

    name, _ = EventName.objects.get_or_create(product=product, name=OTHER_EVENT)
    workspace = product.workspaces.get()
    EventWeight.objects.update_or_create(
        workspace=workspace, event_name=name, defaults={"weight": weight}
    )
    sets.request_score_set(workspace.pk)


def test_the_model_agrees_with_the_segment(acme: Product, clock: Clock) -> None:
    """Otherwise the comparison above would show little."""
    model = Model(events=[Did("ann", EVENT, clock.now), Did("ann", EVENT, clock.now)])
    tell(acme, *[identify(user) for user in USERS], track("ann"), track("ann"))
    settle(clock)
    segment = a_segment(acme, *condition(2), scope="user")
    score_set = acme.workspaces.get().scores
    assert score_set is not None
    rows = members.engagement_rows(score_set, "user").filter(
        members.members_filter(score_set, members.segment_rule(segment))
    )
    assert set(rows.values_list("user__external_id", flat=True)) == model.members(clock.now)
