"""Chances are found in the background each night, and nothing stays of what is decided or gone."""

import json
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.db import transaction

from core.database import clocks
from core.jobs import run
from core.models import Job
from engagement import changes
from engagement.models import AccountChance, Product, ScoreSet, Workspace
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import deletion, forgetting
from engagement.removal.jobs import DELETE_PRODUCT
from engagement.segments.chances import ShownChance
from outcomes import tasks
from outcomes.chances import jobs, looking, storage
from outcomes.chances.results import Evidence, Feature, Totals
from outcomes.chances.storage import ChanceRow
from outcomes.kinds import Kind
from outcomes.models import ChanceLook, ChanceModel, LicenseOutcome, LicenseRevision, StoredForecast
from outcomes.reading import QUEUE
from outcomes.sources import licenses
from outcomes.sources.licenses import OutcomeRow
from outcomes.statistics.rates import wilson
from tests.cases import each
from tests.engagement.history import NOON
from tests.engagement.nights.kills import kill_at_each
from tests.jobs import run_job
from tests.outcomes.test_backtest_jobs import Clock
from tests.outcomes.test_chances import an_open
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

RUNNING = ("eager", "idle")
PAST = 60


def past(number: int) -> str:
    return f"past {number}"


def evaluation_world(product: Product, decided: int = PAST) -> World:
    """Evaluations of 30 days, a day apart: those of even numbers were used each day and bought, as
    the eager one is; the others were opened once."""
    ends = {past(n): 3 + n for n in range(decided)}
    began = {name: days + 30 for name, days in ends.items()} | dict.fromkeys(RUNNING, 10)
    counts = []
    for place, (name, ago) in enumerate(began.items()):
        is_used = name == "eager" or (name != "idle" and place % 2 == 0)
        days_of_use = range(12) if is_used else range(1)
        counts += [
            Count(name, user, "opened", ago - day)
            for day in days_of_use
            for user in range(1, 2 + is_used)
            if ago >= day
        ]
    world = make_world(product, counts, {name: TODAY - ago * DAY for name, ago in began.items()})
    fates = [
        Fate(name, Kind.EVALUATION, days, n % 2 == 0 and n % 14 != 0, 0, None, 30)
        for n, (name, days) in enumerate(ends.items())
    ]
    decide(world, fates)
    rows = [an_open(f"of {name}", 10, 20, cloud_id=name) for name in RUNNING]
    store(product, *rows)
    score_as(product, definition(7))
    return world


def store(product: Product, *rows: OutcomeRow) -> None:
    licenses.replace(product.pk, sorted({row.license for row in rows}), rows)
    LicenseRevision.objects.get_or_create(product=product, defaults={"revision": 1})


@pytest.fixture
def world(acme: Product) -> World:
    return evaluation_world(acme)


def workspace_of(world: World) -> Workspace:
    return Workspace.objects.select_related("scores", "product").get(product=world.product)


def work(now: datetime) -> bool:
    """Do what is due. Returns whether chances were."""
    jobs.request_due(now)
    is_due = Job.objects.filter(kind=storage.JOB).exists()
    run_job(storage.JOB, now)
    assert not Job.objects.filter(kind=storage.JOB).exists()
    return is_due


def chances(world: World, kind: Kind = Kind.EVALUATION) -> dict[str, AccountChance]:
    return {row.license: row for row in storage.running(workspace_of(world), kind)}


def version_of(world: World) -> int:
    version = chances(world)["of idle"].version
    assert version is not None
    return version


def test_running_evaluations_get_chances_with_evidence(world: World) -> None:
    assert storage.looked_at(workspace_of(world)) is None
    assert work(NOON)
    own = chances(world)
    eager, idle = own["of eager"], own["of idle"]
    assert eager.chance > 0.7 > 0.3 > idle.chance
    for row in (eager, idle):
        assert 0 <= row.low < row.chance < row.high <= 1 and not row.is_share
        assert (row.outcomes, row.looked_on, row.seats) == (PAST, TODAY, 12)
        assert (row.began_on, row.day) == (TODAY - 10 * DAY, TODAY + 20 * DAY)
        model = storage.models(workspace_of(world), Kind.EVALUATION)[7]
        assert row.version == model.pk and (model.outcomes, model.good) == (PAST, 25)
        evidence = storage.evidence_of(row)
        assert len(evidence.similar) == 5 and 1 <= len(evidence.facts) <= 3
        assert all((fact.effect > 0) == (row is eager) for fact in evidence.facts[:1])
        assert msgspec.convert(msgspec.to_builtins(evidence), Evidence) == evidence
    assert {case.is_good for case in storage.evidence_of(idle).similar} == {False}
    assert storage.looked_at(workspace_of(world)) == NOON
    proof = storage.proof_of(storage.models(workspace_of(world), Kind.EVALUATION)[7])
    assert proof is None


