"""A client that follows what changed knows whom an edited segment gets and loses."""

import random
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from engagement.models import EditedRule, Product, Segment, TurnedDay, Workspace
from engagement.rescoring import stamping
from engagement.rescoring.rescore import rescore
from engagement.rules.rules import parse_rule
from tests.engagement.history import NOON, group, identify, tell
from tests.readapi.conftest import Reads
from tests.readapi.scored import fill
from tests.readapi.test_changes import Mirror, happen, members_by_segment

PLAN = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}
ACCOUNT_PLAN = {**PLAN, "kind": "account_trait"}
ACTIVE = {"kind": "last_active", "operator": "within_days", "days": 3}
NEW = {"kind": "created", "operator": "within_days", "days": 9}
SCORED = {"kind": "metric", "metric": "engagement_score", "operator": "at_least", "value": 40}


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
    stamping.stamp_pending(lambda: False)
    assert not EditedRule.objects.exists()
    segment.conditions = [ACTIVE]
    segment.save()
    tomorrow = NOON + timedelta(days=1)
    rescore(tomorrow, out_of_time=lambda: True)
    assert TurnedDay.objects.exists() and EditedRule.objects.exists()
    turned_day = TurnedDay.objects.get(kind=EditedRule.objects.get().kind)
    # Readers may know who met the rule before.
    rules = {rule.conditions for rule in stamping._rules_on_time(turned_day)}
    assert {parse_rule({"conditions": [c]}, "user").conditions for c in (NEW, ACTIVE)} < rules
    rescore(tomorrow)
    assert not TurnedDay.objects.exists() and not EditedRule.objects.exists()
    segment.delete()
    workspace.delete()
    assert not EditedRule.objects.exists()


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
        if chance.random() < 0.2:
            now += timedelta(days=chance.randint(1, 5))
        if chance.random() < 0.6:
            rescore(now, out_of_time=partial(next, interruptions(chance)))
        for mirror in mirrors:
            if chance.random() < 0.5:
                mirror.read()
    rescore(now)
    assert not EditedRule.objects.exists() and not TurnedDay.objects.exists()
    listed = members_by_segment(acme_reads, workspace)
    for mirror in mirrors:
        mirror.read()
        assert mirror.records == mirror.listed()
        members = mirror.members()
        assert {pk: ids for pk, ids in listed[mirror.resource].items() if ids} == members


def edit(chance: random.Random, workspace: Workspace) -> None:
    """Add, change, or delete a segment."""
    segments = list(Segment.objects.filter(workspace=workspace, is_default=False))
    scope = chance.choice(["user", "account"])
    if not segments or chance.random() < 0.3:
        segment = Segment(workspace=workspace, scope=scope, name=f"{chance.random()}")
    else:
        segment = chance.choice(segments)
        if chance.random() < 0.25:
            segment.delete()
            return
    conditions: list[dict[str, Any]] = [PLAN, ACTIVE, NEW, SCORED]
    if segment.scope == "user":
        conditions.append(ACCOUNT_PLAN)
    segment.conditions = chance.sample(conditions, chance.randint(1, 2))
    segment.match = chance.choice(["all", "any"])
    segment.save()


def interruptions(chance: random.Random) -> Iterator[bool]:
    """Whether the time is over, each time that somebody asks: now and then, and then for good."""
    while chance.random() < 0.9:
        yield False
    while True:
        yield True
