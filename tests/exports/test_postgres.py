"""A PostgreSQL of somebody else mirrors what the read API has, whatever happens on the way."""

import csv
import gzip
import io
import json
import random
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from access.models import TrailEntry
from core.models import Job
from engagement.models import EventName, Product, ProductMember, Segment
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from exports import files, runs, tables
from exports.models import ExportRun, Extent, ScheduledExport
from exports.stores import StoreError, open_store, verify
from exports.stores.postgres import KEYS, PostgresStore
from tests.admin.conftest import logged_in
from tests.cases import FACTOR
from tests.engagement.history import NOON, alias, identify, tell
from tests.exports.mirror import PASSWORD, Mirror
from tests.exports.rows import a_segment, an_export, run_now, write_due
from tests.exports.test_admin import ADD, fields, page_of, press
from tests.exports.test_runs import Killed, some_history
from tests.license_events import add_event
from tests.notifications.rows import Clock
from tests.readapi.conftest import reader
from tests.readapi.scored import account_id, user_id
from tests.readapi.test_changes import Mirror as Follower
from tests.readapi.test_changes import happen
from trends.models import WHOLE, DayFigures, SegmentMove, UsageDay

pytestmark = pytest.mark.slow
State = ExportRun.State


def a_mirror(product: Product, mirror: Mirror, **fields: Any) -> ScheduledExport:
    values = {"tables": list(KEYS), "extent": Extent.CHANGES, **mirror.fields(), **fields}
    export = an_export(product, **values)
    verify(ScheduledExport.objects.defer(None).get(pk=export.pk))
    return export


def run_of(export: ScheduledExport, clock: Clock) -> ExportRun:
    export.refresh_from_db()
    run = run_now(export, clock)
    assert (run.state, run.error) == (State.DONE, ""), run.error
    return run


