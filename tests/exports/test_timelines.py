"""Exports have the timelines and the cohorts that the read API has, with the same names."""

from collections import defaultdict
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from engagement.models import Account, AlarmWork, Product, TraitChange, User, Workspace
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from engagement.rescoring.rescore import rescore
from exports import tables
from exports.models import ExportRun, Extent, ScheduledExport, Table
from exports.stores import verify
from marketplace.models import LicenseEvent
from tests.engagement.history import NOON, group, identify, tell, track
from tests.exports.mirror import Mirror
from tests.exports.rows import MemoryStore, a_segment, an_export, read_csv, run_now
from tests.notifications.rows import Clock
from tests.readapi.conftest import Reads, acme_reads
from tests.readapi.scored import account_id, fill, user_id
from tests.trends.test_cohorts import compute
from tests.trends.test_cohorts import workspace as ten_accounts
from tests.trends.test_timeline import full_workspace, license_event
from trends.cohorts import storage
from trends.timeline import sources

__all__ = ["acme_reads", "full_workspace", "ten_accounts"]

TODAY, DAY = NOON.date(), 24
Rows = list[dict[str, str]]


@pytest.fixture
def workspace(acme: Product) -> Workspace:
    workspace = fill(acme)
    # Somebody who came to both accounts, and whose score fell.
    tell(acme, identify("ann", -60 * DAY, "hooli"), identify("ann", -50 * DAY, "initech"))
    tell(acme, *(track("ann", "shared", hours=-DAY * (20 + n)) for n in range(9)))
    tell(acme, group("empty", -50 * DAY, name="Empty"))
    rescore(NOON)
    workspace.refresh_from_db()
    return workspace


def rows_of(run: ExportRun, memory: MemoryStore, table: Table) -> Rows:
    assert (run.state, run.error) == (ExportRun.State.DONE, "")
    names = sorted(name for name in memory.files if name.startswith(f"{run.folder}/{table}-"))
    return [row for name in names for row in read_csv(memory.files[name])]


def by_subject(rows: Rows) -> dict[int, Rows]:
    subjects: dict[int, Rows] = defaultdict(list)
    for row in rows:
        own = {name: row[name] for name in ("day", "kind", "type", "text")}
        subjects[int(row["id"])].append(own)
    return subjects


