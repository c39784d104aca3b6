"""Backtests are computed in the background, kept, and computed again when they are outdated."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from core.jobs import run
from core.models import Job
from engagement.models import Product, Segment, Workspace
from engagement.rescoring.what_if import scoring_definition
from outcomes import tasks
from outcomes.backtests import backtest, jobs, storage
from outcomes.backtests.results import Backtest, Verdict
from outcomes.kinds import Kind
from outcomes.models import LicenseOutcome, LicenseRevision, StoredBacktest
from outcomes.reading import QUEUE
from outcomes.sources import licenses
from tests.engagement.history import NOON
from tests.engagement.nights.kills import kill_at_each
from tests.outcomes.test_backtests import lively, renewals
from tests.outcomes.worlds import DAY, TODAY, World, definition, score_as

pytestmark = pytest.mark.django_db(transaction=True)

ALL = [Kind.RENEWAL, Kind.MONTHLY_STAY, Kind.EVALUATION, Kind.DORMANCY]


@pytest.fixture
def world(acme: Product) -> World:
    return lively(acme, 40, renewals(40, *range(10)))


def work(now: datetime) -> int:
    """What is due is computed; return how many backtests."""
    jobs.request_due(now)
    before = set(StoredBacktest.objects.values_list("pk", "computed_at"))
    run.run_due(QUEUE, lambda: now)
    return len(set(StoredBacktest.objects.values_list("pk", "computed_at")) - before)


def workspace_of(world: World) -> Workspace:
    return Workspace.objects.select_related("scores").get(product=world.product)


def test_all_kinds_are_computed_and_kept(world: World) -> None:
    workspace = workspace_of(world)
    assert storage.first_kind(workspace) is None and storage.progress(workspace) == ""
    assert work(NOON) == len(ALL)
    for kind in ALL:
        dated = storage.find(workspace, kind)
        assert dated == (backtest.run(workspace, kind, TODAY), NOON)
    assert storage.find(workspace, Kind.TRAIT) is None
    assert storage.first_kind(workspace) is Kind.RENEWAL
    row = StoredBacktest.objects.get(kind=Kind.RENEWAL)
    assert workspace.scores
    assert (row.revision, row.score_set_id) == (1, workspace.scores_id)
    assert row.definition == storage.fingerprint(scoring_definition(workspace.scores))
    assert not Job.objects.filter(kind=storage.OF_WORKSPACE).exists()


def test_what_is_outdated_is_computed_again(world: World) -> None:
    assert work(NOON) == len(ALL)
    assert work(NOON + timedelta(days=6, hours=23)) == 0
    assert work(NOON + timedelta(days=7)) == len(ALL), "each week"

    score_as(world.product, definition(7, opened=3))
    assert work(NOON + timedelta(days=7, minutes=14)) == 0, "however often weights are edited"
    assert work(NOON + timedelta(days=7, minutes=15)) == len(ALL)

    licenses.follow(world.product.pk, 2)
    assert work(NOON + timedelta(days=7, minutes=29)) == 0, "however often the ledger changes"
    assert work(NOON + timedelta(days=7, minutes=30)) == len(ALL)
    assert set(StoredBacktest.objects.values_list("kind", "revision")) == {
        *((kind, 2) for kind in ALL if kind is not Kind.DORMANCY),
        (Kind.DORMANCY, None),
    }


def test_a_product_without_licenses_has_dormancy_alone(world: World) -> None:
    work(NOON)
    LicenseOutcome.objects.all().delete()
    LicenseRevision.objects.all().delete()
    assert work(NOON + DAY) == 1
    assert list(StoredBacktest.objects.values_list("kind", flat=True)) == [Kind.DORMANCY]
    assert work(NOON + 2 * DAY) == 0


def test_products_that_are_deleted_and_workspaces_without_scores_are_left_alone(
    world: World, globex: Product
) -> None:
    Product.objects.filter(pk=world.product.pk).update(deletion_requested_at=NOON)
    assert work(NOON) == 0
    storage.request(workspace_of(world), None, NOON)
    assert work(NOON) == 0 and not Job.objects.filter(kind=storage.OF_WORKSPACE).exists()


def test_a_segment_is_computed_on_request_and_kept_for_a_while(world: World) -> None:
    workspace = workspace_of(world)
    condition = {"kind": "trait", "trait": "plan", "operator": "is_not", "value": "pro"}
    segment = Segment.objects.create(
        workspace=workspace, name="Not pro", scope="account", conditions=[condition]
    )
    work(NOON)
    assert storage.find(workspace, Kind.RENEWAL, segment) is None
    storage.request(workspace, segment, NOON)
    assert storage.progress(workspace) == "Computing soon."
    assert work(NOON) == len(ALL) and storage.progress(workspace) == ""
    dated = storage.find(workspace, Kind.RENEWAL, segment)
    assert dated and dated.backtest.segment == segment.pk
    work(NOON + 31 * DAY)
    assert storage.find(workspace, Kind.RENEWAL, segment) is None
    assert storage.find(workspace, Kind.RENEWAL) is not None

    storage.request(workspace, segment, NOON)
    segment.delete()
    work(NOON)
    assert not Job.objects.filter(kind=storage.OF_SEGMENT).exists()


def test_a_request_is_worked_off_and_says_how_far_it_is(world: World) -> None:
    workspace = workspace_of(world)
    work(NOON)
    storage.request(workspace, None, NOON + DAY)
    run.run_due(QUEUE, lambda: NOON + DAY, lambda: True)
    assert storage.progress(workspace) == "Computing: 1 of 4 kinds."
    Job.objects.filter(kind=storage.OF_WORKSPACE).update(is_paused=True)
    assert storage.progress(workspace) == "Computing is interrupted: somebody has paused it."
    Job.objects.filter(kind=storage.OF_WORKSPACE).update(is_paused=False)
    run.run_due(QUEUE, lambda: NOON + DAY)
    assert storage.progress(workspace) == ""
    assert set(StoredBacktest.objects.values_list("computed_at")) == {(NOON + DAY,)}


def test_figures_of_scores_that_nobody_sees_any_more_are_not_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workspace is edited while its backtest is computed."""
    compute = backtest.run

    def edit(workspace: Workspace, *arguments: Any, **options: Any) -> Backtest:
        result = compute(workspace, *arguments, **options)
        monkeypatch.setattr(backtest, "run", compute)
        score_as(world.product, definition(30, opened=5))
        return result

    monkeypatch.setattr(backtest, "run", edit)
    assert work(NOON) == len(ALL)
    workspace = workspace_of(world)
    for kind in ALL:
        dated = storage.find(workspace, kind)
        assert dated and dated.backtest == compute(workspace, kind, TODAY)


