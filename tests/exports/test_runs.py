"""A run writes what the list shows, exactly what changed since, and goes on after it was killed."""

import json
import random
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError
from django.db.models import Q

from core import retention
from core.database import nodes
from core.models import Job
from engagement.models import (
    Account,
    EventName,
    Feature,
    Product,
    SavedView,
    Segment,
    Workspace,
)
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from exports import cursors, files, manifest, runs, tables
from exports.models import ExportRun, Extent, ScheduledExport, Table
from exports.tables import format_value
from marketplace.models import LicenseEvent
from tests.cases import FACTOR
from tests.engagement.history import NOON, group, identify, tell, track
from tests.exports.rows import (
    MemoryStore,
    Reader,
    a_segment,
    an_export,
    read_csv,
    run_now,
    write_due,
)
from tests.license_events import add_event
from tests.notifications.rows import Clock
from tests.readapi.scored import fill
from tests.readapi.test_changes import happen
from trends.models import WHOLE, DayFigures, SegmentMove, UsageDay

State = ExportRun.State


def some_history(product: Product) -> Workspace:
    """Scored users and accounts with everything that a file must carry."""
    workspace = fill(product)
    tell(
        product,
        group("comma", name='A "quoted", name\nof two lines', domain="comma.example", seats=3),
        identify("zoë", group="comma", email="zoë@example.com", plan={"tier": "pro"}),
        *(track("zoë", hours=-number) for number in range(0, 100, 9)),
    )
    rescore(NOON)
    workspace.refresh_from_db()
    return workspace


def test_a_complete_run_has_every_row_and_a_manifest_that_is_written_last(
    acme: Product, globex: Product, memory: MemoryStore, clock: Clock
) -> None:
    workspace = some_history(acme)
    some_history(globex)
    run = run_now(an_export(acme), clock)
    assert (run.state, run.error) == (State.DONE, "")
    assert memory.put_names[-1] == f"{run.folder}/{manifest.NAME}"
    (content,) = memory.manifests()
    assert (content["extent"], content["since"], content["rows"]) == (
        Extent.COMPLETE,
        None,
        run.rows,
    )
    assert content["workspace"] == {"id": workspace.pk, "name": workspace.name}
    accounts = read_csv(memory.files[f"{run.folder}/accounts-00001.csv.gz"])
    assert [row["tracking_id"] for row in accounts] == list(
        workspace.scores.accountengagement_set.order_by("account_id").values_list(  # type: ignore[union-attr]
            "account__external_id", flat=True
        )
    )
    quoted = next(row for row in accounts if row["tracking_id"] == "comma")
    assert quoted["name"] == 'A "quoted", name\nof two lines'
    assert json.loads(quoted["traits"])["seats"] == 3 and quoted["deleted"] == "false"
    assert quoted["external_id"] == "comma"
    columns = [column["name"] for column in content["tables"]["accounts"]["columns"]]
    assert columns == list(quoted)
    users = read_csv(memory.files[f"{run.folder}/users-00001.csv.gz"])
    zoe = next(row for row in users if row["tracking_id"] == "zoë")
    assert (zoe["email"], zoe["account_id"]) == ("zoë@example.com", quoted["id"])
    assert float(zoe["score"]) > 0 and zoe["last_active_at"].endswith("Z")
    assert (run.rows, run.bytes) == (len(accounts) + len(users), content["bytes"])