@pytest.mark.parametrize("seed", range(max(1, round(FACTOR))))
def test_a_mirror_equals_the_read_api_whatever_happens(
    seed: int,
    acme: Product,
    acme_token: str,
    mirror: Mirror,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers are killed anywhere, and users are forgotten and joined."""
    monkeypatch.setattr(tables, "ROWS_PER_FETCH", 3)
    monkeypatch.setattr(files, "MAX_ROWS", 5)
    chance, now = random.Random(seed), NOON
    workspace = some_history(acme)
    export = a_mirror(acme, mirror)
    kills = 0
    for number in range(8):
        for _ in range(chance.randint(0, 3)):
            happen(chance, acme, (now - NOON).total_seconds() / 3600)
        if chance.random() < 0.3:
            now += timedelta(days=chance.randint(1, 9))
        if number == 5:
            sets.request_score_set(workspace.pk)
        rescore(now)
        rescore(now)
        export.refresh_from_db()
        runs.request_run(export, clock.step())
        # One more failure in a row, and the run is given up.
        for _ in range((runs.BACKOFF.give_up or 0) - 1):
            kills += chance.random() < 0.8 and kill_anywhere(chance, clock)
        write_due(clock)
        run = ExportRun.objects.filter(export=export).latest("pk")
        assert (run.state, run.error) == (State.DONE, "")
        for name in ("accounts", "users"):
            follower = Follower(reader(acme_token), workspace, name, limit=500)
            listed = follower.listed()
            assert mirror.subjects(name) == {
                id: (record["tracking_id"], record["score"], record["traits"])
                for id, record in listed.items()
            }
    assert kills > 5
    assert set(mirror.column("user_scores", "id")) <= set(mirror.column("users", "id"))


def kill_anywhere(chance: random.Random, clock: Clock) -> int:
    """Let a worker die at a random statement to the other database, or after its commit."""
    before, rest = psycopg.Cursor.execute, [chance.randint(0, 60)]
    commit = psycopg.Connection.commit

    def execute(cursor: Any, *arguments: Any, **options: Any) -> Any:
        if type(cursor) is psycopg.Cursor:
            rest[0] -= 1
            if rest[0] < 0:
                raise Killed
        return before(cursor, *arguments, **options)

    def commit_and_die(connection: Any) -> None:
        commit(connection)
        if type(connection) is psycopg.Connection and chance.random() < 0.2:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", execute)
        patch.setattr(psycopg.Connection, "commit", commit_and_die)
        try:
            write_due(clock)
            return 0
        except Killed:
            pass
    clock.step(runs.MERGE_LEASE.total_seconds() + 1)
    write_due(clock, lambda: True)
    due = Job.objects.filter(due_at__gt=clock.now).values_list("due_at", flat=True)
    clock.now = max((at for at in due if at), default=clock.now)
    return 1


def test_a_repeated_run_changes_nothing_and_an_unchanged_row_is_not_written(
    acme: Product, mirror: Mirror, clock: Clock
) -> None:
    some_history(acme)
    export = a_mirror(acme, mirror)
    run = run_of(export, clock)
    versions = "SELECT id, xmin::text, _eds_run FROM eds.users ORDER BY id"
    before = mirror.execute(versions)
    assert len(before) > 3 and {number for _, _, number in before} == {run.pk}
    # As a worker does that died after the merge, before it could note that.
    for state in (ExportRun.State.WAITING, ExportRun.State.RUNNING):
        ExportRun.objects.filter(pk=run.pk).update(state=state, lease=None)
        clock.step(runs.MERGE_LEASE.total_seconds())
        write_due(clock)
        run.refresh_from_db()
        assert run.state == State.DONE and mirror.execute(versions) == before
    tell(acme, identify("zoë", plan="other"))
    rescore(NOON)
    second = run_of(export, clock)
    changed = [row for row in mirror.execute(versions) if row not in before]
    assert [(id, number) for id, _, number in changed] == [(user_id(acme, "zoë"), second.pk)]
    ledger = "SELECT run, follows, extent FROM eds._eds_runs ORDER BY number"
    assert mirror.execute(ledger) == [
        (run.pk, None, "complete"),
        (second.pk, run.pk, "changes"),
    ]
    # Nobody is left in a staging table.
    staged = "SELECT relname FROM pg_class WHERE relname ~ '^_eds_(stage|gone)'"
    assert mirror.execute(staged) == []


def test_a_gap_is_refused_and_says_what_to_do(acme: Product, mirror: Mirror, clock: Clock) -> None:
    some_history(acme)
    export = a_mirror(acme, mirror)
    first = run_of(export, clock)
    second = run_of(export, clock)
    # Somebody restored a backup of the mirror.
    mirror.execute("DELETE FROM eds._eds_runs WHERE run = %s", second.pk)
    export.refresh_from_db()
    run = run_now(export, clock)
    assert run.state == State.RUNNING and run.error == (
        f"These changes follow run {second.pk}, but the schema was last loaded by run {first.pk}. "
        "Choose “Write everything” on the page of the export."
    )
    user = AdminUser.objects.create_user("ann", is_staff=True)
    ProductMember.objects.create(product=acme, user=user, role=ProductMember.Role.MANAGER)
    manager = logged_in(user)
    press(manager, export, "stop")
    assert "Write everything" in manager.get(page_of(export)).content.decode()
    assert "A complete run begins" in press(manager, export, "write_everything")
    write_due(clock)
    last = ExportRun.objects.latest("pk")
    assert (last.state, last.since, last.requested_by) == (State.DONE, None, "ann")
    assert TrailEntry.objects.latest("pk").note == "Requested a complete run."
    run_of(export, clock)
    mirror.empty()
    verify(ScheduledExport.objects.defer(None).get())
    export.refresh_from_db()
    assert "the schema was never loaded" in run_now(export, clock).error


def test_who_is_forgotten_or_joined_leaves_every_table(
    acme: Product, mirror: Mirror, clock: Clock
) -> None:
    workspace = some_history(acme)
    ann, bob, comma = user_id(acme, "ann"), user_id(acme, "bob"), account_id(acme, "comma")
    for scope, id in (("user", ann), ("user", bob), ("account", comma)):
        SegmentMove.objects.create(
            product=acme, scope=scope, subject_id=id, segment_id=7, is_entry=True,
            day=NOON.date() - timedelta(days=1),
        )  # fmt: skip
    monkey = add_event(acme, "churned", "2026-05-01", cloud_id="comma")
    add_event(acme, "churned", "2026-05-01", cloud_id="initech", license="E-2")
    Segment.objects.create(workspace=workspace, pk=7, scope="user", name="Seven", conditions=[])
    export = a_mirror(acme, mirror)
    run_of(export, clock)
    assert monkey.cloud_id in mirror.column("license_events", "tracking_id")
    assert set(mirror.column("segment_moves", "id")) == {ann, bob, comma}
    assert ann in mirror.column("user_scores", "id")
    assert comma in mirror.column("account_scores", "id")
    forget(SubjectRef(acme.pk, SubjectScope.USER, "ann"), NOON)
    forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "comma"), NOON)
    tell(acme, alias("bob", "cyd"))
    rescore(NOON)
    run = run_of(export, clock)
    assert run.since is not None
    former = {ann, bob}
    for table in ("users", "user_scores"):
        assert mirror.column(table, "id") and not former & set(mirror.column(table, "id")), table
    for table in ("accounts", "account_scores"):
        assert comma not in mirror.column(table, "id"), table
    assert mirror.column("license_events", "tracking_id") == ["initech"]
    assert mirror.column("segment_moves", "id") == []


# --- Columns, views, and other people's tables ----------------------------------------------

ACCOUNTS = {"id": "integer", "tracking_id": "text", "name": "text", "deleted": "boolean"}


def load(
    export: ScheduledExport, run: int, rows: Sequence[dict[str, Any]], columns: dict[str, str]
) -> None:
    """Put a complete run of accounts into the export's schema, as a release did with these
    columns."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns))
    writer.writeheader()
    writer.writerows(rows)
    folder, name = f"run-{run}", "accounts-00001.csv.gz"
    store = open_store(ScheduledExport.objects.defer(None).get(pk=export.pk))
    store.put(f"{folder}/{name}", gzip.compress(text.getvalue().encode()))
    manifest = {
        "run": run, "since": None, "until": {"stamp": run}, "changes_since_run": None,
        "extent": "complete", "rows": len(rows),
        "tables": {
            "accounts": {
                "columns": [{"name": name, "type": type} for name, type in columns.items()],
                "files": [{"name": name, "rows": len(rows)}],
            }
        },
    }  # fmt: skip
    store.put(f"{folder}/manifest.json", json.dumps(manifest).encode())


def test_new_columns_come_by_themselves_and_views_and_own_columns_stay(
    acme: Product, mirror: Mirror
) -> None:
    export = a_mirror(acme, mirror)
    row = {"id": 1, "tracking_id": "a", "name": 'Ä "b",\nc', "deleted": "false"}
    load(export, 1, [row, {**row, "id": 2}], ACCOUNTS)
    mirror.execute("ALTER TABLE eds.accounts ADD COLUMN region text DEFAULT 'EU'")
    mirror.execute('CREATE VIEW eds.mine AS SELECT "Name" FROM eds."Accounts"')
    columns = {**ACCOUNTS, "tags": "json", "last_active_at": "time"}
    more = {"tags": '["x"]', "last_active_at": "2026-09-24T01:00:00.000000Z"}
    load(export, 2, [{**row, **more}], columns)
    rows = mirror.execute('SELECT "ID", "Name", "Tags", "Last active at" FROM eds."Accounts"')
    assert [(id, name, tags) for id, name, tags, _ in rows] == [(1, 'Ä "b",\nc', ["x"])]
    assert mirror.column("accounts", "region") == ["EU"]
    assert mirror.execute("SELECT * FROM eds.mine") == [('Ä "b",\nc',)]


def test_a_table_that_is_no_longer_exported_keeps_nobody(
    acme: Product, mirror: Mirror, clock: Clock
) -> None:
    some_history(acme)
    export = a_mirror(acme, mirror)
    run_of(export, clock)
    assert mirror.column("users", "id")
    ScheduledExport.objects.update(tables=["accounts"], cursor={})
    run_of(export, clock)
    assert mirror.column("accounts", "id") and not mirror.column("users", "id")
    assert not mirror.column("user_scores", "id")


def test_each_table_has_a_view_with_names_for_people(
    acme: Product, mirror: Mirror, clock: Clock
) -> None:
    some_history(acme)
    run_of(a_mirror(acme, mirror), clock)
    views = {
        name for (name,) in mirror.execute("SELECT viewname FROM pg_views WHERE schemaname = 'eds'")
    }
    assert views == {
        "Accounts", "Users", "Account scores", "User scores", "License events", "Trends",
        "Segment moves", "Usage", "Account timelines", "User timelines", "Cohorts",
    }  # fmt: skip
    scores = mirror.execute('SELECT DISTINCT "Name" FROM eds."User scores" WHERE "Score" > 0')
    assert ("Ann",) in scores
    assert mirror.execute('SELECT "Tracking ID" FROM eds."Accounts" WHERE "Name" = $$Initech$$')


def test_the_schema_of_somebody_else_is_left_alone(acme: Product, mirror: Mirror) -> None:
    export = a_mirror(acme, mirror)
    load(export, 1, [], ACCOUNTS)
    other = ScheduledExport.objects.defer(None).get(pk=a_row(acme, mirror, "Other").pk)
    with pytest.raises(StoreError, match="the rows of another export"):
        verify(other)
    with pytest.raises(StoreError, match="the rows of another export"):
        load(other, 1, [], ACCOUNTS)
    mirror.empty()
    mirror.execute("CREATE SCHEMA eds AUTHORIZATION eds_writer")
    mirror.execute("CREATE TABLE eds.users (id int)")
    with pytest.raises(StoreError, match="a table users that no export has made"):
        verify(other)
    mirror.empty()
    mirror.execute("CREATE SCHEMA eds")
    with pytest.raises(StoreError, match="CREATE SCHEMA eds AUTHORIZATION eds_writer"):
        verify(other)


def a_row(product: Product, mirror: Mirror, name: str = "Mirror", **others: Any) -> ScheduledExport:
    return an_export(product, name=name, tables=["accounts"], **mirror.fields(**others))


# --- Connections ----------------------------------------------------------------------------


def test_what_goes_wrong_is_a_sentence_without_a_secret(
    acme: Product, mirror: Mirror, settings: Settings
) -> None:
    allowed = settings.WEBHOOK_ALLOWED_NETWORKS
    for change, text, networks in (
        ({"password": "planted-wrong"}, "refuses the user or the password", allowed),
        ({"database": "nothing"}, "no database with this name", allowed),
        ({"port": 1}, "Check the host and the port", allowed),
        ({"tls": "require"}, "offers no TLS", allowed),
        ({"tls": "verify-full"}, "offers no TLS", allowed),
        ({"host": "nowhere.invalid"}, "cannot be resolved", allowed),
        ({}, "leads to a private or reserved address", []),
    ):
        settings.WEBHOOK_ALLOWED_NETWORKS = networks
        export = a_row(acme, mirror, **change)
        with pytest.raises(StoreError, match=text) as error:
            verify(ScheduledExport.objects.defer(None).get(pk=export.pk))
        assert "planted" not in str(error.value) and error.value.__cause__ is None
        export.delete()


@pytest.mark.parametrize("tls", ["require", "disable"])
def test_without_a_verified_certificate_only_allowed_networks_are_reached(tls: str) -> None:
    def resolve(host: str, port: int) -> list[str]:
        return ["8.8.8.8"]

    store = PostgresStore("db.example", 5432, "d", "eds", "u", "p", tls, "", "1", resolve)
    with pytest.raises(StoreError, match="Choose the verified certificate"):
        store.check(1)


def test_a_name_is_resolved_once_and_each_address_is_checked() -> None:
    hosts = []

    def resolve(host: str, port: int) -> list[str]:
        hosts.append(host)
        return ["8.8.8.8", "10.0.0.1"]

    store = PostgresStore("db.example", 5432, "d", "eds", "u", "p", "verify-full", "", "1", resolve)
    with pytest.raises(StoreError, match="private or reserved"):
        store.check(1)
    assert hosts == ["db.example"]


def test_the_form_tries_the_connection_and_shows_no_password(
    acme: Product, mirror: Mirror, clock: Clock
) -> None:
    some_history(acme)
    user = AdminUser.objects.create_user("ann", is_staff=True)
    ProductMember.objects.create(product=acme, user=user, role=ProductMember.Role.MANAGER)
    manager: Client = logged_in(user)
    place_fields = mirror.fields()
    kind = str(place_fields.pop("store_kind"))
    values = fields(acme, kind, **place_fields)
    del values["format"]
    form = manager.get(reverse(ADD), values).content.decode()
    for name in ("host", "port", "database", "schema", "user_name", "password", "tls", "ca"):
        assert f'name="{name}"' in form, name
    assert 'name="bucket"' not in form and 'name="format"' not in form
    for change, text in (
        ({"host": ""}, "This field is required"),
        ({"host": "a,b"}, "Enter a name or an address"),
        ({"host": "/var/run"}, "Enter a name or an address"),
        ({"schema": 'e"x'}, "Use lowercase letters"),
        ({"port": "0"}, "greater than or equal to 1"),
        ({"tables": ["user_scores"]}, "Choose Users, too: Scores of users per day needs it"),
        ({"password": ""}, "This field is required"),
    ):
        refused = manager.post(reverse(ADD), {**values, **change}).content.decode()
        assert text in refused and PASSWORD not in refused, change
    failed = manager.post(
        reverse(ADD), {**values, "name": "Wrong", "password": "planted-wrong"}, follow=True
    ).content.decode()
    assert "The database cannot be used. The database refuses the user or the password." in failed
    assert "planted" not in failed and "Not verified." in failed and "Try the connection" in failed
    html = manager.post(reverse(ADD), values, follow=True).content.decode()
    assert "The connection works. The export can run." in html and PASSWORD not in html
    export = ScheduledExport.objects.get(name="Warehouse")
    place = f"PostgreSQL {mirror.host}/warehouse/eds"
    assert place in html and PASSWORD not in manager.get(page_of(export)).content.decode()
    press(manager, export, "run_now")
    write_due(clock)
    assert mirror.column("users", "tracking_id")
    press(manager, export, "verify")
    assert TrailEntry.objects.latest("pk").note == "Tried the connection."
    assert not TrailEntry.objects.filter(changes__icontains="planted").exists()
    # Another hour keeps the password; another host needs it again.
    assert manager.post(page_of(export), {**values, "password": "", "hour": 9}).status_code == 302
    assert ScheduledExport.objects.defer(None).get(pk=export.pk).password == PASSWORD
    for change in ({"host": "thief.example.com"}, {"tls": "require"}, {"user_name": "other"}):
        answer = manager.post(page_of(export), {**values, "password": "", **change})
        assert "Enter it again for the other host, user, or TLS." in answer.content.decode()
    ProductMember.objects.update(role=ProductMember.Role.VIEWER)
    viewed = manager.get(page_of(export)).content.decode()
    assert mirror.host in viewed and PASSWORD not in viewed


# --- The dashboard --------------------------------------------------------------------------

DASHBOARD = settings.BASE_DIR / "deploy" / "grafana" / "engagement-mirror.json"


def test_each_query_of_the_dashboard_has_an_answer(
    acme: Product, mirror: Mirror, clock: Clock
) -> None:
    workspace = some_history(acme)
    add_event(acme, "churned", "2026-09-01", cloud_id="initech")
    day = NOON.date() - timedelta(days=1)
    DayFigures.objects.create(score_set_id=0, workspace=workspace, day=day, segment_id=WHOLE)
    segment = a_segment(workspace, "account", "Seven", trait="x", operator="is_set")
    SegmentMove.objects.create(
        product=acme, scope="account", subject_id=account_id(acme, "comma"),
        segment_id=segment.pk, is_entry=True, day=day,
    )  # fmt: skip
    event = EventName.objects.filter(product=acme).earliest("pk")
    UsageDay.objects.create(product=acme, day=day, event_name_id=event.pk, users=1, accounts=1)
    run_of(a_mirror(acme, mirror), clock)
    panels = json.loads(DASHBOARD.read_text())["panels"]
    for panel in panels:
        (target,) = panel["targets"]
        query = target["rawSql"].replace("${schema}", "eds")
        # As Grafana writes it for a range of times.
        range_of_times = r"\1 BETWEEN '2026-01-01' AND '2026-12-31'"
        query = re.sub(r"\$__timeFilter\((.+?)\)", range_of_times, query)
        assert "$" not in query
        assert mirror.execute(query) or panel["title"] == "Lowest change of scores", panel["title"]
    assert len(panels) > 8
