"""Members are exactly the subjects whose metrics, traits, and events match the conditions.

For any messages and conditions the queries agree with a plain-Python reading.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as replace_struct

from engagement.messages import Group, Identify
from engagement.metric_names import METRICS, Scope
from engagement.models import (
    Account,
    AccountWork,
    EventName,
    EventWeight,
    Feature,
    Product,
    ScoreSet,
    Segment,
    Workspace,
)
from engagement.rescoring import activation, sets
from engagement.rescoring.jobs import ACTIVATION
from engagement.rescoring.rescore import rescore
from engagement.rules.rules import TEXT_OPERATORS
from engagement.rules.steps import Step
from engagement.segments import members as segments
from tests.cases import examples, leaves_no_rows
from tests.chances import add_chance
from tests.engagement import plain_segments as plain
from tests.engagement.history import NOON, tell, track
from tests.engagement.plain import Definition, Did
from tests.engagement.plain import definitions as drawn_definitions
from tests.engagement.plain_segments import Subject, World
from tests.jobs import run_job
from tests.license_events import add_event
from trends.usage import features

pytestmark = pytest.mark.django_db

TODAY = NOON.date()
NAMES = ("opened", "shared", "paid")
ACCOUNTS = ("initech", "hooli")
EMPLOYERS = {"ann": "initech", "bob": "initech", "cyd": "hooli", "dan": None}
# The ends of windows, of conditions in days and of the accounts' ninety days.
DAYS = [1, 2, 6, 7, 8, 13, 14, 15, 29, 30, 31, 60, 61, 89, 90, 91, 180, 181]

# --- What is sent ---------------------------------------------------------------------------

odd_numbers: st.SearchStrategy[Any] = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([0.5, 1.0, 2.5, -0.0, 1e300, 5e-324, 10**9, 10**9 + 1, 2**53]),
)
dates = st.sampled_from([
    "2026-09-23", "2026-09-24", "2026-09-24T00:00:00Z", "2026-09-23 23:59:59.999999999Z",
    "2026-09-24T01:00:00+02:00", "2026-09-23T23:30-0100", "2026-09-24T12:00", "2026-02-30",
    "2026-09-24T24:00:00", "2026-09-24T12", "20260924", "now", "infinity", "-infinity", "epoch",
    "today", "2026-W39-4", "2026-09-24T12:00:00+15", "0000-01-01", "2026-09-24T12:00:60Z",
    "2026-09-24t12:00:00z", "2026-09-24T12:00:00,5", " 2026-09-24", "Sep 24 2026",
])  # fmt: skip
texts = st.one_of(
    st.sampled_from(["pro", "Pro", "pro plan", "5", "5.0", "-5", "05", "1e5", "true", "a%b", "_"]),
    st.text("aBé日%_\\'\"5.- ", max_size=4),
)
values = st.one_of(
    texts,
    odd_numbers,
    dates,
    st.booleans(),
    st.lists(st.one_of(texts, odd_numbers, st.booleans(), st.none()), max_size=3),
    st.just({"pro": 5}),
)
trait_names = st.sampled_from(["x", "0", "am.tier.number"])
traits = st.dictionaries(trait_names, values, max_size=2)
ago = st.one_of(st.sampled_from([*DAYS, *(day - 1 for day in DAYS)]), st.integers(0, 200))
activities = st.builds(
    lambda user, name, days: Did(user, name, NOON - timedelta(days=days), EMPLOYERS[user]),
    st.sampled_from(list(EMPLOYERS)),
    st.sampled_from(NAMES),
    ago,
)
definitions = drawn_definitions(NAMES)
LICENSE_EVENTS = ("churned", "renewed")
OWNERS, TAGS = ("dana", "eve"), ("vip", "new")
# Thousandths, so that halves of a percent are among them.
drawn_chances = st.lists(
    st.tuples(
        st.sampled_from(sorted(set[str]().union(*plain.CHANCE_KINDS.values()))),
        st.integers(0, 1000).map(lambda thousandths: thousandths / 1000),
        st.integers(0, 4).map(lambda number: number == 0),
    ),
    max_size=4,
)
subjects = st.builds(
    lambda days, traits, created, events, chances, owner, tags: Subject(
        "",
        NOON - timedelta(days=days),
        traits,
        None if created is None else NOON - timedelta(days=created),
        license_events=events,
        chances=chances,
        owner=owner,
        tags=tags,
    ),
    ago,
    traits,
    st.one_of(st.none(), ago),
    st.lists(
        st.tuples(st.sampled_from(LICENSE_EVENTS), st.one_of(ago, st.just(-1)), st.booleans()),
        max_size=2,
    ),
    drawn_chances,
    st.sampled_from(["", *OWNERS]),
    st.lists(st.sampled_from(TAGS), unique=True),
)
everybody = st.fixed_dictionaries(dict.fromkeys((*EMPLOYERS, *ACCOUNTS), subjects))

# --- Conditions -----------------------------------------------------------------------------

days = st.sampled_from(DAYS)
# Nobody writes a text to compare with that is blank.
trait_texts = st.one_of(texts, dates).filter(str.strip)
trait_condition = st.one_of(
    st.fixed_dictionaries({
        "operator": st.sampled_from(TEXT_OPERATORS),
        "value": trait_texts,
    }),
    st.fixed_dictionaries({
        "operator": st.sampled_from(["is_set", "is_not_set"]),
        "value": st.none(),
    }),
    st.fixed_dictionaries({
        "operator": st.sampled_from(["at_least", "at_most"]),
        "value": st.one_of(st.integers(-6, 6), st.sampled_from([0.5, 2.5, 10**9])),
    }),
    st.fixed_dictionaries({
        "operator": st.sampled_from(["before", "after"]),
        "value": st.sampled_from(["2026-09-23", "2026-09-24", "2026-09-25", "1000-01-01"]),
    }),
)  # fmt: skip
trait_conditions = st.builds(
    lambda kind, name, condition: {"kind": kind, "trait": name, **condition},
    st.sampled_from(["trait", "account_trait"]),
    trait_names,
    trait_condition,
)
event_conditions = st.one_of(
    st.fixed_dictionaries({
        "kind": st.just("event"),
        "event": st.sampled_from([*NAMES, "unheard of"]),
        "operator": st.just("done"),
        "times": st.integers(1, 3),
        "within_days": st.one_of(st.none(), days),
    }),
    st.fixed_dictionaries({
        "kind": st.just("event"),
        "event": st.sampled_from([*NAMES, "unheard of"]),
        "operator": st.just("not_done"),
        "within_days": st.one_of(st.none(), days),
    }),
    st.fixed_dictionaries({
        "kind": st.just("feature"),
        "feature": st.sampled_from([*plain.FEATURES, "unheard of"]),
        "operator": st.sampled_from(["uses", "stopped", "never"]),
        "within_days": days,
    }),
)  # fmt: skip
times_asked = st.fixed_dictionaries({
    "kind": st.sampled_from(["first_seen", "created"]),
    "operator": st.sampled_from(["within_days", "more_than_days_ago"]),
    "days": days,
})  # fmt: skip
license_event_conditions = st.fixed_dictionaries({
    "kind": st.just("license_event"),
    "event": st.sampled_from([*LICENSE_EVENTS, "won_back"]),
    "operator": st.sampled_from(["happened", "not_happened"]),
    "within_days": st.one_of(st.none(), days),
})  # fmt: skip
chance_conditions = st.fixed_dictionaries({
    "kind": st.just("chance"),
    "chance": st.sampled_from(sorted(plain.CHANCE_KINDS)),
    "operator": st.sampled_from(["below", "at_least"]),
    "percent": st.integers(1, 100),
})  # fmt: skip
work_conditions = st.one_of(
    st.fixed_dictionaries({
        "kind": st.just("owner"),
        "operator": st.sampled_from(["is", "is_not"]),
        "owner": st.sampled_from([*OWNERS, "nobody"]),
    }),
    st.fixed_dictionaries({
        "kind": st.just("owner"),
        "operator": st.sampled_from(["is_set", "is_not_set"]),
        "owner": st.none(),
    }),
    st.fixed_dictionaries({
        "kind": st.just("tag"),
        "tag": st.sampled_from([*TAGS, "other"]),
        "has": st.booleans(),
    }),
)  # fmt: skip
STEP_NAMES = ("first", "second", "third")
event_steps = st.builds(
    lambda of, least, unit, days: Step("", "event", of, least, unit, within_days=max(days, least)),
    st.sampled_from([*NAMES, "unheard of"]),
    st.integers(1, 3),
    st.sampled_from(["times", "days"]),
    days,
)
trait_steps = st.builds(
    lambda of, asks, days: Step("", "trait", of, operator=asks[0], value=asks[1], within_days=days),
    trait_names,
    st.one_of(
        st.just(("is_set", None)),
        st.tuples(st.just("is_ignoring_case"), trait_texts),
        st.tuples(st.just("at_least"), st.sampled_from([-3, 0, 2.5, 10**9])),
    ),
    days,
)
# No step ends before the one above it.
drawn_steps = st.lists(st.one_of(event_steps, event_steps, trait_steps), max_size=3).map(
    lambda drawn: [
        replace_struct(step, name=name)
        for name, step in zip(
            STEP_NAMES, sorted(drawn, key=lambda each: each.within_days), strict=False
        )
    ]
)
activation_conditions = st.one_of(
    st.just({"kind": "activation", "state": "activated", "step": None}),
    st.fixed_dictionaries({
        "kind": st.just("activation"),
        "state": st.sampled_from(["on_the_way", "stuck"]),
        "step": st.sampled_from([None, *STEP_NAMES]),
    }),
)  # fmt: skip
# Not all conditions are for users, and not all for accounts.
OF_ONE_SCOPE = {"account_trait": "user"}
OF_ONE_SCOPE |= dict.fromkeys(("license_event", "chance", "owner", "tag"), "account")
without_scores = st.one_of(trait_conditions, event_conditions, times_asked)
other_conditions = st.one_of(
    st.fixed_dictionaries({
        "kind": st.sampled_from(["first_seen", "created", "last_active"]),
        "operator": st.sampled_from(["within_days", "more_than_days_ago"]),
        "days": st.one_of(days, st.just("window")),
    }),
    st.fixed_dictionaries({"kind": st.just("active"), "active": st.booleans()}),
    st.fixed_dictionaries({
        "kind": st.just("trend"), "trend": st.sampled_from(["rising", "falling", "steady"])
    }),
)  # fmt: skip
audiences = st.one_of(st.just([]), st.lists(without_scores, min_size=1, max_size=2))


def draw_metric(draw: Any, world: World) -> dict[str, Any]:
    """A comparison of a metric with a number that some subject has, or nearly has."""
    name = draw(st.sampled_from(sorted(n for n, m in METRICS.items() if world.scope in m.scopes)))
    every = [plain.metrics(subject, world)[name] for subject in world.subjects]
    numbers_seen = [number for number in every if number is not None]
    near = [number + step for number in numbers_seen for step in (-0.1, 0.1)]
    numbers = st.sampled_from([0, 1, 0.5, 50, 74.9, 100, -10, 1 / 3, *numbers_seen, *near])
    low, high = sorted([draw(numbers), draw(numbers)])
    operator = draw(st.sampled_from(["at_least", "at_most", "between"]))
    upper = high if operator == "between" else None
    return {"kind": "metric", "metric": name, "operator": operator, "value": low, "upper": upper}


def draw_conditions(draw: Any, world: World) -> list[dict[str, Any]]:
    conditions = []
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            conditions.append(draw_metric(draw, world))
        else:
            of_events = (event_conditions, license_event_conditions)
            kinds = (
                *(trait_conditions, *of_events, chance_conditions, work_conditions),
                *(activation_conditions, other_conditions),
            )
            conditions.append(draw(st.one_of(*kinds)))
    return [
        each for each in conditions if OF_ONE_SCOPE.get(each["kind"], world.scope) == world.scope
    ]


# --- The two sides --------------------------------------------------------------------------


def happen(people: dict[str, Subject], events: list[Did]) -> Product:
    """Send it all, and note with each subject what its sender then knows of it."""
    product = Product.create_with_workspace("Acme")
    for name, subject in people.items():
        subject.name = name
        if subject.created:
            subject.traits["createdAt"] = subject.created.isoformat()
    for name in ACCOUNTS:
        account = people[name]
        tell(product, Group(name, account.first_seen, account.traits))
        account.events = [did for did in events if did.account == name]
        for number, (type, days, is_withdrawn) in enumerate(account.license_events):
            add_event(
                product, type, TODAY - timedelta(days=days), license=f"{name}-{number}",
                cloud_id=name, withdrawn_at=NOON if is_withdrawn else None,
            )  # fmt: skip
        for number, (kind, chance, is_share) in enumerate(account.chances):
            add_chance(product, name, kind, chance, is_share=is_share, license=f"{name}-{number}")
        if account.owner or account.tags:
            row = Account.objects.get(product=product, external_id=name)
            AccountWork.objects.create(
                product=product, account_id=row.pk, owner=account.owner, tags=account.tags
            )
    for name, employer in EMPLOYERS.items():
        user = people[name]
        tell(product, Identify(name, user.first_seen, user.traits, employer))
        if employer:
            user.account = people[employer]
            # An account is seen where it is named; a user also by their events.
            user.account.first_seen = min(user.account.first_seen, user.first_seen)
        user.events = [did for did in events if did.user == name]
        user.first_seen = min([user.first_seen, *(did.at for did in user.events)])
    hours = [(did.at - NOON).total_seconds() / 3600 for did in events]
    tell(product, *(track(did.user, did.event, at) for did, at in zip(events, hours, strict=True)))
    for feature, own in plain.FEATURES.items():
        features.set_events(Feature.objects.create(product=product, name=feature), own)
    return product


def score(
    product: Product,
    definition: Definition,
    audience: list[dict[str, Any]],
    steps: list[Step],
) -> ScoreSet:
    workspace = Workspace.objects.get(product=product)
    workspace.lookback_days = definition.lookback
    workspace.half_life_days = definition.half_life
    workspace.default_weight = definition.default_weight
    workspace.audience = {"match": "all", "conditions": audience} if audience else {}
    workspace.save()
    for name, weight in (definition.weights or {}).items():
        event_name, _ = EventName.objects.get_or_create(product=product, name=name)
        EventWeight.objects.create(workspace=workspace, event_name=event_name, weight=weight)
    sets.request_score_set(workspace.pk)
    rescore(NOON)
    workspace.refresh_from_db()
    assert workspace.scores is not None
    for scope in ("user", "account"):
        activation.request(workspace, scope, steps)
    run_job(ACTIVATION, NOON)
    return workspace.scores


def worlds(
    people: dict[str, Subject],
    events: list[Did],
    definition: Definition,
    audience: list[dict[str, Any]],
    steps: list[Step],
) -> tuple[World, World]:
    """The users in the audience, and the accounts as far as they count these."""
    names = {did.event for did in events} | set(definition.weights or {})
    everyone = [people[name] for name in EMPLOYERS]
    users = World("user", everyone, definition, names, TODAY, steps=steps)
    scored = plain.members(users, "all", audience)
    members = [user for user in users.subjects if user.name in scored]
    users = replace(users, subjects=members, has_audience=bool(audience))
    accounts = [people[name] for name in ACCOUNTS]
    for account in accounts:
        account.events = [did for did in account.events if did.user in scored]
        account.members = [user for user in scored if EMPLOYERS[user] == account.name]
    return users, replace(users, scope="account", subjects=accounts)


def assert_members_agree(
    scores: ScoreSet, world: World, match: str, conditions: list[dict[str, Any]]
) -> set[str]:
    """The members by the plain-Python reading, after checking that the queries agree."""
    expected = plain.members(world, match, conditions)
    segment = Segment(pk=1, scope=world.scope, match=match, conditions=conditions)
    rule = segments.segment_rule(segment)
    rows = segments.engagement_rows(scores, rule.scope)
    members = rows.filter(segments.members_filter(scores, rule))
    names = f"{world.scope}__external_id"
    assert set(members.values_list(names, flat=True)) == expected
    assert segments.count_members(scores, rule) == len(expected)
    assert segments.count_members_by_segment(scores, [segment]) == {1: len(expected)}
    for row in rows.select_related(world.scope):
        is_member = getattr(row, world.scope).external_id in expected
        assert segments.segments_containing(scores, [segment], row) == [segment] * is_member
    return expected


def assert_all_agree(
    scores: ScoreSet, world: World, expected_members: list[tuple[Segment, set[str]]]
) -> None:
    """``segments_containing()`` agrees with the members of each segment."""
    own = [segment for segment, _ in expected_members]
    scope: Scope = "user" if world.scope == "user" else "account"
    for row in segments.engagement_rows(scores, scope).select_related(scope):
        name = getattr(row, scope).external_id
        expected = [segment for segment, members in expected_members if name in members]
        assert segments.segments_containing(scores, own, row) == expected


@pytest.mark.slow
@pytest.mark.whole
@examples(5)
@given(
    people=everybody,
    events=st.lists(activities, max_size=25),
    definition=definitions,
    audience=audiences,
    steps=drawn_steps,
    data=st.data(),
)
@leaves_no_rows
def test_members_are_exactly_those_who_match_the_conditions(
    people: dict[str, Subject],
    events: list[Did],
    definition: Definition,
    audience: list[dict[str, Any]],
    steps: list[Step],
    data: st.DataObject,
) -> None:
    scores = score(happen(people, events), definition, audience, steps)
    for world in worlds(people, events, definition, audience, steps):
        expected_members = [
            (Segment(pk=1, scope=world.scope), assert_members_agree(scores, world, "all", []))
        ]
        for number in range(2, 6):
            conditions = draw_conditions(data.draw, world)
            match = data.draw(st.sampled_from(["all", "any"]))
            members = assert_members_agree(scores, world, match, conditions)
            segment = Segment(pk=number, scope=world.scope, match=match, conditions=conditions)
            expected_members.append((segment, members))
        assert_all_agree(scores, world, expected_members)
