"""A what-if shows the ranking that saving the change would give."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.database import sql
from engagement.metric_names import BOTH_SCOPES, Scope
from engagement.models import (
    AccountEngagement,
    EventName,
    EventWeight,
    Product,
    ScoredEvent,
    ScoreSet,
    Segment,
    UserEngagement,
    Workspace,
)
from engagement.rescoring import sets, what_if
from engagement.rescoring.rescore import rescore
from engagement.rescoring.what_if import RankedSubject, RankingPreview, ScoringDefinition
from engagement.scores import sampling
from engagement.segments.members import count_members_by_segment
from tests.cases import examples, leaves_no_rows
from tests.engagement.history import NOON, group, identify, tell, track
from tests.engagement.plain import COUNTING
from tests.engagement.rows import TODAY

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_nights")]

NAMES = ("opened", "shared", "paid")
USERS = [f"user {number}" for number in range(14)]
PLANS = ("free", "pro")


def in_time() -> bool:
    return False


def scores_of(product: Product) -> ScoreSet:
    scores = Workspace.objects.get(product=product).scores
    assert scores is not None
    return scores


def define(product: Product, definition: ScoringDefinition) -> None:
    """Save the definition and rescore."""
    workspace = Workspace.objects.get(product=product)
    workspace.lookback_days = definition.lookback_days
    workspace.half_life_days = definition.half_life_days
    workspace.default_weight = definition.default_weight
    workspace.audience = definition.audience
    workspace.save()
    workspace.weights.all().delete()
    for name, weight in definition.weights.items():
        event_name, _ = EventName.objects.get_or_create(product=product, name=name)
        EventWeight.objects.create(workspace=workspace, event_name=event_name, weight=weight)
    sets.request_score_set(workspace.pk)
    rescore(NOON)


def preview(product: Product, definition: ScoringDefinition) -> dict[Scope, RankingPreview]:
    return what_if.preview_ranking(scores_of(product), definition, TODAY, in_time)


def ranking(subjects: list[RankedSubject]) -> list[tuple[str, int, float]]:
    return [(ranked.subject.external_id, ranked.rank, ranked.score) for ranked in subjects]


def other_ranks(subjects: list[RankedSubject]) -> dict[str, int | None]:
    return {ranked.subject.external_id: ranked.other_rank for ranked in subjects}


def row_counts() -> list[int]:
    return [
        model.objects.count()
        for model in (ScoreSet, ScoredEvent, UserEngagement, AccountEngagement)
    ]


# --- The same as saving ---------------------------------------------------------------------

audiences: st.SearchStrategy[dict[str, Any]] = st.sampled_from([
    {},
    {"match": "all", "conditions": [
        {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"},
    ]},
    {"match": "all", "conditions": [
        {"kind": "event", "event": "paid", "operator": "done", "times": 1, "within_days": 20},
    ]},
    {"match": "any", "conditions": [
        {"kind": "account_trait", "trait": "plan", "operator": "is", "value": "pro"},
        {"kind": "first_seen", "operator": "within_days", "days": 10},
    ]},
])  # fmt: skip
definitions = st.builds(
    lambda counting, default, audience, weights: ScoringDefinition(
        counting[0], default, audience, weights, counting[1]
    ),
    COUNTING,
    st.integers(0, 2),
    audiences,
    st.dictionaries(st.sampled_from([*NAMES, "unheard of"]), st.integers(0, 10)),
)
people = st.fixed_dictionaries(
    dict.fromkeys(
        USERS, st.tuples(st.sampled_from(PLANS), st.sampled_from([None, *"abcdefghijkl"]))
    )
)
events = st.lists(
    st.tuples(
        st.sampled_from(USERS), st.sampled_from(NAMES), st.one_of(st.integers(0, 35), st.just(64))
    ),
    max_size=60,
)


@examples(4)
@given(people=people, events=events, before=definitions, after=definitions)
@leaves_no_rows
def test_a_preview_equals_saving_and_rescoring(
    people: dict[str, tuple[str, str | None]],
    events: list[tuple[str, str, int]],
    before: ScoringDefinition,
    after: ScoringDefinition,
) -> None:
    product = Product.create_with_workspace("Acme")
    for number, account in enumerate("abcdefghijkl"):
        tell(product, group(account, -24 * 60, plan=PLANS[number % 2]))
    for name, (plan, employer) in people.items():
        tell(product, identify(name, -24 * 50, group=employer, plan=plan))
    tell(product, *(track(user, name, -24 * ago) for user, name, ago in events))
    define(product, before)
    old = scores_of(product)
    before_change = {
        scope: ranking(subjects) for scope, subjects in what_if.current_ranking(old).items()
    }
    rows_before = row_counts()

    previews = preview(product, after)

    assert row_counts() == rows_before
    assert {scope: ranking(previews[scope].current) for scope in BOTH_SCOPES} == before_change
    define(product, after)
    members = count_members_by_segment(
        scores_of(product), Segment.objects.filter(workspace__product=product)
    )
    assert {**previews["user"].members, **previews["account"].members} == members
    saved = what_if.current_ranking(scores_of(product))
    assert {scope: ranking(previews[scope].with_change) for scope in BOTH_SCOPES} == {
        scope: ranking(subjects) for scope, subjects in saved.items()
    }
    assert all(previews[scope].sample_size is None for scope in BOTH_SCOPES)
    # A preview of the current definition changes nothing.
    again = preview(product, what_if.scoring_definition(scores_of(product)))
    for scope in BOTH_SCOPES:
        assert [ranked.other_rank for ranked in again[scope].with_change] == [
            ranked.rank for ranked in again[scope].with_change
        ]
        assert again[scope].with_change == again[scope].current


# --- Ranks ----------------------------------------------------------------------------------


def introduce_four(product: Product) -> None:
    """Ann opens a lot, Bob shares a little, Cyd opens a little, and Dan paid three weeks ago."""
    activity = {
        "ann": ("opened", 9),
        "bob": ("shared", 4),
        "cyd": ("opened", 2),
        "dan": ("paid", 1),
    }
    for name, (event, times) in activity.items():
        tell(product, identify(name, -24 * 40, group=f"{name} ltd"))
        ago = 24 * 20 if name == "dan" else 24
        tell(product, *(track(name, event, -ago - 0.01 * number) for number in range(times)))
    define(product, ScoringDefinition(7, 1, {}, {}))


@pytest.mark.parametrize(
    ("change", "then", "absent"),
    [
        ({}, {"ann": 1, "bob": 2, "cyd": 3}, []),
        ({"weights": {"shared": 5}}, {"bob": 2, "ann": 1, "cyd": 3}, []),
        ({"lookback_days": 30}, {"ann": 1, "bob": 2, "cyd": 3, "dan": None}, []),
        ({"default_weight": 0, "weights": {"shared": 1}}, {"bob": 2}, ["ann", "cyd"]),
        ({"weights": {"unheard of": 9}}, {"ann": 1, "bob": 2, "cyd": 3}, []),
    ],
    ids=str,
)
def test_each_ranking_has_the_ranks_of_the_other_one(
    acme: Product, change: dict[str, Any], then: dict[str, int | None], absent: list[str]
) -> None:
    introduce_four(acme)
    previews = preview(acme, what_if.scoring_definition(scores_of(acme))._replace(**change))
    assert other_ranks(previews["user"].with_change) == then
    assert list(other_ranks(previews["user"].with_change)) == list(then)
    assert [
        name for name, rank in other_ranks(previews["user"].current).items() if rank is None
    ] == absent
    assert other_ranks(previews["account"].with_change) == {
        f"{name} ltd": rank for name, rank in then.items()
    }


def test_ten_are_shown_and_lower_ranks_are_known(acme: Product) -> None:
    for number in range(14):
        tell(acme, identify(f"user {number:02}"))
        tell(acme, *(track(f"user {number:02}", "opened", -0.01 * n) for n in range(20 - number)))
    tell(acme, track("user 13", "paid"))
    define(acme, ScoringDefinition(7, 1, {}, {}))
    previews = preview(acme, ScoringDefinition(7, 1, {}, {"paid": 10}))["user"]
    assert len(previews.current) == len(previews.with_change) == what_if.RANKS_SHOWN
    assert previews.with_change[0].subject.external_id == "user 00"
    risen = next(
        ranked for ranked in previews.with_change if ranked.subject.external_id == "user 13"
    )
    assert (risen.rank, risen.other_rank) == (4, 13)


def test_events_of_another_product_do_not_count(acme: Product, globex: Product) -> None:
    introduce_four(acme)
    introduce_four(globex)
    tell(globex, *(track("cyd", "shared", -24 - 0.01 * number) for number in range(50)))
    rescore(NOON)
    previews = preview(acme, ScoringDefinition(7, 1, {}, {"shared": 10}))
    assert other_ranks(previews["user"].with_change) == {"bob": 2, "ann": 1, "cyd": 3}
    assert {ranked.subject.product_id for ranked in previews["account"].with_change} == {acme.pk}


# --- Samples --------------------------------------------------------------------------------


@pytest.fixture
def sampled_from_fifty(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than fifty subjects are sampled: the ten highest and about thirty others."""
    monkeypatch.setattr(what_if, "SCORE_ALL_UP_TO", 50)
    monkeypatch.setattr(what_if, "TOP_USERS", 10)
    monkeypatch.setattr(what_if, "TOP_ACCOUNTS", 10)
    monkeypatch.setattr(what_if, "SAMPLE_SIZE", 30)
    monkeypatch.setattr(sampling, "ID_RANGES", 30)