def test_statements_without_time_are_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outcomes.past_scores.scores.STATEMENT_TIMEOUT_SECONDS", 0.001)
    assert work(NOON) == 0
    assert storage.progress(workspace_of(world)).startswith("Computing is interrupted: A statement")
    monkeypatch.undo()
    assert work(NOON + DAY) == len(ALL)


def test_the_task_computes_what_is_due(world: World) -> None:
    tasks.run()
    assert StoredBacktest.objects.count() == len(ALL)


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(world: World) -> None:
    work(NOON)
    expected = {row.kind: row.result for row in StoredBacktest.objects.all()}
    assert expected[Kind.RENEWAL]["horizons"][0]["verdict"] == Verdict.BETTER_THAN_BOTH
    StoredBacktest.objects.all().delete()
    clock = Clock()
    jobs.request_due(clock.now)
    kills = kill_at_each(
        storage.OF_WORKSPACE, range(5, 500, 20), lambda: clock.now, lambda time: clock.step(time)
    )
    assert kills > 3
    # The same outcomes on the same day: no lease lasts until the next one.
    assert {row.kind: row.result for row in StoredBacktest.objects.all()} == expected


class Clock:
    """Goes on by the minute while workers wait, so that all of it is on one day."""

    def __init__(self) -> None:
        self.now = datetime.combine(TODAY, datetime.min.time(), NOON.tzinfo)

    def step(self, time: timedelta) -> None:
        self.now += min(time, timedelta(minutes=12))
