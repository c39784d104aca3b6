"""An edited workspace shows its old scores until the new ones are complete."""

from collections.abc import Callable
from datetime import timedelta
from threading import Thread

import pytest
from django.db import connection, transaction

from core.database import locks
from engagement.models import (
    AccountEngagement,
    DailyBenchmark,
    EventName,
    EventWeight,
    Product,
    ScoredEvent,
    ScoreSet,
    User,
    UserEngagement,
    Workspace,
)
from engagement.rescoring import ranges, sets
from engagement.rescoring import rescore as rescoring
from engagement.rescoring.jobs import BUILD_SETS
from engagement.rescoring.rescore import rescore
from tests.engagement.history import NOON, group, identify, tell, track
from tests.jobs import run_job

LATER = NOON + timedelta(minutes=2)


@pytest.fixture(autouse=True)
def one_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """One range for all subjects, because ids keep growing from test to test."""
    monkeypatch.setattr(ranges, "IDS_PER_RANGE", 1_000_000_000)


@pytest.fixture
def busy(acme: Product) -> Product:
    """Acme with two scored users in two accounts."""
    tell(acme, identify("ann", -1, group="initech"), identify("bob", -1, group="hooli"))
    tell(acme, track("ann", "opened"), track("bob", "opened"), track("bob", "shared"))
    rescore(NOON)
    return acme


def workspace_of(product: Product) -> Workspace:
    return Workspace.objects.select_related("scores").get(product=product)


def scores_by_account(product: Product) -> dict[str, int]:
    """The raw scores that readers see."""
    rows = UserEngagement.objects.filter(score_set=workspace_of(product).scores)
    return dict(rows.values_list("user__external_id", "raw"))


def weigh(product: Product, name: str, weight: int) -> None:
    """Edit the weight as the admin does."""
    event_name, _ = EventName.objects.get_or_create(product=product, name=name)
    workspace = workspace_of(product)
    EventWeight.objects.update_or_create(
        workspace=workspace, event_name=event_name, defaults={"weight": weight}
    )
    sets.request_score_set(workspace.pk)


def steps(number: int) -> Callable[[], bool]:
    """An ``out_of_time`` that returns true after *number* calls."""
    steps_left = iter(range(number))
    return lambda: next(steps_left, None) is None


def build(allowed: int) -> None:
    """Build the requested sets: one step, and *allowed* further ones."""
    run_job(BUILD_SETS, NOON, steps(allowed))


def test_readers_see_the_old_scores_and_their_definition_until_the_new_are_complete(
    busy: Product,
) -> None:
    weigh(busy, "opened", 9)
    old = workspace_of(busy).scores
    # Users, accounts, and then the benchmarks with the publication.
    for step in range(2):
        build(0)
        assert workspace_of(busy).scores == old, step
        assert scores_by_account(busy) == {"ann": 1, "bob": 2}
        assert not ScoredEvent.objects.filter(score_set=old).exists()
    build(0)
    new = workspace_of(busy).scores
    assert new is not None and new != old
    assert scores_by_account(busy) == {"ann": 9, "bob": 10}
    assert (new.user_benchmark, new.state) == (9.9, "current")
    assert list(new.weights.values_list("event_name__name", "weight")) == [("opened", 9)]


def test_changes_during_building_are_in_both_sets(busy: Product) -> None:
    weigh(busy, "opened", 9)
    build(0)
    tell(busy, track("ann", "opened"), identify("cyd", -1, group="hooli"), track("cyd", "opened"))
    assert rescore(NOON, out_of_time=steps(1)) > 0
    assert scores_by_account(busy) == {"ann": 2, "bob": 2, "cyd": 1}
    rescore(LATER)
    assert scores_by_account(busy) == {"ann": 18, "bob": 10, "cyd": 9}
    accounts = AccountEngagement.objects.filter(score_set=workspace_of(busy).scores)
    assert dict(accounts.values_list("account__external_id", "raw")) == {"initech": 18, "hooli": 19}


def test_requests_ahead_of_building_are_not_scored_twice(
    busy: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "IDS_PER_RANGE", 1)
    ann = User.objects.get(external_id="ann").pk
    weigh(busy, "opened", 9)
    building = ScoreSet.objects.filter(state="building")
    building.update(built_until=ann, scored_day=NOON.date())
    tell(busy, track("ann", "opened"), track("bob", "opened"))

    def scored(model: type[UserEngagement] | type[AccountEngagement]) -> list[int]:
        rows = model.objects.filter(score_set__in=building)
        return list(rows.order_by("pk").values_list("raw", flat=True))

    monkeypatch.setattr(rescoring, "run_due", lambda *_: 0)
    assert rescore(NOON) > 0
    # Building has not reached Bob and the accounts yet.
    assert (scored(UserEngagement), scored(AccountEngagement)) == ([18], [])
    building.update(phase="accounts", built_until=0)
    tell(busy, track("bob", "opened"))
    rescore(NOON)
    assert (scored(UserEngagement), scored(AccountEngagement)) == ([18, 28], [])
    building.update(phase="benchmarks")
    tell(busy, track("bob", "opened"))
    rescore(NOON)
    assert (scored(UserEngagement), scored(AccountEngagement)) == ([18, 37], [37])


