"""What managers do with exports in the admin."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from access.models import TrailEntry
from core.models import Job
from engagement.models import Product, ProductMember, SavedView, User
from exports import runs, tasks
from exports.models import ExportRun, ScheduledExport
from exports.stores.s3 import S3Store
from tests.admin.conftest import logged_in
from tests.admin.rows import an_export_run
from tests.exports.rows import MemoryStore, a_segment, an_export, run_now
from tests.exports.test_runs import some_history
from tests.notifications.rows import Clock

ADD = "admin:exports_scheduledexport_add"


@pytest.fixture
def manager(acme: Product) -> Client:
    user = AdminUser.objects.create_user("ann", is_staff=True)
    ProductMember.objects.create(product=acme, user=user, role=ProductMember.Role.MANAGER)
    return logged_in(user)


def page_of(export: ScheduledExport) -> str:
    return reverse("admin:exports_scheduledexport_change", args=[export.pk])


def press(client: Client, export: ScheduledExport, name: str) -> str:
    address = reverse(f"admin:exports_scheduledexport_{name}", args=[export.pk])
    return client.post(address, follow=True).content.decode()


def fields(product: Product, kind: str, **values: Any) -> dict[str, Any]:
    return {
        "workspace": product.workspaces.get().pk,
        "store_kind": kind,
        "name": "Warehouse",
        "tables": ["accounts", "users"],
        "extent": "changes",
        "format": "csv",
        "schedule": "daily",
        "weekday": 0,
        "hour": 3,
        "is_enabled": "on",
        **values,
    }


def test_an_export_to_a_folder_from_the_first_click_to_its_files(
    acme: Product, manager: Client, folder: Path, clock: Clock
) -> None:
    some_history(acme)
    choose = manager.get(reverse(ADD)).content.decode()
    assert 'name="secret_access_key"' in choose and "Acme · Default" in choose
    assert "Folder of the server" in choose
    values = fields(acme, "folder", folder="/team/warehouse/")
    form = manager.get(reverse(ADD), values).content.decode()
    assert 'name="folder"' in form and 'name="secret_access_key"' not in form
    for name in ("../elsewhere", "a//b", "a b", "./a"):
        refused = manager.post(reverse(ADD), {**values, "folder": name})
        assert "Use letters, digits" in refused.content.decode(), name
    html = manager.post(reverse(ADD), values, follow=True).content.decode()
    assert "A test file was written and deleted." in html and "No run has ended yet" in html
    export = ScheduledExport.objects.get()
    assert (export.folder, export.verified_at is not None) == ("team/warehouse", True)
    assert export.next_run_at is not None and export.next_run_at.hour == 3
    # The first rows of each table, as the file will have them.
    preview = manager.get(page_of(export), {"table": "users"}).content.decode()
    first = User.objects.order_by("pk")[0]
    assert "First rows" in preview and f"<td>{first.external_id}</td>" in preview
    assert '<th scope="col">score_change_complete_days</th>' in preview
    assert "The run begins in a moment." in press(manager, export, "run_now")
    assert "already under way" in press(manager, export, "run_now")
    run = ExportRun.objects.get()
    tasks.run()
    html = manager.get(page_of(export)).content.decode()
    assert "<strong>Done.</strong>" in html and ">Everything<" in html
    details = manager.get(reverse("admin:exports_exportrun_change", args=[run.pk]))
    for text in ("accounts-00001.csv.gz", "by ann", "first run since"):
        assert text in details.content.decode(), text

    press(manager, export, "verify")
    assert TrailEntry.objects.latest("pk").note == "Wrote a test file."

    # Another hour changes nothing else; another format is another export.
    change = {**values, "folder": "team/warehouse", "hour": 4}
    manager.post(page_of(export), change)
    export.refresh_from_db()
    assert export.cursor["run"] == run.pk and export.next_run_at.hour == 4
    press(manager, export, "run_now")
    manager.post(page_of(export), {**change, "tables": ["accounts"]})
    export.refresh_from_db()
    last = ExportRun.objects.latest("pk")
    assert export.cursor == {} and (last.state, last.error) == (
        ExportRun.State.STOPPED,
        "Somebody edited the export.",
    )
    press(manager, export, "run_now")
    assert "The run is stopped." in press(manager, export, "stop")
    assert "Stopped by ann." in manager.get(page_of(export)).content.decode()
    manager.post(page_of(export), {**change, "is_enabled": ""})
    assert runs.request_due(clock.now) == 0
    assert not ScheduledExport.objects.filter(next_run_at__isnull=False).exists()


def test_a_folder_that_is_not_offered_is_refused(
    acme: Product, manager: Client, settings: Settings
) -> None:
    some_history(acme)
    settings.EXPORT_FOLDER = ""
    response = manager.post(reverse(ADD), fields(acme, "folder", folder="warehouse"))
    assert response.status_code == 200 and b"This server offers no folder." in response.content
    assert not ScheduledExport.objects.exists()


def test_keys_are_stored_encrypted_never_shown_and_sent_nowhere_else(
    acme: Product, manager: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_history(acme)
    hosts: list[str] = []

    def put(store: S3Store, name: str, content: bytes, type: str = "") -> None:
        hosts.append(store._keys[1])

    monkeypatch.setattr(S3Store, "put", put)
    monkeypatch.setattr(S3Store, "delete", lambda *arguments: None)
    keys = {"access_key_id": "planted-id", "secret_access_key": "planted-secret"}
    place = {"endpoint": "https://storage.example.com", "region": "", "bucket": "warehouse"}
    values = fields(acme, "s3", folder="", **place)
    for wrong_values, text in (
        ({"endpoint": "http://u:p@x"}, "user name or a password"),
        ({"endpoint": "ftp://x"}, "must begin with https://"),
        ({"endpoint": "", "bucket": ""}, "Enter the bucket."),
        ({"bucket": "No Bucket"}, "3 to 63 lowercase"),
        ({"access_key_id": ""}, "This field is required"),
    ):
        refused = manager.post(reverse(ADD), {**values, **keys, **wrong_values}).content.decode()
        assert text in refused and "planted-secret" not in refused, wrong_values
    html = manager.post(reverse(ADD), {**values, **keys}, follow=True).content.decode()
    export = ScheduledExport.objects.get()
    assert hosts == ["planted-secret"] and "planted" not in html
    assert "planted" not in manager.get(page_of(export)).content.decode()
    # Without new keys the stored ones stay, and go to no other endpoint.
    manager.post(page_of(export), {**values, "hour": 5})
    assert ScheduledExport.objects.defer(None).get().secret_access_key == "planted-secret"
    moved = {**values, "endpoint": "https://thief.example.com"}
    refused = manager.post(page_of(export), moved).content.decode()
    assert "Enter it again for the other endpoint" in refused and hosts == ["planted-secret"]
    manager.post(page_of(export), {**moved, **keys, "secret_access_key": "other"})
    assert hosts == ["planted-secret", "other"]


def test_a_failed_run_is_on_the_home_page_until_another_one_succeeds(
    acme: Product, manager: Client, memory: MemoryStore, clock: Clock
) -> None:
    some_history(acme)
    export = an_export(acme)
    run = run_now(export, clock)
    home = reverse("admin:index")
    failed = "The last run of Warehouse failed. The store answered 403."
    ExportRun.objects.create(
        product=acme,
        export=export,
        state=ExportRun.State.FAILED,
        requested_at=run.requested_at,
        due_at=run.due_at,
        error="The store answered 403.",
    )
    assert failed in manager.get(home).content.decode()
    run_now(export, clock)
    assert failed not in manager.get(home).content.decode()


def test_a_run_that_waits_says_for_what(
    acme: Product, manager: Client, memory: MemoryStore, clock: Clock
) -> None:
    some_history(acme)
    memory.refuse("The store answered 503.")
    run = run_now(an_export(acme), clock)
    url = reverse("admin:exports_exportrun_change", args=[run.pk])
    assert "503. The next attempt is at" in " ".join(manager.get(url).content.decode().split())
    Job.objects.update(lease=uuid4(), leased_until=clock.now)
    assert "another one goes on within" in manager.get(url).content.decode()
    ProductMember.objects.all().delete()
    AdminUser.objects.update(is_superuser=True)
    jobs = manager.get(reverse("admin:jobs")).content.decode()
    assert f"Write exports: Warehouse of Acme, run {run.pk}" in jobs


def test_pages_separate_thousands_and_name_tables(acme: Product, manager: Client) -> None:
    run = an_export_run(acme.workspaces.get())
    ExportRun.objects.filter(pk=run.pk).update(rows=181203)
    run.files.update(rows=60002)
    ScheduledExport.objects.filter(pk=run.export_id).update(tables=["account_scores"])
    change = reverse("admin:exports_exportrun_change", args=[run.pk])
    runs_list = reverse("admin:exports_exportrun_changelist")
    for url in (page_of(run.export), change, runs_list):
        html = manager.get(url).content.decode()
        assert "181,203" in html and "181203" not in html, url
    assert "60,002" in manager.get(change).content.decode()
    ProductMember.objects.update(role=ProductMember.Role.VIEWER)
    html = manager.get(page_of(run.export)).content.decode()
    assert "Scores of accounts per day" in html and "account_scores" not in html


def test_a_segment_or_a_shared_view_is_chosen_with_the_first_rows_of_its_file(
    acme: Product, globex: Product, manager: Client, folder: Path, clock: Clock
) -> None:
    workspace = some_history(acme)
    some_history(globex)
    comma = a_segment(workspace, "account", "Comma", trait="seats", operator="is_set")
    theirs = a_segment(globex.workspaces.get(), "account", "Theirs", trait="x", operator="is_set")
    own = {"product": acme, "workspace": workspace, "scope": "account", "sort": "-score"}
    ours = SavedView.objects.create(**own, name="Shared")
    hers = SavedView.objects.create(**own, name="Private", owner=AdminUser.objects.get())
    values = fields(acme, "folder", folder="x", tables=["accounts"], extent="complete")
    page = manager.get(
        reverse(ADD), {"workspace": str(workspace.pk), "source": f"segment:{comma.pk}"}
    )
    assert f'value="segment:{comma.pk}" selected' in page.content.decode()
    for name, is_offered in (("Comma", 1), ("Shared", 1), ("Theirs", 0), ("Private", 0)):
        assert (f">{name}</option>" in page.content.decode()) == bool(is_offered), name
    assert [row[1] for row in page.context["preview"].rows] == ["comma"]
    # A choice shows its first rows before anything is saved.
    for source, count in (("", 3), (f"segment:{comma.pk}", 1), (f"view:{ours.pk}", 3)):
        reloaded = manager.post(reverse(ADD), {**values, "source": source, "_reload": "1"})
        assert len(reloaded.context["preview"].rows) == count
    for change, text in (
        ({"source": f"segment:{theirs.pk}"}, "Select a valid choice"),
        ({"source": f"view:{hers.pk}"}, "Select a valid choice"),
        ({"tables": ["accounts", "users"]}, "Choose Accounts, Scores of accounts per day, or"),
        ({"extent": "changes"}, "Choose Everything."),
    ):
        answer = manager.post(reverse(ADD), {**values, "source": f"segment:{comma.pk}", **change})
        assert text in answer.content.decode(), text
    manager.post(reverse(ADD), {**values, "source": f"segment:{comma.pk}"})
    export = ScheduledExport.objects.get()
    assert (export.segment_id, export.view_id) == (comma.pk, None)
    listed = manager.get(reverse("admin:exports_scheduledexport_changelist")).content.decode()
    assert "Accounts: accounts of Comma" in listed
    # Whom it writes of does not widen because the segment goes.
    comma.delete()
    html = manager.get(page_of(export)).content.decode()
    assert "was deleted. Choose another one." in html and "Deleted: choose another" in html
    same = {**values, "source": f"segment:{comma.pk or export.segment_id}"}
    assert "was deleted. Choose" in manager.post(page_of(export), same).content.decode()
    assert manager.post(page_of(export), {**values, "source": f"view:{ours.pk}"}).status_code == 302
    export.refresh_from_db()
    assert (export.segment_id, export.view_id) == (None, ours.pk)