def test_what_chances_add_up_to_is_kept(world: World) -> None:
    assert storage.totals(workspace_of(world)) == {}
    store(
        world.product,
        an_open("young", 2, 28, cloud_id="eager"),
        an_open("answered", 10, 20, cloud_id="eager", answered_on=TODAY),
        an_open("nowhere", 10, 20, cloud_id="unknown"),
    )
    work(NOON)
    own = storage.totals(workspace_of(world))
    assert set(own) == set(licenses.KINDS)
    evaluations, rows = own[Kind.EVALUATION], list(chances(world).values())
    assert (evaluations.running, evaluations.learned) == (2, 2)
    assert evaluations.expected == pytest.approx(sum(row.chance for row in rows))
    assert 0 <= evaluations.low < evaluations.expected < evaluations.high <= 2
    assert (evaluations.answered, evaluations.too_young, evaluations.without_data) == (1, 1, 1)
    assert own[Kind.RENEWAL] == Totals()


def test_a_proof_is_on_the_model(acme: Product) -> None:
    world = evaluation_world(acme, 130)
    work(NOON)
    proof = storage.proof_of(storage.models(workspace_of(world), Kind.EVALUATION)[7])
    assert proof and proof.brier < proof.brier_of_share and proof.gain.low > 0 and proof.bins


def test_too_few_outcomes_give_the_share_of_all(acme: Product) -> None:
    world = evaluation_world(acme, 30)
    work(NOON)
    model = storage.models(workspace_of(world), Kind.EVALUATION)[7]
    share = wilson(model.good, model.outcomes)
    assert share and model.coefficients is None and storage.proof_of(model) is None
    for row in chances(world).values():
        assert row.is_share and row.evidence == {}
        assert (row.chance, row.low, row.high) == (share.value, share.low, share.high)


def test_without_any_outcome_nothing_is_said(acme: Product) -> None:
    world = evaluation_world(acme, 0)
    assert work(NOON) and chances(world) == {}
    assert storage.models(workspace_of(world), Kind.EVALUATION)[7].outcomes == 0
    assert not work(NOON + timedelta(hours=2))


def test_the_first_outcomes_of_a_ledger_are_not_waited_for(world: World) -> None:
    decided = LicenseOutcome.objects.exclude(known_on=None)
    decided.update(exclusion="unknown")
    assert work(NOON) and chances(world) == {}
    decided.update(exclusion="")
    assert not work(NOON + timedelta(minutes=1))
    licenses.follow(world.product.pk, 2)
    assert work(NOON + timedelta(minutes=2))
    assert set(chances(world)) == {"of eager", "of idle"}
    licenses.follow(world.product.pk, 3)
    assert not work(NOON + timedelta(minutes=3))


def test_it_is_looked_at_each_night_and_after_changes(world: World) -> None:
    assert work(NOON) and not work(NOON + timedelta(hours=11))
    version = version_of(world)
    assert work(NOON + timedelta(hours=12))
    assert {row.looked_on for row in chances(world).values()} == {TODAY + DAY}
    assert version_of(world) == version, "no outcome has arrived"

    night = NOON + timedelta(hours=12)
    licenses.follow(world.product.pk, 2)
    assert not work(night + timedelta(minutes=59)), "however often the ledger changes"
    assert work(night + timedelta(hours=1))
    assert version_of(world) == version, "models are fitted once a day"
    licenses.follow(world.product.pk, 3)
    assert work(night + DAY)
    assert version_of(world) > version

    version = version_of(world)
    score_as(world.product, definition(7, opened=3))
    assert work(night + DAY + timedelta(hours=1))
    assert version_of(world) > version, "other events count"


