"""A client that follows what changed knows whom a segment gets and loses without a new score:
because somebody edits its rule, or because the scores of others move its thresholds."""

import random
import threading
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import QuerySet

from core.database import locks
from engagement import changes
from engagement.models import (
    Account,
    AccountEngagement,
    DailyBenchmark,
    EditedRule,
    EventName,
    MovedThreshold,
    Product,
    ScoreSet,
    Segment,
    TurnedDay,
    Workspace,
)
from engagement.removal.jobs import ERASE_FORGOTTEN
from engagement.rescoring import stamping
from engagement.rescoring.jobs import STAMP_CHANGES
from engagement.rescoring.rescore import rescore
from engagement.rules.rules import parse_rule
from engagement.scores import benchmarks
from tests.engagement.history import NOON, group, identify, tell
from tests.jobs import run_job
from tests.readapi.conftest import Reads
from tests.readapi.rows import SCORED_DAY, make_account, scores_of
from tests.readapi.scored import fill
from tests.readapi.test_changes import Mirror, happen, members_by_segment

PLAN = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}
ACCOUNT_PLAN = {**PLAN, "kind": "account_trait"}
ACTIVE = {"kind": "last_active", "operator": "within_days", "days": 3}
NEW = {"kind": "created", "operator": "within_days", "days": 9}
SCORED = {"kind": "metric", "metric": "engagement_score", "operator": "at_least", "value": 40}
TOP_HALF = {"kind": "metric", "metric": "percentile", "operator": "at_least", "value": 50}
BROAD = {"kind": "metric", "metric": "adoption", "operator": "between", "value": 0.3, "upper": 0.6}
EVER_BROAD = {**BROAD, "metric": "adoption_all_time"}
LOW_YESTERDAY = {
    "kind": "metric",
    "metric": "score_yesterday",
    "operator": "at_most",
    "value": 60,
}
# Conditions whose thresholds others' scores move.
RELATIVE = [TOP_HALF, BROAD, EVER_BROAD, LOW_YESTERDAY]


class SegmentMirror(Mirror):
    """Also stores the segments of each record that it reads, by the record's own address."""

    def __init__(self, reads: Reads, workspace: Workspace, resource: str) -> None:
        self.segments: dict[int, set[int]] = {}
        self.resource, self.workspace = resource, workspace
        super().__init__(reads, workspace, resource, limit=500)

    def read(self) -> None:
        super().read()
        self.segments = {id: self.segments.get(id, set()) for id in self.records}

    def read_page(self) -> bool:
        follows = self.reads(self.address).json().get("data", [])
        for row in follows:
            single = f"/v2/{self.resource}/{row['id']}?workspace_id={self.workspace.pk}"
            record = self.reads(f"{single}&expand=segments").json()["data"]
            self.segments[row["id"]] = {segment["id"] for segment in record["segments"]}
        return super().read_page()

    def members(self) -> dict[int, set[str]]:
        """The tracking ids of the members of each segment, as far as the client knows."""
        members: dict[int, set[str]] = {}
        for id, segment_ids in self.segments.items():
            for segment_id in segment_ids:
                members.setdefault(segment_id, set()).add(self.records[id]["tracking_id"])
        return members


@pytest.fixture(autouse=True)
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamping, "STEP", 2)