@pytest.mark.parametrize("extent", Extent)
def test_each_timeline_is_that_of_the_read_api(
    extent: Extent,
    acme: Product,
    full_workspace: Workspace,
    acme_reads: Reads,
    memory: MemoryStore,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("readapi.views.timeline.timezone", SimpleNamespace(now=lambda: NOON))
    monkeypatch.setattr(tables, "TIMELINES_PER_FETCH", 2)
    names = [Table.ACCOUNT_TIMELINES, Table.USER_TIMELINES]
    export = an_export(acme, tables=names, extent=extent)
    run = run_now(export, clock)
    if extent == Extent.CHANGES:
        export.refresh_from_db()
        run = run_now(export, clock)
        assert run.since is not None
    for table, model in ((names[0], Account), (names[1], User)):
        rows = rows_of(run, memory, table)
        subjects, number = by_subject(rows), 0
        of_all = subjects.pop(0)
        assert [row["text"] for row in of_all] == ["Weights and window changed."]
        for subject in model.objects.filter(product=acme):
            address = f"/v2/{table.removesuffix('_timelines')}s/{subject.pk}/timeline"
            answer = acme_reads(address, workspace_id=full_workspace.pk, limit=100)
            entries = answer.json()["data"]
            assert entries == sorted(subjects[subject.pk] + of_all, key=entries.index), (
                subject.external_id
            )
            number += len(subjects[subject.pk])
        assert number == sum(map(len, subjects.values())) > 5
        keys = {(row["id"], row["day"], row["place"]) for row in rows}
        assert len(keys) == len(rows) and all(0 <= int(row["place"]) < 2**63 for row in rows)
        # None names a login, or somebody else.
        assert "maya" not in str(rows) and "Ann" not in str(rows)
    kinds = {row["kind"] for row in rows_of(run, memory, names[0])}
    assert kinds == {str(kind) for kind in sources.SOURCES["account"]}


def test_a_timeline_of_a_segment_has_its_members_and_no_other_product(
    acme: Product, globex: Product, workspace: Workspace, memory: MemoryStore, clock: Clock
) -> None:
    fill(globex)
    license_event(globex, "E-9", "churned", 9)
    license_event(acme, "E-1", "renewed", 9, cloud_id="hooli")
    own, other = account_id(acme, "initech"), account_id(acme, "hooli")
    both = an_export(acme, name="All", tables=[Table.ACCOUNT_TIMELINES])
    everybody = by_subject(rows_of(run_now(both, clock), memory, Table.ACCOUNT_TIMELINES))
    assert (
        {own, other}
        <= everybody.keys()
        <= set(Account.objects.filter(product=acme).values_list("pk", flat=True))
    )
    tell(acme, group("initech", seats=4))
    rescore(NOON)
    segment = a_segment(workspace, "account", "Seats", trait="seats", operator="is_set")
    export = an_export(acme, tables=[Table.ACCOUNT_TIMELINES], segment_id=segment.pk)
    members = by_subject(rows_of(run_now(export, clock), memory, Table.ACCOUNT_TIMELINES))
    assert members == {own: everybody[own]}


def test_each_source_has_a_bound_for_each_subject(
    acme: Product,
    workspace: Workspace,
    memory: MemoryStore,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "MAX_OF_SOURCE", 2)
    ids = [account_id(acme, name) for name in ("initech", "hooli")]
    for number, id in enumerate(ids * 5):
        values: dict[str, Any] = {"product": acme, "account_id": id}
        day = TODAY - timedelta(days=1 + number)
        TraitChange.objects.create(**values, name="plan", day=day, value=str(number), at=NOON)
        AlarmWork.objects.create(
            **values, workspace=workspace, signal="fall", since=day, seen_on=day,
            result="saved", closed_by="maya", closed_at=NOON - timedelta(days=number),
        )  # fmt: skip
    export = an_export(acme, tables=[Table.ACCOUNT_TIMELINES])
    subjects = by_subject(rows_of(run_now(export, clock), memory, Table.ACCOUNT_TIMELINES))
    for place, id in enumerate(ids):
        for kind, first in (("trait", 1), ("work", 0)):
            days = [row["day"] for row in subjects[id] if row["kind"] == kind]
            ago = (first + place, first + place + 2)
            assert days == [str(TODAY - timedelta(days=n)) for n in ago], (id, kind)


def test_cohorts_are_those_of_the_read_api(
    acme: Product,
    globex: Product,
    ten_accounts: Workspace,
    acme_reads: Reads,
    memory: MemoryStore,
    clock: Clock,
) -> None:
    export = an_export(acme, tables=[Table.COHORTS])
    rescore(NOON)
    assert rows_of(run_now(export, clock), memory, Table.COHORTS) == []
    storage.ask(ten_accounts, "account", None, "plan", NOON)
    compute(ten_accounts)
    rows = rows_of(run_now(export, clock), memory, Table.COHORTS)
    address = f"/v2/workspaces/{ten_accounts.pk}/cohorts"
    count = 0
    for subjects, by in (("account", ""), ("user", ""), ("account", "plan")):
        query = {"subjects": subjects, "limit": 100} | ({"by": by} if by else {})
        own = [
            row for row in rows if (row["subjects"], row["event"], row["by"]) == (subjects, "", by)
        ]
        expected = [
            {
                "subjects": subjects, "event": "", "by": by, "week": record["week"],
                "group": record["group"], "value": record["value"] or "",
                "first_seen": str(record["first_seen"]), "weeks_later": str(later),
                "active": str(week["active"]),
                **{
                    name: str(week["share"][key]) if week["share"] else ""
                    for name, key in (
                        ("share", "value"), ("share_low", "low"), ("share_high", "high")
                    )
                },
                "is_complete": str(week["is_complete"]).lower(), "through": record["through"],
            }
            for record in acme_reads(address, **query).json()["data"]
            for later, week in enumerate(record["weeks"])
        ]  # fmt: skip
        key = ("group", "value", "week")
        assert sorted(own, key=lambda row: [row[name] for name in key]) == sorted(
            expected, key=lambda row: [row[name] for name in key]
        )
        count += len(own)
    assert count == len(rows) > 900


@pytest.mark.slow
def test_a_mirror_has_what_is_told_now(
    acme: Product, workspace: Workspace, mirror: Mirror, clock: Clock
) -> None:
    """The oldest entry is withdrawn, one is corrected, a user is forgotten, and a year passes."""
    for days, type in ((360, "purchased"), (300, "renewed"), (200, "seats_up")):
        license_event(acme, f"E-{days}", type, days, {"from": 25, "to": 40})
    storage.ask(workspace, "account", None, "plan", NOON)
    compute(workspace)
    names = ["accounts", "users", "account_timelines", "user_timelines", "cohorts"]
    export = an_export(acme, tables=names, extent=Extent.CHANGES, **mirror.fields())
    verify(ScheduledExport.objects.defer(None).get(pk=export.pk))

    def run() -> ExportRun:
        export.refresh_from_db()
        latest = run_now(export, clock)
        assert (latest.state, latest.error) == (ExportRun.State.DONE, "")
        return latest

    def texts(kind: str) -> list[str]:
        query = "SELECT text FROM eds.account_timelines WHERE kind = %s ORDER BY day"
        return [text for (text,) in mirror.execute(query, kind)]

    run()
    assert len(texts("license")) == 3
    ann = user_id(acme, "ann")
    assert ann in mirror.column("user_timelines", "id")
    cohorts = "SELECT subjects, by, \"group\", value FROM eds.cohorts WHERE by = 'plan'"
    assert ("account", "plan", "All", "") in mirror.execute(cohorts)
    assert mirror.execute('SELECT "Share low" FROM eds."Cohorts" LIMIT 1')
    people = 'SELECT "Name" FROM eds."Account timelines" WHERE "Text" LIKE \'%came.\''
    assert ("Initech",) in mirror.execute(people)
    LicenseEvent.objects.filter(type="purchased").update(withdrawn_at=NOON, changed_at=NOON)
    LicenseEvent.objects.filter(type="seats_up").update(details={"from": 25, "to": 50})
    forget(SubjectRef(acme.pk, SubjectScope.USER, "ann"), NOON)
    rescore(NOON)
    assert run().since is not None
    assert texts("license") == ["Renewed: 25 → 40.", "Seats added: 25 → 50."]
    assert ann not in mirror.column("user_timelines", "id")
    for _ in range(3):
        rescore(NOON + timedelta(days=70))
    run()
    assert texts("license") == ["Seats added: 25 → 50."]