def test_a_model_that_knew_fewer_features_is_fitted_again(world: World) -> None:
    """Nothing else is new that night: with all features, it would stay."""
    work(NOON)
    version = version_of(world)
    for model in ChanceModel.objects.exclude(coefficients=None):
        model.coefficients = {**(model.coefficients or {}), "means": [0.0] * (len(Feature) - 1)}
        model.save(update_fields=["coefficients"])
    assert work(NOON + timedelta(hours=12))
    assert version_of(world) > version


def test_what_is_decided_answered_or_gone_has_no_chance(world: World) -> None:
    work(NOON)
    assert set(chances(world)) == {"of eager", "of idle"}
    LicenseOutcome.objects.filter(license="of eager").update(answered_on=TODAY)
    work(NOON + DAY)
    assert set(chances(world)) == {"of idle"}
    LicenseOutcome.objects.filter(license="of idle").update(
        known_on=TODAY, exclusion="", result="bought"
    )
    licenses.follow(world.product.pk, 2)
    work(NOON + DAY + timedelta(hours=1))
    assert chances(world) == {}, "on the same day, too"


def test_a_kind_that_is_turned_off_has_no_chances(world: World) -> None:
    work(NOON)
    world.product.workspaces.update(outcomes={"off": ["evaluation"]})
    work(NOON + DAY)
    assert chances(world) == {}


def test_past_cases_have_the_seats_of_their_day(world: World) -> None:
    """Who leaves may give up seats first: that is not known on day 7."""
    later = f'[["{TODAY - 5 * DAY}", 300]]'
    LicenseOutcome.objects.exclude(known_on=None).update(seats=1, earlier_seats=json.loads(later))
    own = workspace_of(world)
    assert own.scores is not None
    cases = looking.past_cases(own, own.scores, Kind.EVALUATION, 7, TODAY)
    seats = cases.values[:, list(Feature).index(Feature.SEATS)]
    assert len(seats) == PAST and set(seats) == {300}
    assert {outcome.seats for outcome in cases.outcomes} == {1}


def test_a_few_that_all_ended_alike_make_nothing_certain(acme: Product) -> None:
    world = evaluation_world(acme, 30)
    LicenseOutcome.objects.exclude(known_on=None).update(result="bought")
    work(NOON)
    for row in chances(world).values():
        assert row.is_share and row.chance == 30.5 / 31 and row.low < row.chance < row.high == 1


def test_terms_have_chances_of_several_models(world: World) -> None:
    renewals = [an_open(f"R-{n}", 300, n, Kind.RENEWAL, cloud_id="eager") for n in (10, 58, 120)]
    fates = [Fate(past(n), Kind.RENEWAL, 2, n % 2 == 0) for n in range(PAST)]
    decide(world, fates, 2)
    store(world.product, *renewals)
    work(NOON)
    own = chances(world, Kind.RENEWAL)
    models = storage.models(workspace_of(world), Kind.RENEWAL)
    # The first began 92 days ago: nothing is known of 120 days before, nor of what ends then.
    assert [model.outcomes for model in models.values()] == [60, 60, 31, 1, 0]
    assert {row.license: row.version for row in own.values()} == {
        license: models[age].pk
        for license, age in (("R-10", 14), ("R-58", 60), ("R-120", 120))
        if models[age].outcomes
    }


def test_old_versions_go_unless_a_forecast_names_them(world: World) -> None:
    work(NOON)
    workspace = workspace_of(world)
    first = {age: model.pk for age, model in storage.models(workspace, Kind.EVALUATION).items()}
    StoredForecast.objects.create(
        product=world.product,
        workspace=workspace,
        kind=Kind.RENEWAL,
        made_on=TODAY,
        looked_at=NOON,
        stays=True,
        result={},
        versions=[first[3], first[7]],
        **{name: [] for name in ("licenses", "days", "seats", "cents", "chances")},
    )
    licenses.follow(world.product.pk, 2)
    work(NOON + DAY)
    assert set(first.values()) <= set(ChanceModel.objects.values_list("pk", flat=True))
    work(NOON + 9 * DAY)
    rest = set(ChanceModel.objects.values_list("pk", flat=True)) & set(first.values())
    assert rest == {first[3], first[7]}