def test_an_edit_reports_exactly_those_whom_it_moves(acme_reads: Reads, acme: Product) -> None:
    workspace = fill(acme)
    tell(acme, *(identify(f"u{n}", group="hooli", plan=["pro", "free"][n % 2]) for n in range(6)))
    tell(acme, group("hooli", 1, plan="pro"))
    rescore(NOON)
    mirrors = {name: Mirror(acme_reads, workspace, name, 500) for name in ("users", "accounts")}

    def changed() -> list[str]:
        rescore(NOON)
        assert not EditedRule.objects.exists()
        ids = []
        for mirror in mirrors.values():
            ids += [row["tracking_id"] for row in acme_reads(mirror.address).json()["data"]]
            mirror.read()
        return sorted(ids)

    def members(segment: Segment) -> set[str]:
        listed = members_by_segment(acme_reads, workspace)
        return listed[f"{segment.scope}s"].get(segment.pk, set())

    for mirror in mirrors.values():
        mirror.read()
    segment = Segment(workspace=workspace, scope="user", name="Paying", conditions=[PLAN])
    segment.save()
    paying = members(segment)
    assert changed() == sorted(paying) == ["cyd", "u0", "u2", "u4"]
    segment.name = "Customers"
    segment.save()
    assert changed() == []
    segment.conditions = [ACCOUNT_PLAN]
    segment.save()
    assert changed() == sorted(paying ^ members(segment)) == ["u1", "u3", "u5"]
    segment.conditions, segment.match = [PLAN, ACCOUNT_PLAN], "any"
    segment.save()
    assert changed() == []
    segment.delete()
    assert changed() == ["cyd", *(f"u{n}" for n in range(6))]
    Segment.objects.create(workspace=workspace, scope="account", name="A", conditions=[PLAN])
    assert changed() == ["hooli"]
    Segment.objects.filter(workspace=workspace, name="A").delete()
    assert changed() == ["hooli"]

    # The edit waits while the account changes what the segment asked for.
    segment = Segment(workspace=workspace, scope="user", name="B", conditions=[ACCOUNT_PLAN])
    segment.save()
    assert changed() == ["cyd", *(f"u{n}" for n in range(6))]
    segment.conditions = [PLAN]
    segment.save()
    tell(acme, group("hooli", 2, plan="free"))
    assert changed() == ["cyd", "hooli", *(f"u{n}" for n in range(6))]


def test_an_edit_waits_for_the_day_and_a_lost_workspace_for_nobody(acme: Product) -> None:
    workspace = fill(acme)
    segment = Segment.objects.create(
        workspace=workspace, scope="user", name="New ones", conditions=[NEW]
    )
    run_job(STAMP_CHANGES, NOON)
    assert not EditedRule.objects.exists()
    segment.conditions = [ACTIVE]
    segment.save()
    tomorrow = NOON + timedelta(days=1)
    rescore(tomorrow, out_of_time=lambda: True)
    assert TurnedDay.objects.exists() and EditedRule.objects.exists()
    turned_day = TurnedDay.objects.get(kind=EditedRule.objects.get().kind)
    # Readers may know who met the rule before.
    known_rules = stamping._known_rules(turned_day.score_set, turned_day.kind)
    rules = {rule.conditions for rule in known_rules}
    assert {parse_rule({"conditions": [c]}, "user").conditions for c in (NEW, ACTIVE)} < rules
    rescore(tomorrow)
    assert not TurnedDay.objects.exists() and not EditedRule.objects.exists()
    segment.delete()
    workspace.delete()
    assert not EditedRule.objects.exists()


def test_new_neighbors_report_exactly_those_whom_they_lift_into_a_segment(
    acme_reads: Reads, workspace: Workspace
) -> None:
    for raw in [*range(1, 11), *[100] * 10]:
        make_account(workspace, f"{raw} {Account.objects.count()}", raw)
    compute_benchmarks(workspace)
    top_half = Segment(workspace=workspace, scope="account", name="Top half")
    top_half.conditions = [TOP_HALF]
    top_half.save()
    run_job(STAMP_CHANGES, NOON)
    mirror = SegmentMirror(acme_reads, workspace, "accounts")
    mirror.read()
    before, members_before = dict(mirror.records), mirror.members()[top_half.pk]
    assert len(members_before) == 10

    newcomers = {make_account(workspace, f"1 new {n}", 1).pk for n in range(20)}
    assert compute_benchmarks(workspace).count() == 1
    run_job(STAMP_CHANGES, NOON)
    assert not MovedThreshold.objects.exists()
    changed = {row["tracking_id"] for row in acme_reads(mirror.address).json()["data"]}
    mirror.read()
    lifted = mirror.members()[top_half.pk] - members_before
    assert changed == lifted == {f"{raw} {raw - 1}" for raw in range(2, 11)}
    # Nothing that a list shows of them is another, their score included.
    listed = mirror.listed()
    assert before == {pk: row for pk, row in listed.items() if pk not in newcomers}