def test_a_second_edit_abandons_the_set_being_built(busy: Product) -> None:
    weigh(busy, "opened", 9)
    build(0)
    abandoned = ScoreSet.objects.get(state="building")
    weigh(busy, "opened", 5)
    rescore(NOON)
    assert scores_by_account(busy) == {"ann": 5, "bob": 6}
    assert not ScoreSet.objects.filter(pk=abandoned.pk).exists()
    assert not UserEngagement.objects.filter(score_set_id=abandoned.pk).exists()


def test_a_replaced_set_is_deleted_a_little_later(busy: Product) -> None:
    old = workspace_of(busy).scores
    weigh(busy, "opened", 9)
    rescore(NOON)
    assert UserEngagement.objects.filter(score_set=old).count() == 2
    rescore(NOON + sets.RETIRED_RETENTION / 2)
    assert UserEngagement.objects.filter(score_set=old).count() == 2
    rescore(LATER)
    for model in (UserEngagement, AccountEngagement, DailyBenchmark, ScoredEvent):
        assert not model.objects.filter(score_set=old).exists()
    assert list(ScoreSet.objects.values_list("state", flat=True)) == ["current"]


def test_large_sets_are_built_and_deleted_in_steps(
    busy: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(busy, *(identify(f"user {number}") for number in range(5)))
    # Ids keep growing from test to test. This makes a step end among these users.
    middle = User.objects.order_by("pk")[2].pk
    monkeypatch.setattr(ranges, "IDS_PER_RANGE", middle)
    monkeypatch.setattr(sets, "ROWS_PER_DELETION", 1)
    weigh(busy, "opened", 3)
    rescore(NOON)
    rescore(LATER)
    idle = {f"user {number}": 0 for number in range(5)}
    assert scores_by_account(busy) == {"ann": 3, "bob": 4, **idle}
    assert ScoreSet.objects.count() == 1


def test_ids_of_other_products_take_few_steps(
    busy: Product, globex: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(globex, *(identify(f"user {number}") for number in range(60)))
    tell(busy, identify("cyd"))
    first, *_, last = User.objects.order_by("pk").values_list("pk", flat=True)
    weigh(busy, "opened", 9)
    building = ScoreSet.objects.filter(state="building")
    building.update(built_until=first - 1)
    monkeypatch.setattr(ranges, "IDS_PER_RANGE", 1)
    monkeypatch.setattr(ranges, "RANGES_PER_STEP", 50)
    built = []
    while building.get().phase == "users":
        built.append(building.get().built)
        build(0)
    assert last - first > 60
    # Ann, Bob, fifty ranges without a user of the product, and the rest up to Cyd.
    assert built == [0, 1, 2, 2]


def test_progress_is_a_sentence(busy: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    def progress() -> str:
        workspaces = Workspace.objects.filter(product=busy).select_related("scores")
        return sets.describe_progress(sets.prefetch_building(workspaces).get())

    assert progress() == "Up to date through 24 Sep 2026"
    weigh(busy, "opened", 9)
    suffix = "Until it finishes, you see the old scores."
    assert progress() == f"Recalculating (users next). {suffix}"
    monkeypatch.setattr(ranges, "IDS_PER_RANGE", 1)
    ann = UserEngagement.objects.order_by("user_id").values_list("user_id", flat=True)[0]
    ScoreSet.objects.filter(state="building").update(built_until=ann - 1)
    build(0)
    assert progress() == f"Recalculating (1 of 2 users). {suffix}"
    build(0)
    assert progress() == f"Recalculating (accounts next). {suffix}"


def test_a_new_workspace_says_so_until_it_is_scored(acme: Product) -> None:
    workspaces = sets.prefetch_building(Workspace.objects.filter(product=acme))
    assert sets.describe_progress(workspaces.get()) == "Not computed yet"
    sets.request_missing_score_sets(NOON.date())
    assert sets.describe_progress(workspaces.get()) == "Recalculating (users next)."


def test_a_product_that_is_being_scored_elsewhere_is_left_alone(
    transactional_db: None, busy: Product
) -> None:
    weigh(busy, "opened", 9)
    answers: list[dict[str, int]] = []

    def elsewhere() -> None:
        rescore(NOON)
        answers.append(scores_by_account(busy))
        connection.close()

    with transaction.atomic():
        assert locks.try_lock_scoring(busy.pk)
        other = Thread(target=elsewhere)
        other.start()
        other.join()
    assert answers == [{"ann": 1, "bob": 2}]
    rescore(NOON)
    assert scores_by_account(busy) == {"ann": 9, "bob": 10}


def test_a_workspace_that_is_deleted_while_it_is_built_is_forgotten(busy: Product) -> None:
    weigh(busy, "opened", 9)
    build(0)
    workspace_of(busy).delete()
    tell(busy, track("ann", "opened"))
    rescore(LATER)
    assert ScoreSet.objects.count() == 0
    assert not UserEngagement.objects.filter(product=busy).exists()


def test_an_account_without_users_is_shown_with_nothing(busy: Product) -> None:
    tell(busy, group("empty"))
    rescore(NOON)
    row = AccountEngagement.objects.get(account__external_id="empty")
    assert (row.raw, row.active_users, row.total_users) == (0, 0, 0)
