"""The score of any account on any past day, under any definition."""

from datetime import date

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.database import sql
from engagement.models import (
    Account,
    AccountEngagement,
    Event,
    EventName,
    Product,
    User,
)
from engagement.rescoring.what_if import ScoringDefinition, scoring_definition
from engagement.scores.history import score_history
from outcomes.past_scores import benchmarks
from outcomes.past_scores.late_events import late_share
from outcomes.past_scores.scores import PastScore, past_scores
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON
from tests.outcomes import worlds
from tests.outcomes.worlds import (
    DAY,
    TODAY,
    Count,
    World,
    current_set,
    definition,
    make_world,
    score_as,
)

pytestmark = pytest.mark.django_db

ACCOUNTS = ("hooli", "initech", "umbrella")
NAMES = ("opened", "shared", "paid")
CREATED = {"hooli": TODAY - 500 * DAY, "initech": TODAY - 90 * DAY, "umbrella": TODAY - 20 * DAY}

counts = st.builds(
    Count,
    st.sampled_from(ACCOUNTS),
    st.integers(1, 3),
    st.sampled_from(NAMES),
    st.integers(0, 400) | st.integers(0, 100),
    st.integers(1, 50),
)
unique_counts = st.lists(
    counts,
    max_size=40,
    unique_by=lambda count: (count.account, count.user, count.event, count.days_ago),
)
definitions = st.builds(
    lambda window, *arguments, **weights: definition(
        *window[:1], *arguments, *window[1:], **weights
    ),
    # A lookback, or a month and a half-life.
    st.sampled_from([(1,), (7,), (30,), (30, 7), (30, 60), (30, 180)]),
    st.integers(0, 2),
    opened=st.integers(0, 10),
    paid=st.integers(0, 10),
)


def tolerance(own: ScoringDefinition) -> float:
    """With a half-life, sums of floats may round to another tenth."""
    return 0.11 if own.half_life_days else 0.0


days = st.integers(0, 420).map(lambda ago: TODAY - ago * DAY)


def computed(
    world: World, own: ScoringDefinition, *pairs: tuple[str, date]
) -> list[PastScore | None]:
    ids = [(world.accounts[name], day) for name, day in pairs]
    past = past_scores(current_set(world), own, ids)
    return [past.get(pair) for pair in ids]


@examples(6)
@given(day_counts=unique_counts, own=definitions)
@leaves_no_rows
def test_past_scores_are_those_of_the_history(
    day_counts: list[Count], own: ScoringDefinition
) -> None:
    if own.half_life_days == 7:
        # The history adds up stored points. Of older days these have only a few units each.
        day_counts = [count for count in day_counts if count.days_ago <= 110]
    world = make_world(Product.create_with_workspace("Acme"), day_counts, CREATED, [("initech", 3)])
    score_as(world.product, own)
    scores = current_set(world)
    for row in AccountEngagement.objects.filter(score_set=scores):
        history = dict(score_history(scores, row))
        pairs = [(row.account_id, day) for day in history]
        known_scores = past_scores(scores, scoring_definition(scores), pairs)
        known_from = min(
            (count.day for count in day_counts if world.accounts[count.account] == row.account_id),
            default=TODAY + DAY,
        )
        scores_by_day = {day: past.score for (_, day), past in known_scores.items()}
        in_history = {day: score for day, score in history.items() if day >= known_from}
        error = 2.0 if own.half_life_days == 7 else tolerance(own)
        assert scores_by_day == pytest.approx(in_history, rel=0, abs=error)
        assert known_scores.keys() == {pair for pair in pairs if pair[1] >= known_from}


@examples(12)
@given(
    day_counts=unique_counts,
    current=definitions,
    own=definitions,
    pairs=st.lists(st.tuples(st.sampled_from(ACCOUNTS), days), max_size=12),
)
@leaves_no_rows
def test_any_definition_agrees_with_plain_sums(
    day_counts: list[Count],
    current: ScoringDefinition,
    own: ScoringDefinition,
    pairs: list[tuple[str, date]],
) -> None:
    # Stored benchmarks of a short half-life are coarse: see the test above.
    assume(own != current or own.half_life_days != 7)
    world = make_world(Product.create_with_workspace("Acme"), day_counts, CREATED)
    score_as(world.product, current)
    for (name, day), past in zip(pairs, computed(world, own, *pairs), strict=True):
        if not any(count.account == name and count.day <= day for count in day_counts):
            assert past is None
            continue
        raw, benchmark = worlds.raw(world, own, name, day), worlds.benchmark_of(world, own, day)
        assert past is not None
        score = worlds.score(world, own, name, day)
        assert past.score == pytest.approx(score, rel=0, abs=tolerance(own))
        relative_error = 1e-4 if own.half_life_days else 1e-9
        strength = raw / benchmark if benchmark else 0.0
        assert past.strength == pytest.approx(strength, rel=relative_error)
        assert past.idle_days == worlds.idle_days(world, own, name, day)
        assert past.age_days == max(0, (day - CREATED[name]).days)


def test_a_workspace_with_an_audience_is_judged_without_it(acme: Product) -> None:
    """Nobody knows the traits that users had then, so all of them count, and the stored
    benchmarks, which are the audience's, do not."""
    day_counts = [Count("hooli", 1, "opened", 3, 5), Count("hooli", 2, "opened", 3, 7)]
    world = make_world(acme, day_counts, CREATED)
    audience = {
        "match": "all",
        "conditions": [{"kind": "trait", "trait": "role", "operator": "is", "value": "admin"}],
    }
    acme.workspaces.update(audience=audience)
    score_as(acme, definition())
    (past,) = computed(world, scoring_definition(current_set(world)), ("hooli", TODAY - DAY))
    assert past is not None and (past.score, past.strength) == (90.0, 1.0)