SEEN_EARLY = {
    "match": "all",
    "conditions": [{"kind": "first_seen", "operator": "more_than_days_ago", "days": 10}],
}


@pytest.mark.usefixtures("sampled_from_fifty")
@pytest.mark.parametrize("audience", [{}, SEEN_EARLY], ids=["everybody", "some"])
def test_a_large_workspace_scores_the_highest_and_a_sample(
    acme: Product, audience: dict[str, Any]
) -> None:
    for number in range(60):
        name = f"user {number:02}"
        tell(acme, identify(name, -24 * 20, group=f"account {number:02}"))
        tell(acme, *(track(name, "opened", -0.01 * n) for n in range(1 + number)))
    define(acme, ScoringDefinition(7, 1, {}, {}))
    previews = preview(acme, ScoringDefinition(7, 2, audience, {}))
    for scope in BOTH_SCOPES:
        # With an audience the users of the accounts are scored, too.
        sample_size = previews[scope].sample_size
        assert sample_size and 30 <= sample_size <= (55 if audience else 40)
        ten = {f"{scope} {59 - rank:02}": rank + 1 for rank in range(10)}
        assert (
            other_ranks(previews[scope].current) == other_ranks(previews[scope].with_change) == ten
        )
        # The estimated benchmark is close: doubled weights hardly change a score.
        for now, then in zip(previews[scope].current, previews[scope].with_change, strict=True):
            assert then.score == pytest.approx(now.score, abs=2)