def test_only_a_segment_that_compares_with_others_has_thresholds_that_move(
    workspace: Workspace,
) -> None:
    def moved(*conditions: dict[str, Any]) -> list[tuple[str, int, int]]:
        """The values over which new rows move the thresholds of a segment of these conditions."""
        segment = Segment.objects.create(
            workspace=workspace, scope="account", name="A", conditions=list(conditions)
        )
        EditedRule.objects.all().delete()
        make_account(workspace, f"{Account.objects.count()}", 5 * Account.objects.count())
        thresholds = compute_benchmarks(workspace)
        values = list(thresholds.values_list("metric", "low", "high"))
        thresholds.delete()
        segment.delete()
        EditedRule.objects.all().delete()
        return values

    for raw in (10, 20, 30):
        make_account(workspace, f"{Account.objects.count()}", raw)
    compute_benchmarks(workspace)
    assert moved(SCORED, PLAN) == []
    ((metric, low, high),) = moved(TOP_HALF)
    assert metric == "percentile" and low < high
    assert len(moved({**TOP_HALF, "operator": "between", "value": 20, "upper": 70})) == 2
    # No event name is scored, now and before.
    assert moved(BROAD) == []
    # The rule that readers know, although the segment is gone.
    rule = {"match": "all", "conditions": [TOP_HALF]}
    EditedRule.objects.create(score_set=scores_of(workspace), kind=0, before=rule, after=None)
    for number in range(9):
        make_account(workspace, f"low {number}", 1)
    assert compute_benchmarks(workspace).count() == 1
    run_job(STAMP_CHANGES, NOON)
    assert not MovedThreshold.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_edit_waits_for_benchmarks_that_are_being_saved(workspace: Workspace) -> None:
    """Otherwise the thresholds of the new rule would move unnoticed."""

    def edit() -> None:
        Segment.objects.create(
            workspace=workspace, scope="account", name="Top half", conditions=[TOP_HALF]
        )
        connection.close()

    editing = threading.Thread(target=edit)
    make_account(workspace, "a", 10)

    def on_change(before: ScoreSet, after: ScoreSet) -> None:
        editing.start()
        editing.join(timeout=0.2)
        assert editing.is_alive()

    benchmarks.compute_benchmarks(scores_of(workspace), NOON, on_change)
    editing.join()
    assert EditedRule.objects.count() == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_mirror_knows_whom_only_others_move(
    seed: int, acme_reads: Reads, workspace: Workspace
) -> None:
    """The most active accounts hold the displayed scores, while others pass each other below."""
    chance = random.Random(seed)
    for number in range(30):
        make_account(workspace, f"{number}", 1000 if number < 10 else chance.randint(0, 30))
    for value in (20, 35, 50):
        edit(chance, workspace, [{**TOP_HALF, "value": value}])
    mirror = SegmentMirror(acme_reads, workspace, "accounts")
    for _ in range(30):
        move_others(chance, workspace)
        if chance.random() < 0.2:
            edit(chance, workspace, chance.sample(RELATIVE, 2))
        if chance.random() < 0.6:
            compute_benchmarks(workspace)
        if chance.random() < 0.6:
            run_job(STAMP_CHANGES, NOON, partial(next, interruptions(chance)))
        if chance.random() < 0.4:
            mirror.read()
    compute_benchmarks(workspace)
    run_job(STAMP_CHANGES, NOON)
    mirror.read()
    listed = members_by_segment(acme_reads, workspace)["accounts"]
    assert {pk: ids for pk, ids in listed.items() if ids} == mirror.members()