def test_scores_per_day_are_those_of_the_page_and_each_day_comes_once(
    acme: Product, memory: MemoryStore, clock: Clock
) -> None:
    from engagement.models import UserEngagement
    from engagement.scores.history import score_history

    workspace = some_history(acme)
    export = an_export(acme, tables=[Table.USER_SCORES], extent=Extent.CHANGES)

    def scores(run: ExportRun) -> dict[tuple[str, str], float]:
        rows = read_csv(memory.files[f"{run.folder}/user_scores-00001.csv.gz"])
        return {(row["tracking_id"], row["day"]): float(row["score"]) for row in rows}

    first = scores(run_now(export, clock))
    expected = {}
    rows = UserEngagement.objects.filter(score_set=workspace.scores).select_related("user")
    for row in rows:
        assert workspace.scores is not None
        for day, score in score_history(workspace.scores, row)[:-1]:
            if score > 0:
                expected[row.user.external_id, day.isoformat()] = score
    assert first == expected and len(first) > 3
    assert max(day for _, day in first) == "2026-09-23"
    export.refresh_from_db()
    assert scores(run_now(export, clock)) == {}
    for _ in range(3):
        rescore(NOON + timedelta(days=2))
    export.refresh_from_db()
    second = scores(run_now(export, clock))
    assert {day for _, day in second} == {"2026-09-24", "2026-09-25"}


def test_license_events_are_a_table_whose_changes_lead_to_what_a_complete_run_has(
    acme: Product,
    globex: Product,
    memory: MemoryStore,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "ROWS_PER_FETCH", 2)
    monkeypatch.setattr(files, "MAX_ROWS", 3)
    some_history(acme)
    changed_at = clock.now - timedelta(days=1)

    def happen(type: str, day: str, **fields: Any) -> LicenseEvent:
        return add_event(acme, type, day, changed_at=changed_at, **fields)

    happen("purchased", "2026-03-01", details={"seats": 25})
    for number in range(5):
        happen("renewed", "2026-04-01", license=f"E-{number}", cloud_id="")
    lost = happen("churned", "2026-05-01", sources=["history", "sync"])
    happen("churned", "2026-06-01", withdrawn_at=changed_at)
    add_event(globex, "churned", "2026-05-01", license="E-9")
    export = an_export(acme, tables=[Table.LICENSE_EVENTS], extent=Extent.CHANGES)
    reader = Reader(memory)
    # A withdrawn event is not in a complete run.
    assert reader.load(run_now(export, clock)) == {"license_events": 7}
    rows = reader.tables["license_events"]
    assert rows["E-1/churned/2026-05-01"] == {
        "id": "E-1/churned/2026-05-01", "license": "E-1", "type": "churned",
        "date": "2026-05-01", "known_on": "2026-05-01", "text": "Churned.", "details": "{}",
        "sources": "history,sync", "tracking_id": "site-a",
        "recorded_at": "2026-03-01T00:00:00.000000Z", "changed_at": format_value(changed_at),
        "deleted": "false",
    }  # fmt: skip
    assert json.loads(rows["E-1/purchased/2026-03-01"]["details"]) == {"seats": 25}
    names = [file["name"] for file in memory.manifests()[-1]["tables"]["license_events"]["files"]]
    assert len(names) > 1 and names[0] == "license_events-00001.csv.gz"

    changed_at = clock.now
    happen("won_back", "2026-06-10")
    own = LicenseEvent.objects.filter(product=acme)
    own.filter(type="churned", date=lost.date).update(withdrawn_at=NOON, changed_at=changed_at)
    own.filter(license="E-3").update(date="2026-04-02", changed_at=changed_at)
    export.refresh_from_db()
    run = run_now(export, clock)
    assert run.since and reader.load(run) == {"license_events": 3}
    complete = Reader(memory)
    complete.load(run_now(an_export(acme, name="All", tables=[Table.LICENSE_EVENTS]), clock))
    assert complete.tables == reader.tables


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(max(1, round(FACTOR))))
def test_runs_of_changes_lead_to_what_a_complete_run_has_whatever_happens(
    seed: int,
    acme: Product,
    memory: MemoryStore,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "ROWS_PER_FETCH", 3)
    monkeypatch.setattr(files, "MAX_ROWS", 5)
    chance = random.Random(seed)
    some_history(acme)
    export, reader = an_export(acme, extent=Extent.CHANGES), Reader(memory)
    sizes = []
    now = NOON
    for number in range(10):
        for _ in range(chance.randint(0, 3)):
            happen(chance, acme, (now - NOON).total_seconds() / 3600)
        if chance.random() < 0.2:
            now += timedelta(days=chance.randint(1, 9))
        rescore(now)
        if number == 7:
            sets.request_score_set(export.workspace_id)
            rescore(now)
        export.refresh_from_db()
        sizes.append(sum(reader.load(run_now(export, clock)).values()))
    run = ExportRun.objects.filter(export=export).exclude(complete_because="").first()
    assert run is not None and "edited and rescored" in run.complete_because
    complete_export, loaded = an_export(acme, name="Whole"), Reader(memory)
    loaded.load(run_now(complete_export, clock))
    assert reader.tables == loaded.tables
    # Without a change there is nothing to write.
    rescore(now)
    export.refresh_from_db()
    assert sum(reader.load(run_now(export, clock)).values()) == 0
    assert sizes[1] < sizes[0]


