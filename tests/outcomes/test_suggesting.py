"""A workspace's outcomes suggest weights, in the background."""

from datetime import timedelta

import numpy as np
import pytest

from core.database import sql
from core.models import Job
from engagement.models import DailyCount, EventName, EventWeight, Product, ScoreSet, Workspace
from engagement.rescoring.what_if import scoring_definition
from outcomes.backtests import storage as backtests
from outcomes.backtests.results import Backtest
from outcomes.kinds import Kind
from outcomes.models import StoredBacktest
from outcomes.suggestions import storage, suggesting
from outcomes.suggestions.choice import Window
from outcomes.suggestions.counts import load_counts
from outcomes.suggestions.results import Suggestion, Weights
from tests.engagement.history import NOON
from tests.jobs import run_job
from tests.outcomes.worlds import (
    DAY,
    TODAY,
    Count,
    Fate,
    World,
    decide,
    definition,
    make_world,
    score_as,
)

pytestmark = pytest.mark.django_db(transaction=True)

SAYS, SAYS_NOTHING = "exported", "opened"


def make(product: Product, number: int, seed: int = 1) -> World:
    """Accounts that renew the more often, the more they exported some time before."""
    chance = np.random.default_rng(seed)
    counts, fates = [], []
    for place in range(number):
        name, day = f"a{place}", 5 + place
        exports, opens = (int(n) for n in np.exp(chance.normal(1.5, 1.2, 2)))
        for event, times in ((SAYS, exports), (SAYS_NOTHING, opens)):
            counts.append(Count(name, 0, event, day + 32, 1 + times))
            counts.append(Count(name, 1, event, day + 95, 1 + times // 2))
        counts.append(Count(name, 0, "other", day + 40))
        is_good = chance.random() < 1 / (1 + np.exp(-2.5 * (np.log1p(exports) - 1.5)))
        fates.append(Fate(name, Kind.RENEWAL, day, bool(is_good)))
    world = make_world(product, counts, {f"a{n}": TODAY - 700 * DAY for n in range(number)})
    decide(world, fates)
    score_as(product, definition(30))
    return world


def workspace_of(world: World) -> Workspace:
    return Workspace.objects.select_related("scores", "product").get(product=world.product)


def suggest(world: World, kind: Kind = Kind.RENEWAL) -> Suggestion:
    return suggesting.suggest(workspace_of(world), kind, TODAY)


def test_counts_of_windows_are_those_of_plain_sums(acme: Product) -> None:
    created = dict.fromkeys(["a", "b", "c"], TODAY - 300 * DAY)
    counts = [
        Count("a", 0, "opened", 10, 4),
        Count("a", 1, "opened", 10, 1),
        Count("a", 0, "opened", 16, 2),
        Count("a", 0, "saved", 17, 3),
        Count("a", 2, "saved", 18, 50),
        Count("a", 0, "rare", 60, 7),
        Count("a", 0, "saved", 9, 100),
        Count("b", 0, "opened", 250, 6),
        Count("b", 0, "saved", 38, 8),
    ]
    world = make_world(acme, counts, created, unidentified=[("a", 2)])
    windows = [Window(7), Window(30), Window(30, 15)]
    day = TODAY - 10 * DAY
    pairs = [(world.accounts[name], day) for name in "abc"] + [(world.accounts["a"], TODAY)]
    loaded = load_counts(acme.pk, pairs, ["saved"], windows)
    assert loaded.names[0] == "saved", "names with a weight come first"
    assert loaded.has_data.tolist() == [True, True, False, True]
    for row, (account, until) in enumerate(pairs):
        own = [c for c in world.counts if world.accounts[c.account] == account and c.day <= until]
        for window, values in loaded.by_window.items():
            for column, name in enumerate(loaded.names):
                sum_ = 0.0
                for count in own:
                    age = (until - count.day).days
                    factor = (
                        2 ** (-age / window.half_life_days)
                        if window.half_life_days
                        else age < window.lookback_days
                    )
                    sum_ += count.times * factor * (count.event == name)
                assert values[row, column] == pytest.approx(sum_), (window, row, name)


def test_names_without_a_column_are_counted_together(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outcomes.suggestions.counts.MOST_NAMES", 1)
    counts = [Count("a", 0, name, 3, 2) for name in ("opened", "saved", "ignored")]
    world = make_world(acme, counts, {"a": TODAY - 9 * DAY})
    loaded = load_counts(
        acme.pk, [(world.accounts["a"], TODAY)], ["saved", "ignored"], [Window(30)]
    )
    # Both have weights of their own, and only one a column: the other does not count as others do.
    assert len(loaded.names) == 1
    assert loaded.by_window[Window(30)].tolist() == [[2, 2]]


def test_weights_follow_from_renewals(acme: Product) -> None:
    world = make(acme, 140)
    suggestion = suggest(world)
    assert suggestion.outcomes == 140
    judgement = suggestion.judgement
    assert judgement is not None
    assert judgement.has_gain
    assert suggestion.present == Weights(30, None, 1, {})
    assert suggestion.suggested is not None
    assert suggestion.suggested.half_life_days in (30, 60, 120, 180)
    assert suggestion.suggested.weights[SAYS] == 10
    assert suggestion.suggested.weights[SAYS_NOTHING] <= 3
    assert judgement.gain is not None
    assert 0 < judgement.gain.low < judgement.gain.value
    assert sum(part.outcomes for part in judgement.parts) == judgement.gain.outcomes < 140
    assert judgement.parts[0].last_day <= judgement.parts[1].first_day
    assert judgement.parts[-1].last_day == TODAY - 35 * DAY
    assert suggestion.revision == 1


def test_too_few_outcomes_suggest_nothing(acme: Product) -> None:
    suggestion = suggest(make(acme, 59))
    assert (suggestion.outcomes, suggestion.needed) == (59, 60)
    assert suggestion.suggested is None
    assert suggestion.judgement is None


def test_outcomes_that_were_answered_or_had_no_data_do_not_count(acme: Product) -> None:
    world = make(acme, 70)
    fates = [*world.fates]
    fates[0] = fates[0]._replace(answered_before=40)
    # Nothing is known of the account 30 days before.
    fates[1] = fates[1]._replace(days_ago=150)
    world.fates = []
    decide(world, fates, revision=2)
    assert suggest(world).outcomes == 68


def test_the_job_computes_what_somebody_asks_for(acme: Product) -> None:
    world = make(acme, 70)
    workspace = workspace_of(world)
    assert not storage.request(workspace, Kind.RENEWAL, NOON), "there is no backtest yet"
    backtests.save(
        workspace,
        None,
        Backtest(Kind.RENEWAL, [], {}, None, None, None, None),
        definition(30),
        NOON,
    )
    assert storage.find(workspace, Kind.RENEWAL) is None
    for days in (0, 1):
        now = NOON + timedelta(days=days)
        assert storage.request(workspace, Kind.RENEWAL, now)
        run_job(storage.JOB, now)
        today = TODAY + days * DAY
        expected = suggesting.suggest(workspace, Kind.RENEWAL, today)
        assert storage.find(workspace, Kind.RENEWAL) == (expected, now)
    assert not Job.objects.filter(kind=storage.JOB).exists()

    storage.request(workspace, Kind.RENEWAL, NOON)
    StoredBacktest.objects.all().delete()
    run_job(storage.JOB, NOON)
    assert not Job.objects.filter(kind=storage.JOB).exists()


SUGGESTED = Suggestion(
    Kind.RENEWAL,
    30,
    100,
    30,
    60,
    Weights(7, None, 1, {"opened": 3, "saved": 2}),
    None,
    None,
    Weights(30, 60, 0, {"opened": 3, "saved": 0, "exported": 10}),
)


def with_weights(product: Product) -> Workspace:
    for name in ("opened", "saved", "exported"):
        EventName.objects.create(product=product, name=name)
    score_as(product, definition(7, opened=3, saved=2))
    return product.workspaces.get()


def test_accepted_weights_become_those_of_the_workspace(acme: Product) -> None:
    workspace = with_weights(acme)
    storage.accept(workspace, SUGGESTED)
    building = ScoreSet.objects.get(workspace=workspace, state=ScoreSet.State.BUILDING)
    assert suggesting.weights_of(scoring_definition(building)) == SUGGESTED.suggested
    workspace.refresh_from_db()
    assert (workspace.lookback_days, workspace.half_life_days) == (30, 60)


def test_a_suggestion_for_other_weights_is_not_accepted(acme: Product) -> None:
    workspace = with_weights(acme)
    EventWeight.objects.filter(event_name__name="saved").update(weight=9)
    with pytest.raises(storage.NotAccepted, match="changed since"):
        storage.accept(workspace, SUGGESTED)
    assert not ScoreSet.objects.filter(state=ScoreSet.State.BUILDING).exists()
    workspace.refresh_from_db()
    assert workspace.lookback_days == 7


def test_statements_that_take_too_long_end(acme: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make(acme, 20)
    monkeypatch.setattr("outcomes.suggestions.counts.STATEMENT_TIMEOUT_SECONDS", 0.001)
    monkeypatch.setattr("outcomes.suggestions.counts._FREQUENT", "SELECT 1, pg_sleep(1)::text")
    assert DailyCount.objects.exists()
    with pytest.raises(sql.StatementTimeout):
        suggest(world)