def move_others(chance: random.Random, workspace: Workspace) -> None:
    """Score an account anew, begin to score another event name, or learn of late events."""
    scores = scores_of(workspace)
    if chance.random() < 0.3:
        EventName.objects.create(product=workspace.product, name=f"{chance.random()}", done_by=1)
    if chance.random() < 0.3:
        DailyBenchmark.objects.update_or_create(
            score_set=scores,
            day=SCORED_DAY - timedelta(days=1),
            defaults={"accounts": chance.randint(5, 20)},
        )
    rows = AccountEngagement.objects.filter(score_set=scores, raw__lt=1000).order_by("account")
    row = chance.choice(rows)
    row.raw, row.raw_yesterday = chance.randint(0, 30), chance.randint(0, 30)
    row.name_count = chance.randint(0, 20)
    with transaction.atomic():
        locks.lock_scoring(workspace.product_id)
        row.save()
        changes.stamp(workspace.product_id, {"account": [row.account_id]})


def compute_benchmarks(workspace: Workspace) -> QuerySet[MovedThreshold]:
    """Compute the set's benchmarks; return the thresholds that moved with them."""
    benchmarks.compute_benchmarks(scores_of(workspace), NOON, stamping.note_moved_thresholds)
    return MovedThreshold.objects.all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_mirror_knows_the_members_of_each_segment(
    seed: int, acme_reads: Reads, acme: Product
) -> None:
    chance = random.Random(seed)
    workspace = fill(acme)
    mirrors = [SegmentMirror(acme_reads, workspace, name) for name in ("users", "accounts")]
    now = NOON
    for _ in range(25):
        happen(chance, acme, (now - NOON).total_seconds() / 3600)
        edit(chance, workspace)
        # Benchmarks pause for some time.
        now += timedelta(minutes=1)
        if chance.random() < 0.2:
            now += timedelta(days=chance.randint(1, 5))
        if chance.random() < 0.6:
            rescore(now, out_of_time=partial(next, interruptions(chance)))
        for mirror in mirrors:
            if chance.random() < 0.5:
                mirror.read()
    run_job(ERASE_FORGOTTEN, NOON)
    for _ in range(2):
        now += timedelta(minutes=1)
        rescore(now)
    for model in (EditedRule, TurnedDay, MovedThreshold):
        assert not model.objects.exists()
    listed = members_by_segment(acme_reads, workspace)
    for mirror in mirrors:
        mirror.read()
        assert mirror.records == mirror.listed()
        members = mirror.members()
        assert {pk: ids for pk, ids in listed[mirror.resource].items() if ids} == members


def edit(
    chance: random.Random, workspace: Workspace, conditions: list[dict[str, Any]] | None = None
) -> None:
    """Add, change, or delete a segment. Those with *conditions* are of accounts."""
    segments = list(Segment.objects.filter(workspace=workspace, is_default=False))
    scope = "account" if conditions else chance.choice(["user", "account"])
    if len(segments) < 3 or chance.random() < 0.3:
        segment = Segment(workspace=workspace, scope=scope, name=f"{chance.random()}")
    else:
        segment = chance.choice(segments)
        if chance.random() < 0.25:
            segment.delete()
            return
    if conditions is None:
        conditions = [PLAN, ACTIVE, NEW, SCORED, *RELATIVE]
        if segment.scope == "user":
            conditions.append(ACCOUNT_PLAN)
        conditions = chance.sample(conditions, chance.randint(1, 2))
    segment.conditions = conditions
    segment.match = chance.choice(["all", "any"])
    segment.save()


def interruptions(chance: random.Random) -> Iterator[bool]:
    """Whether the time is over, each time that somebody asks: now and then, and then for good."""
    while chance.random() < 0.9:
        yield False
    while True:
        yield True