def test_chances_of_many_accounts_are_found_in_parts(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product without licenses: who may go quiet."""
    names = [f"account {n:03}" for n in range(60)]
    counts = [
        Count(name, 1, "opened", ago)
        for n, name in enumerate(names)
        for ago in range(0, 200, 9)
        if n % 2 or ago > 60 or ago < 9
    ]
    world = make_world(acme, counts, dict.fromkeys(names, TODAY - 300 * DAY))
    score_as(acme, definition(7))
    monkeypatch.setattr(looking, "CASES_PER_STEP", 25)
    work(NOON)
    own = storage.running(workspace_of(world), Kind.DORMANCY)
    assert own.count() == 60
    assert set(own.values_list("began_on", "day", "license")) == {(TODAY, TODAY + 30 * DAY, "")}
    assert all(0 < row.chance <= 1 and "similar" in row.evidence for row in own)


def test_accounts_are_stamped_when_what_they_show_changes(world: World) -> None:
    """So lists, segments, exports, and subscriptions learn of it, and of nothing else."""

    def stamped(since: int) -> set[str]:
        ids = changes.changed_ids(world.product.pk, "account", since, 0, 1_000)
        return {name for name, pk in world.accounts.items() if pk in ids}

    def look() -> tuple[set[str], bool]:
        since = changes.latest_stamp(world.product.pk)
        ScoreSet.objects.update(watches_stale=False, cached_counts_stale=False)
        storage.request(workspace_of(world).pk, NOON)
        assert work(NOON)
        return stamped(since), ScoreSet.objects.get().watches_stale

    nobody: set[str] = set()
    assert look() == ({"eager", "idle"}, True)
    assert look() == (nobody, False)
    own = AccountChance.objects.filter(account_id=world.accounts["idle"])
    idle = own.get()
    # Stored as something else that looks the same, and that does not.
    before = ShownChance.of(False, idle.chance, idle.low, idle.high)
    own.update(chance=idle.chance + 1e-9)
    assert own.get().chance != idle.chance
    assert ShownChance.of(False, own.get().chance, idle.low, idle.high) == before
    assert look() == (nobody, False)
    for other in ({"chance": 0.99}, {"high": 1.0}, {"is_share": True}):
        own.update(**other)
        assert look() == ({"idle"}, True)
    # It was bought: no chance is left.
    LicenseOutcome.objects.filter(license="of eager").delete()
    assert look() == ({"eager"}, True)
    own.update(kind=Kind.TRAIT)
    assert look() == ({"idle"}, True)
    assert set(AccountChance.objects.values_list("kind", flat=True)) == {Kind.EVALUATION}


@each(
    ("kind", "values", "is_new"),
    [
        (Kind.DORMANCY, {"chance": 0.529, "low": 0.38, "high": 0.62}, False),
        (Kind.DORMANCY, {"chance": 0.54}, True),
        (Kind.TRAIT, {"low": 0.36}, True),
        (Kind.DORMANCY, {"high": 0.64}, True),
        (Kind.TRAIT, {"is_share": True}, True),
        (Kind.RENEWAL, {"chance": 0.51}, True),
    ],
)
def test_a_chance_without_licenses_stays_until_it_moves_by_three_points(
    world: World, kind: Kind, values: dict[str, Any], is_new: bool
) -> None:
    """Of a million active accounts, most would count as changed each night."""
    own, (account, *_) = workspace_of(world), world.accounts.values()
    row = ChanceRow(account, "", TODAY, TODAY, 0.5, 0.4, 0.6, 60, False, 1, None, None, "{}")
    other = row._replace(**values, evidence='{"facts": []}', version=2)
    stamps = []
    for each_row in (row, other, row if is_new else other):
        with transaction.atomic():
            storage.write(own, kind, TODAY, [each_row])
        stamps.append(changes.latest_stamp(world.product.pk))
        stored = storage.running(own, kind).get()
        expected = each_row if is_new else row
        assert [getattr(stored, name) for name in ("is_share", "chance", "low", "high")] == [
            getattr(expected, name) for name in ("is_share", "chance", "low", "high")
        ]
        assert stored.version == each_row.version, "the facts are always those of the last look"
    assert (stamps[0] < stamps[1] < stamps[2]) if is_new else len(set(stamps)) == 1


def test_accounts_without_data_and_workspaces_without_scores_have_none(
    world: World, globex: Product
) -> None:
    store(world.product, an_open("of a silent one", 10, 20, cloud_id="silent"))
    work(NOON)
    assert set(chances(world)) == {"of eager", "of idle"}
    world.product.workspaces.update(scores=None)
    storage.request(workspace_of(world).pk, NOON + DAY)
    assert work(NOON + DAY)
    Product.objects.filter(pk=world.product.pk).update(deletion_requested_at=NOON)
    storage.request(workspace_of(world).pk, NOON + DAY)
    assert work(NOON + DAY)


def test_a_forgotten_account_leaves_nothing(world: World) -> None:
    work(NOON)
    account_id = world.accounts["eager"]
    named = {case.account for case in storage.evidence_of(chances(world)["of eager"]).similar}
    past_name = next(name for name, pk in world.accounts.items() if pk in named)
    for name in ("eager", past_name):
        subject = SubjectRef(world.product.pk, SubjectScope.ACCOUNT, name)
        assert forgetting.forget(subject, NOON)
    assert not AccountChance.objects.filter(account_id=account_id).exists()
    LicenseOutcome.objects.filter(cloud_id__in=["eager", past_name]).delete()
    assert Job.objects.filter(kind=storage.JOB).exists(), "evidence is looked at again"
    work(NOON)
    assert set(chances(world)) == {"of idle"}
    ids = {world.accounts["eager"], world.accounts[past_name]}
    for row in chances(world).values():
        assert not ids & {case.account for case in storage.evidence_of(row).similar}


def test_a_deleted_product_leaves_nothing(world: World) -> None:
    work(NOON)
    deletion.request_deletion(world.product.pk, NOON)
    run_job(DELETE_PRODUCT, NOON)
    for model in (AccountChance, ChanceModel, ChanceLook):
        assert not model._default_manager.exists()


def test_a_deleted_workspace_leaves_nothing(world: World) -> None:
    work(NOON)
    workspace_of(world).delete()
    for model in (AccountChance, ChanceModel, ChanceLook):
        assert not model._default_manager.exists()


def test_progress_is_said(world: World) -> None:
    workspace = workspace_of(world)
    assert storage.progress(workspace) == ""
    storage.request(workspace.pk, NOON)
    assert storage.progress(workspace) == "Computing soon."
    run.run_due(QUEUE, lambda: NOON, lambda: True)
    assert storage.progress(workspace) == "Computing: 1 of 14 models."
    Job.objects.filter(kind=storage.JOB).update(is_paused=True)
    assert storage.progress(workspace) == "Computing is interrupted: somebody has paused it."


def test_statements_without_time_are_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outcomes.chances.features.STATEMENT_TIMEOUT_SECONDS", 0.001)
    jobs.request_due(NOON)
    run.run_due(QUEUE, lambda: NOON)
    assert storage.progress(workspace_of(world)).startswith("Computing is interrupted: A statement")
    monkeypatch.undo()
    assert work(NOON + DAY) and chances(world)


def test_a_clock_that_was_ahead_delays_nothing(world: World) -> None:
    work(NOON + 40 * DAY)
    clocks.reset_future_times(NOON)
    assert storage.looked_at(workspace_of(world)) == NOON
    assert work(NOON + DAY)


def test_the_task_finds_what_is_due(world: World) -> None:
    tasks.run()
    assert ChanceModel.objects.exists()


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(world: World) -> None:
    def state() -> dict[str, tuple[float, object]]:
        return {license: (row.chance, row.evidence) for license, row in chances(world).items()}

    clock = Clock()
    work(clock.now)
    expected = state()
    for model in (AccountChance, ChanceModel, ChanceLook):
        model._default_manager.all().delete()
    jobs.request_due(clock.now)
    kills = kill_at_each(
        storage.JOB, range(4, 500, 9), lambda: clock.now, lambda time: clock.step(time)
    )
    assert kills > 3
    assert state() == expected
    latest = storage.models(workspace_of(world), Kind.EVALUATION)
    assert {row.version for row in chances(world).values()} == {latest[7].pk}