@pytest.mark.usefixtures("sampled_from_fifty")
def test_accounts_of_too_many_users_are_left_out(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if, "MAX_USERS_OF_ACCOUNTS", 50)
    for number in range(60):
        tell(acme, identify(f"user {number}", group="initech"), track(f"user {number}"))
    define(acme, ScoringDefinition(7, 1, {}, {}))
    assert set(preview(acme, ScoringDefinition(7, 1, {}, {"opened": 2}))) == {"user", "account"}
    assert set(preview(acme, ScoringDefinition(7, 1, SEEN_EARLY, {}))) == {"user"}


def test_accounts_are_left_out_when_time_is_up(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    introduce_four(acme)
    monkeypatch.setattr(what_if, "ACCOUNTS_PER_STEP", 1)
    for questions, expected in ((2, {"user"}), (1 + 4, {"user", "account"})):
        answers = [*[False] * questions, *[True] * 10]
        previews = what_if.preview_ranking(
            scores_of(acme), ScoringDefinition(7, 9, {}, {}), TODAY, partial(answers.pop, 0)
        )
        assert set(previews) == expected


def test_a_preview_stops_in_time_and_leaves_no_rows(acme: Product) -> None:
    introduce_four(acme)
    rows_before = row_counts()
    with pytest.raises(sql.StatementTimeout):
        what_if.preview_ranking(
            scores_of(acme), ScoringDefinition(7, 9, {}, {}), TODAY, lambda: True
        )
    assert row_counts() == rows_before


def test_a_preview_of_more_users_makes_no_more_queries(
    acme: Product, django_assert_max_num_queries: Any
) -> None:
    def introduce(names: range) -> None:
        for number in names:
            tell(acme, identify(f"user {number}", group=f"account {number}"))
            tell(acme, track(f"user {number}", "opened", -1))

    introduce(range(2))
    define(acme, ScoringDefinition(7, 1, {}, {}))
    scores = scores_of(acme)
    with django_assert_max_num_queries(28) as few:
        what_if.preview_ranking(scores, ScoringDefinition(7, 1, {}, {"opened": 3}), TODAY, in_time)
    introduce(range(2, 40))
    rescore(NOON + timedelta(seconds=1))
    with django_assert_max_num_queries(len(few)):
        what_if.preview_ranking(scores, ScoringDefinition(7, 1, {}, {"opened": 3}), TODAY, in_time)