class Killed(BaseException):
    """The worker ends in the middle."""


def wait_for_another_worker(clock: Clock) -> None:
    """Until one that comes after a dead worker may go on."""
    clock.step(runs.PUT_LEASE.total_seconds() + 1)
    assert write_due(clock) == 0, "It waits as after other failures."
    clock.now = Job.objects.get(kind=runs.KIND).due_at or clock.now


def test_a_killed_run_goes_on_after_its_last_part_and_ends_with_the_same_files(
    acme: Product, memory: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROWS_PER_FETCH", 1)
    monkeypatch.setattr(files, "MAX_ROWS", 1)
    some_history(acme)
    complete_export = run_now(an_export(acme, name="Whole"), clock)
    expected = dict(memory.files)
    memory.files.clear()
    memory.put_names.clear()
    export = an_export(acme)
    runs.request_run(export, clock.step())

    def die(*arguments: Any) -> None:
        raise Killed

    for _ in range(complete_export.files.count()):
        # Killed before a part is written, and after it but before that is stored.
        for place, name in ((memory, "put"), (runs, "store_part")):
            with monkeypatch.context() as patch, pytest.raises(Killed):
                patch.setattr(place, name, die)
                write_due(clock)
            assert write_due(clock) == 0, "Its lease has not ended."
            wait_for_another_worker(clock)
        assert write_due(clock, lambda: True) == 1
    write_due(clock)
    run = ExportRun.objects.get(export=export)
    assert (run.state, run.rows, run.bytes) == (
        State.DONE,
        complete_export.rows,
        complete_export.bytes,
    )

    def parts(run: ExportRun, files: dict[str, bytes]) -> dict[str, bytes]:
        content_by_name = {
            name.removeprefix(run.folder): content for name, content in files.items()
        }
        assert content_by_name.pop(f"/{manifest.NAME}")
        return content_by_name

    assert parts(run, memory.files) == parts(complete_export, expected)
    assert memory.put_names[-1].endswith(manifest.NAME)


def test_a_run_whose_worker_was_killed_while_it_read_goes_on_after_two_minutes(
    acme: Product, memory: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_history(acme)
    export = an_export(acme)
    runs.request_run(export, clock.now)

    def die(*arguments: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(tables, "read_chunk", die)
        write_due(clock)
    clock.step(runs.LEASE.total_seconds() + 1)
    assert write_due(clock) == 0
    clock.step(runs.BACKOFF.first.total_seconds() + 1)
    assert write_due(clock) > 0
    assert ExportRun.objects.get().state == State.DONE


def test_the_manifest_says_when_each_table_was_read(
    acme: Product, memory: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROWS_PER_FETCH", 1)
    monkeypatch.setattr(files, "MAX_ROWS", 1)
    some_history(acme)
    runs.request_run(an_export(acme, tables=["accounts", "users"]), clock.now)
    moments = []
    while not memory.files or not memory.put_names[-1].endswith(manifest.NAME):
        moments.append(format_value(clock.step(600)))
        write_due(clock, lambda: True)
    content = json.loads(memory.files[memory.put_names[-1]])
    accounts, users = content["tables"]["accounts"], content["tables"]["users"]
    # Parts of accounts, parts of users, and the manifest.
    last_account = len(accounts["files"]) - 1
    assert last_account > 0
    assert accounts["first_read_at"] == moments[0]
    assert accounts["last_read_at"] == moments[last_account]
    assert users["first_read_at"] == moments[last_account + 1]
    assert users["last_read_at"] == moments[-2] < content["written_at"]


def test_times_have_microseconds_also_where_they_are_zero() -> None:
    at = datetime(2026, 9, 24, 3, tzinfo=timezone(timedelta(hours=2)))
    assert format_value(at) == "2026-09-24T01:00:00.000000Z"


@pytest.mark.parametrize(("place", "name"), [(cursors, "current_cursor"), (tables, "read_chunk")])
def test_no_two_workers_write_one_run(
    place: Any,
    name: str,
    acme: Product,
    memory: MemoryStore,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker that was away for longer than its lease writes nothing more."""
    some_history(acme)
    export = an_export(acme)
    runs.request_run(export, clock.now)
    read, takeovers = getattr(place, name), list[int]()

    def read_for_too_long(*arguments: Any) -> Any:
        if not takeovers:
            assert write_due(clock) == 0, "Another worker has it."
            takeovers.append(0)
            wait_for_another_worker(clock)
            takeovers[0] = write_due(clock)
        return read(*arguments)

    monkeypatch.setattr(place, name, read_for_too_long)
    assert write_due(clock) == 0 and takeovers[0] > 0
    run = ExportRun.objects.get()
    assert (run.state, run.error) == (State.DONE, "")
    assert len(memory.put_names) == len(set(memory.put_names)) == run.files.count() + 1
    assert not Job.objects.filter(kind=runs.KIND).exists()


def test_a_worker_and_one_of_the_release_before_leave_each_others_runs_alone(
    acme: Product, memory: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_history(acme)
    runs.request_run(an_export(acme), clock.now)
    # How that release claims a run.
    lease = {"lease": uuid4(), "leased_until": clock.now + runs.LEASE}

    def claim() -> bool:
        due = ExportRun.objects.filter(Q(leased_until=None) | Q(leased_until__lte=clock.now))
        return bool(due.filter(due_at__lte=clock.now).update(state=State.RUNNING, **lease))

    assert claim()
    write_due(clock)
    assert memory.put_names == [] and Job.objects.get(kind=runs.KIND).failures == 0
    clock.step(runs.LEASE.total_seconds() + 1)
    read_chunk, claims = tables.read_chunk, list[bool]()

    def claim_meanwhile(*arguments: Any) -> Any:
        claims.append(claim())
        return read_chunk(*arguments)

    monkeypatch.setattr(tables, "read_chunk", claim_meanwhile)
    write_due(clock)
    assert ExportRun.objects.get().state == State.DONE and claims and not any(claims)


def test_a_run_waits_for_a_missing_node_without_a_failure(
    acme: Product, memory: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_history(acme)
    runs.request_run(an_export(acme), clock.now)

    def lose_the_node(*arguments: Any) -> None:
        raise OperationalError("connection to the node was lost")

    with monkeypatch.context() as patch:
        patch.setattr(tables, "read_chunk", lose_the_node)
        patch.setattr(nodes, "look", lambda: True)
        assert write_due(clock) == 0
        job = Job.objects.get(kind=runs.KIND)
        assert (job.failures, job.lease) == (0, None)
        # Once it is known to be missing, nothing is asked of it.
        patch.setattr(nodes, "missing_products", lambda: {acme.pk: "a node"})
        patch.setattr(nodes, "_missing", {"a node": [acme.pk]})
        patch.setattr(tables, "read_chunk", pytest.fail)
        assert write_due(clock) == 0 and runs.unfinished_ids() == []
    assert write_due(clock) > 0
    assert ExportRun.objects.get().state == State.DONE


def test_a_stopped_run_writes_nothing_more(
    acme: Product, memory: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_history(acme)
    export = an_export(acme)
    runs.request_run(export, clock.now)
    read_chunk = tables.read_chunk

    def stop_meanwhile(*arguments: Any) -> Any:
        runs.stop_unfinished(export, "Stopped by ann.", clock.now)
        return read_chunk(*arguments)

    monkeypatch.setattr(tables, "read_chunk", stop_meanwhile)
    write_due(clock)
    run = ExportRun.objects.get()
    assert (run.state, run.error) == (State.STOPPED, "Stopped by ann.")
    assert memory.put_names == [] and not Job.objects.filter(kind=runs.KIND).exists()


def test_a_run_that_no_worker_survives_fails(
    acme: Product, memory: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_history(acme)
    runs.request_run(an_export(acme), clock.now)

    def die(*arguments: Any) -> None:
        raise Killed

    monkeypatch.setattr(tables, "read_chunk", die)
    for failures in range(1, 6):
        with pytest.raises(Killed):
            write_due(clock)
        clock.step(runs.LEASE.total_seconds() + 1)
        write_due(clock)
        clock.step(runs.BACKOFF.delay(failures).total_seconds())
    run = ExportRun.objects.get()
    assert (run.state, run.error) == (State.FAILED, runs.CRASHED)
    assert run.finished_at is not None and not Job.objects.filter(kind=runs.KIND).exists()


def test_a_workspace_that_is_rescored_meanwhile_is_exported_from_the_beginning(
    acme: Product, memory: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = some_history(acme)
    export = an_export(acme)
    read_chunk = tables.read_chunk
    edited: list[str] = []

    def edit_while_reading(table: str, span: Any, after: int) -> Any:
        chunk = read_chunk(table, span, after)
        if table == Table.USERS and not edited:
            edited.append(table)
            sets.request_score_set(workspace.pk)
            clock.step()
            rescore(NOON)
        return chunk

    monkeypatch.setattr(tables, "read_chunk", edit_while_reading)
    run = run_now(export, clock)
    assert run.state == State.DONE and edited
    (content,) = memory.manifests()
    names = {name for name in memory.files if name.startswith(run.folder)}
    named = {
        f"{run.folder}/{file['name']}"
        for info in content["tables"].values()
        for file in info["files"]
    }
    assert names == named | {f"{run.folder}/manifest.json"}
    # What the abandoned folder has is in no manifest.
    assert set(memory.files) - names and content["until"]["run"] == run.pk


def test_a_store_that_fails_is_tried_again_and_then_the_run_fails_with_a_sentence(
    acme: Product, memory: MemoryStore, clock: Clock
) -> None:
    some_history(acme)
    export = an_export(acme, extent=Extent.CHANGES)
    memory.refuse("The store answered 503 SlowDown.")
    run = run_now(export, clock)
    assert (run.state, run.error) == (State.RUNNING, "The store answered 503 SlowDown.")
    write_due(clock)
    assert Job.objects.get(kind=runs.KIND).failures == 1
    memory.error = None
    clock.step(61)
    write_due(clock)
    run.refresh_from_db()
    assert (run.state, run.error) == (State.DONE, "")
    export.refresh_from_db()
    cursor = export.cursor
    memory.refuse("The store answered 403 AccessDenied.")
    last = run_now(export, clock)
    attempts = []
    while last.state == State.RUNNING:
        due_at = Job.objects.get(kind=runs.KIND).due_at
        assert due_at is not None
        attempts.append((due_at - clock.now) / timedelta(minutes=1))
        clock.now = due_at
        write_due(clock)
        last.refresh_from_db()
    assert attempts == [1, 4, 16, 60]
    assert (last.state, last.error) == (State.FAILED, "The store answered 403 AccessDenied.")
    # The next run of changes has what this one should have had.
    export.refresh_from_db()
    assert export.cursor == cursor


def test_an_export_runs_at_its_hour_and_not_while_it_runs(
    acme: Product, memory: MemoryStore
) -> None:
    from exports import schedule

    some_history(acme)
    export = an_export(acme, hour=3)

    def next_after(hour: float, **fields: Any) -> str:
        for name, value in fields.items():
            setattr(export, name, value)
        at = schedule.next_run_at(export, NOON + timedelta(hours=hour))
        return at.strftime("%a %H") if at else ""

    # NOON is a Thursday.
    assert next_after(0) == "Fri 03" and next_after(-9.5) == "Thu 03" and next_after(-9) == "Fri 03"
    assert next_after(0, schedule="weekly", weekday=0) == "Mon 03"
    assert next_after(0, weekday=3) == "Thu 03" and next_after(-10) == "Thu 03"
    assert next_after(0, weekday=4) == "Fri 03"
    assert next_after(0, schedule="manual") == ""
    assert next_after(0, schedule="daily", is_enabled=False) == ""
    assert next_after(0, is_enabled=True, verified_at=None) == ""

    ScheduledExport.objects.update(next_run_at=NOON)
    assert runs.request_due(NOON - timedelta(seconds=1)) == 0
    assert runs.request_due(NOON) == 1 and runs.request_due(NOON) == 0
    export = ScheduledExport.objects.get()
    assert export.next_run_at == NOON + timedelta(hours=15)
    # Still unfinished a day later: it is not requested twice.
    assert runs.request_due(NOON + timedelta(days=1)) == 0
    assert ExportRun.objects.count() == 1


def test_runs_are_kept_for_a_bounded_time(acme: Product, memory: MemoryStore, clock: Clock) -> None:
    some_history(acme)
    old = run_now(an_export(acme), clock)
    files_before = dict(memory.files)
    clock.step(90 * 86_400)
    new = run_now(ScheduledExport.objects.get(), clock)
    retention.delete_expired("exports", clock.now)
    assert list(ExportRun.objects.all()) == [new] and old.files.count() == 0
    assert files_before.items() <= memory.files.items()


def test_trends_are_a_table_with_all_days_in_each_run(
    acme: Product, memory: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_DAYS_PER_FETCH", 2)
    workspace = some_history(acme)
    for segment_id in (WHOLE, 7):
        DayFigures.objects.bulk_create(
            DayFigures(
                workspace=workspace,
                segment_id=segment_id,
                day=NOON.date() - timedelta(days=ago),
                score_set_id=1,
                weekly_accounts=100 - ago,
                account_mean=40.5,
                account_bands=[ago] * 10,
            )
            for ago in range(1, 6)
        )
    export = an_export(acme, tables=[Table.TRENDS], extent=Extent.CHANGES)
    for _ in range(2):
        run = run_now(export, clock)
        rows = read_csv(memory.files[f"{run.folder}/trends-00001.csv.gz"])
        assert [(row["day"], row["segment_id"]) for row in rows[:3]] == [
            ("2026-09-19", "0"),
            ("2026-09-19", "7"),
            ("2026-09-20", "0"),
        ]
        assert len(rows) == 10
        assert (rows[-1]["weekly_accounts"], rows[-1]["account_mean"]) == ("99", "40.5")
        assert json.loads(rows[-1]["account_bands"]) == [1] * 10 and rows[-1]["seats"] == ""
        export.refresh_from_db()


def test_moves_come_once_and_the_use_of_events_in_each_run(
    acme: Product,
    globex: Product,
    memory: MemoryStore,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "_DAYS_PER_FETCH", 1)
    workspace, theirs = some_history(acme), some_history(globex)
    segments = [
        a_segment(each, "account", "Mine", trait="x", operator="is_set")
        for each in (workspace, theirs)
    ]
    feature = Feature.objects.create(product=acme, name="Reports")
    (event, *_) = EventName.objects.filter(product=acme).order_by("pk")

    def happen(ago: int, product: Product, segment: Segment) -> None:
        day = NOON.date() - timedelta(days=ago)
        move = {"product": product, "segment_id": segment.pk, "scope": "account", "day": day}
        SegmentMove.objects.create(**move, subject_id=ago, is_entry=ago % 2 == 0)
        for number, ids in enumerate(({}, {"feature_id": feature.pk}, {"event_name_id": event.pk})):
            UsageDay.objects.create(product=product, day=day, users=number, accounts=ago, **ids)

    for product, segment in zip((acme, globex), segments, strict=True):
        for ago in (3, 2):
            happen(ago, product, segment)
    both = [Table.SEGMENT_MOVES, Table.USAGE]
    export = an_export(acme, tables=both, extent=Extent.CHANGES)

    def load() -> list[list[list[str]]]:
        export.refresh_from_db()
        folder = run_now(export, clock).folder
        names = [f"{folder}/{table}-00001.csv.gz" for table in both]
        return [[list(row.values()) for row in read_csv(memory.files[name])] for name in names]

    mine = str(segments[0].pk)
    moves, usage = load()
    assert moves == [
        ["2026-09-21", mine, "account", "3", "left"],
        ["2026-09-22", mine, "account", "2", "entered"],
    ]
    day = [
        ["all", "", "0", "2", "", "", ""],
        ["event", event.name, "2", "2", "", "", ""],
        ["feature", "Reports", "1", "2", "", "", ""],
    ]
    assert usage[3:] == [["2026-09-22", *row] for row in day] and len(usage) == 6
    # A run of changes has the moves since, and all days of use.
    rescore(NOON + timedelta(days=1))
    happen(0, acme, segments[0])
    moves, usage = load()
    assert moves == [["2026-09-24", mine, "account", "0", "entered"]] and len(usage) == 9


def test_an_export_of_a_segment_or_a_view_has_its_rows_and_no_others(
    acme: Product, memory: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROWS_PER_FETCH", 2)
    workspace = some_history(acme)
    tell(acme, *(group(f"seat-{n}", seats=n) for n in range(1, 8)), identify("dee", plan="free"))
    rescore(NOON)

    def rows_of(table: Table, **source: Any) -> set[str]:
        name = str(ScheduledExport.objects.count())
        run = run_now(an_export(acme, name=name, tables=[table], **source), clock)
        assert (run.state, run.error, run.expected_rows) == (State.DONE, "", None)
        content = memory.manifests()[-1]
        (named,) = source.values()
        kind = "segment" if isinstance(named, Segment) else "view"
        assert content["source"] == {"kind": kind, "id": named.pk, "name": named.name}
        files = content["tables"][table]["files"]
        return {
            row["tracking_id"]
            for file in files
            for row in read_csv(memory.files[f"{run.folder}/{file['name']}"])
        }

    seats = {row.external_id: row.traits.get("seats") for row in Account.objects.all()}
    many = a_segment(workspace, "account", "Many", trait="seats", operator="at_least", value=3)
    expected = {name for name, number in seats.items() if number and number >= 3}
    assert len(expected) == 6 and rows_of(Table.ACCOUNTS, segment=many) == expected
    assert rows_of(Table.ACCOUNT_SCORES, segment=many) == {"comma"}
    pro = a_segment(workspace, "user", "Pro", trait="plan", operator="is", value="pro")
    assert rows_of(Table.USERS, segment=pro) == {"cyd"}
    view = SavedView.objects.create(
        product=acme, workspace=workspace, scope="account", name="Seven", sort="-score",
        filters={"segment": str(many.pk), "trait.seats": "7"},
    )  # fmt: skip
    assert rows_of(Table.ACCOUNTS, view=view) == {"seat-7"}
    view.filters = {}
    view.save()
    assert rows_of(Table.ACCOUNTS, view=view) == set(seats)


def test_an_export_whose_source_is_gone_writes_nothing(
    acme: Product, memory: MemoryStore, clock: Clock
) -> None:
    workspace = some_history(acme)
    segment = a_segment(workspace, "account", "Many", trait="seats", operator="is_set")
    view = SavedView.objects.create(
        product=acme, workspace=workspace, scope="account", name="Lost", sort="-score",
        filters={"segment": str(segment.pk)},
    )  # fmt: skip
    exports = [an_export(acme, name=name, **{name: row}) for name, row in
               (("segment", segment), ("view", view))]  # fmt: skip
    segment.delete()
    for export in exports:
        export.refresh_from_db()
        run = run_now(export, clock)
        assert "deleted" in run.error and run.rows == 0
    assert memory.put_names == []
