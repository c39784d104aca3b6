"""The figures of each day are exactly those of a plain-Python reading of what happened.

For any messages, late and out of order, any definition, and any audience.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engagement.messages import Group, Identify
from engagement.models import EventName, EventWeight, Product, ScoreSet, Segment, Workspace
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON, tell, track
from tests.engagement.plain import Definition, Did
from tests.engagement.plain import definitions as drawn_definitions
from tests.jobs import run_job
from tests.trends import plain
from tests.trends.plain import DAY, World
from trends.figures import jobs
from trends.models import WHOLE, DayFigures

pytestmark = pytest.mark.django_db

TODAY = NOON.date()
NAMES = ("opened", "shared", "paid")
EMPLOYERS = {"ann": "initech", "bob": "initech", "cyd": "hooli", "dan": "hooli", "eve": None}
SEATS = {"initech": 1, "hooli": 5}
# The ends of windows, of stopping, and of steps.
ago = st.one_of(
    st.sampled_from([0, 1, 2, 6, 7, 8, 27, 28, 29, 30, 31, 56, 57, 90, 91, 92]),
    st.integers(0, 200),
)
activities = st.builds(
    lambda user, name, days: Did(user, name, NOON - timedelta(days=days), EMPLOYERS[user]),
    st.sampled_from(list(EMPLOYERS)),
    st.sampled_from(NAMES),
    ago,
)
LOYAL: list[dict[str, Any]] = [
    {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"},
]


def happen(product: Product, events: Sequence[Did], pros: set[str]) -> None:
    for name, employer in EMPLOYERS.items():
        plan = "pro" if name in pros else "free"
        tell(product, Identify(name, NOON - timedelta(days=40), {"plan": plan}, employer))
    for name, seats in SEATS.items():
        tell(product, Group(name, NOON - timedelta(days=40), {"am.tier.number": seats}))
    send(product, events)


def send(product: Product, events: Sequence[Did]) -> None:
    tell(
        product,
        *(track(did.user, did.event, (did.at - NOON).total_seconds() / 3600) for did in events),
    )


def score(product: Product, definition: Definition, *, only_pros: bool) -> ScoreSet:
    workspace = Workspace.objects.get(product=product)
    workspace.lookback_days = definition.lookback
    workspace.half_life_days = definition.half_life
    workspace.default_weight = definition.default_weight
    workspace.audience = {"match": "all", "conditions": LOYAL} if only_pros else {}
    workspace.save()
    for name, weight in (definition.weights or {}).items():
        event_name, _ = EventName.objects.get_or_create(product=product, name=name)
        EventWeight.objects.create(workspace=workspace, event_name=event_name, weight=weight)
    sets.request_score_set(workspace.pk)
    rescore(NOON)
    workspace.refresh_from_db()
    assert workspace.scores is not None
    return workspace.scores


def world_of(events: Sequence[Did], definition: Definition, counted: set[str]) -> World:
    first = dict.fromkeys(EMPLOYERS, NOON - timedelta(days=40))
    accounts = {name: NOON - timedelta(days=40) for name in EMPLOYERS.values() if name}
    for did in events:
        first[did.user] = min(first[did.user], did.at)
    return World(
        [did for did in events if did.user in counted],
        definition,
        {name: at.date() for name, at in first.items() if name in counted},
        {name: at.date() for name, at in accounts.items()},
    )


def stored(workspace: Workspace, day: date, segment_id: int = WHOLE) -> DayFigures:
    return DayFigures.objects.get(workspace=workspace, segment_id=segment_id, day=day)


def assert_agrees(row: DayFigures, expected: dict[str, Any]) -> None:
    own = {name: getattr(row, name) for name in expected}
    assert own == {
        name: pytest.approx(value) if isinstance(value, float) else value
        for name, value in expected.items()
    }, row


def assert_segments_agree(score_set: ScoreSet, world: World, pros: set[str]) -> None:
    """Those of the night: of the users who are pros, and of the accounts with seats."""
    day = TODAY - DAY
    users, accounts = (Segment.objects.get(name=name) for name in ("pros", "all"))
    own = set(world.users) & pros
    assert_agrees(
        stored(score_set.workspace, day, users.pk),
        plain.of_subjects(world, "user", own, day, len(own)),
    )
    expected = plain.of_subjects(world, "account", set(SEATS), day, len(SEATS))
    for name, days in (("daily_users", 1), ("weekly_users", 7)):
        expected[name] = sum(plain.active_users(world, own, day, days) for own in SEATS)
    if score_set.counts_seats:
        expected["seats"] = sum(SEATS.values())
        expected["active_seats"] = sum(
            min(seats, plain.active_users(world, own, day, 7)) for own, seats in SEATS.items()
        )
    assert_agrees(stored(score_set.workspace, day, accounts.pk), expected)


def assert_all_agree(score_set: ScoreSet, world: World) -> None:
    first = min([*world.users.values(), TODAY - DAY])
    days = [TODAY - n * DAY for n in range(1, (TODAY - first).days + 1)]
    # The model is slow. Any week has days that differ.
    for day in {*days[:40], *days[::5]}:
        row = stored(score_set.workspace, day)
        for scope in ("user", "account"):
            assert_agrees(row, plain.figures(world, scope, day))


@pytest.mark.whole
@examples(4)
# A half-life has left nothing of these points, but somebody was active.
@example(
    events=[],
    late=[Did("bob", "shared", NOON - timedelta(days=199), "initech")],
    definition=Definition(
        lookback=30, default_weight=2, weights={"shared": 4}, half_life=8, reference=TODAY
    ),
    pros={"bob"},
    only_pros=True,
)
@given(
    events=st.lists(activities, max_size=25),
    late=st.lists(activities, max_size=6),
    definition=drawn_definitions(NAMES),
    pros=st.sets(st.sampled_from(list(EMPLOYERS)), min_size=1),
    only_pros=st.booleans(),
)
@leaves_no_rows
def test_figures_are_those_of_what_happened(
    events: list[Did],
    late: list[Did],
    definition: Definition,
    pros: set[str],
    only_pros: bool,
) -> None:
    product = Product.create_with_workspace("Acme")
    happen(product, events, pros)
    score_set = score(product, definition, only_pros=only_pros)
    counted = pros if only_pros else set(EMPLOYERS)
    for name, scope, conditions in (("pros", "user", LOYAL), ("all", "account", [])):
        Segment.objects.create(
            workspace=score_set.workspace, scope=scope, name=name, conditions=conditions
        )
    run_job(jobs.JOB, NOON)
    world = world_of(events, definition, counted)
    assert_all_agree(score_set, world)
    assert_segments_agree(score_set, world, pros)
    send(product, late)
    rescore(NOON)
    DayFigures.objects.filter(day=TODAY - DAY, segment_id=WHOLE).delete()
    run_job(jobs.JOB, NOON + timedelta(days=2))
    score_set.refresh_from_db()
    assert_all_agree(score_set, world_of([*events, *late], definition, counted))