def test_events_that_are_not_scored_now_count_in_another_definition(acme: Product) -> None:
    day_counts = [Count("hooli", 1, "opened", 3, 5), Count("hooli", 2, "opened", 3, 7)]
    world = make_world(acme, day_counts, CREATED)
    score_as(acme, definition(7, 0, opened=0))
    for own in (definition(7, 1), definition(7, 0, opened=2)):
        (past,) = computed(world, own, ("hooli", TODAY - DAY))
        assert past is not None and past.strength == 1.0


def test_the_benchmark_of_many_accounts_comes_from_a_part(acme: Product) -> None:
    names = [f"account {number}" for number in range(60)]
    day_counts = [Count(name, 1, "opened", 200, number + 1) for number, name in enumerate(names)]
    world = make_world(acme, day_counts, dict.fromkeys(names, TODAY - 300 * DAY))
    score_as(acme, definition())
    pairs = [(id, TODAY - 200 * DAY) for id in world.accounts.values()]
    own = definition()
    all_of_them = past_scores(current_set(world), own, pairs)
    top = max(pairs, key=lambda pair: all_of_them[pair].strength)
    assert all_of_them[top].strength == pytest.approx(60 / 54.1)
    # Of one account, it is what that account has.
    of_one = past_scores(current_set(world), own, pairs, sample_size=1)
    assert of_one == past_scores(current_set(world), own, pairs, sample_size=1)
    assert sum(past.strength == 1.0 for past in of_one.values()) == 1
    of_half = past_scores(current_set(world), own, pairs, sample_size=30)
    assert 1 <= of_half[top].strength < 2


def test_benchmarks_of_many_days_are_computed_in_parts(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    day_counts = [Count("hooli", 1, "opened", 10 * n, n + 1) for n in range(90)]
    day_counts += [Count("initech", 1, "opened", 7 * n, 20) for n in range(120)]
    world = make_world(acme, day_counts, CREATED)
    score_as(acme, definition())
    pairs = [(world.accounts["hooli"], TODAY - 10 * n * DAY) for n in range(90)]
    at_once = past_scores(current_set(world), definition(30), pairs)
    monkeypatch.setattr(benchmarks, "DAYS_PER_STATEMENT", 31)
    assert past_scores(current_set(world), definition(30), pairs) == at_once
    assert len(at_once) == 90


def test_it_ends_when_time_is_out(acme: Product) -> None:
    world = make_world(acme, [Count("hooli", 1, "opened", 1)], CREATED)
    score_as(acme, definition())
    pairs = [(world.accounts["hooli"], TODAY)]
    with pytest.raises(sql.StatementTimeout):
        past_scores(current_set(world), definition(), pairs, out_of_time=lambda: True)


def test_accounts_that_nobody_sees_have_no_past(acme: Product) -> None:
    world = make_world(acme, [Count("hooli", 1, "opened", 1)], CREATED)
    score_as(acme, definition())
    Account.objects.filter(external_id="hooli").update(is_identified=False)
    pairs = [(world.accounts["hooli"], TODAY), (world.accounts["initech"], TODAY), (0, TODAY)]
    assert past_scores(current_set(world), definition(), pairs) == {}


# --- Late events ------------------------------------------------------------------------------


def store_event(world: World, account: str, event: str, days_ago: int, late_days: int) -> None:
    Event.objects.create(
        product=world.product,
        user=User.objects.get(external_id=f"{account} 1"),
        account_id=world.accounts[account],
        event_name=EventName.objects.get(name=event),
        occurred_at=NOON - days_ago * DAY,
        received_at=NOON - (days_ago - late_days) * DAY,
        arrival=Event.objects.count(),
    )


def test_late_events_are_those_that_arrived_after_the_day(acme: Product) -> None:
    day_counts = [
        Count("hooli", 1, name, ago) for name in ("opened", "shared") for ago in (10, 11, 12, 30)
    ]
    world = make_world(acme, day_counts, CREATED)
    score_as(acme, definition())
    for ago, late in ((10, 0), (11, 1), (12, 5), (30, 0)):
        store_event(world, "hooli", "opened", ago, late)
    store_event(world, "hooli", "shared", 11, 9)
    scores, pairs = current_set(world), [(world.accounts["hooli"], TODAY - 10 * DAY)]
    long_ago = TODAY - 400 * DAY
    own = definition(shared=0)
    # Of the three in the window, one arrived afterwards, and another on the last day.
    assert late_share(scores, own, pairs, long_ago) == pytest.approx(1 / 3)
    assert late_share(scores, definition(), pairs, long_ago) == pytest.approx(2 / 4)
    assert late_share(scores, definition(30), pairs, long_ago) == pytest.approx(2 / 5)


def test_nobody_knows_how_late_events_were_that_are_gone(acme: Product) -> None:
    world = make_world(acme, [Count("hooli", 1, "opened", 10)], CREATED)
    score_as(acme, definition())
    pairs = [(world.accounts["hooli"], TODAY - 10 * DAY)]
    assert late_share(current_set(world), definition(), pairs, TODAY - 300 * DAY) is None
    store_event(world, "hooli", "opened", 10, 0)
    assert late_share(current_set(world), definition(), pairs, TODAY - 16 * DAY) == 0.0
    assert late_share(current_set(world), definition(), pairs, TODAY - 15 * DAY) is None
    assert late_share(current_set(world), definition(), [], TODAY - 300 * DAY) is None
