"""The secrets of each store are nowhere, and a token that reads changes nothing."""

import logging
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse

from engagement.models import Product
from exports import runs
from exports.models import ExportRun, ScheduledExport
from readapi.models import ApiToken
from tests.admin.conftest import logged_in
from tests.exports.conftest import Bucket
from tests.exports.mirror import PASSWORD, Mirror
from tests.exports.rows import run_now, write_due
from tests.exports.test_admin import ADD, fields, page_of, press
from tests.exports.test_runs import some_history
from tests.notifications.rows import Clock
from tests.secrets import Secrets

# Stores are other programs.
pytestmark = pytest.mark.slow


@pytest.fixture(params=["s3", "postgres"])
def place(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What people enter about a store that works, with its secret last."""
    if request.param == "postgres":
        mirror: Mirror = request.getfixturevalue("mirror")
        values = mirror.fields()
        del values["password"]
        return {**values, "password": PASSWORD}
    bucket: Bucket = request.getfixturevalue("bucket")
    return {
        **{"store_kind": "s3", "endpoint": bucket.endpoint, "region": "us-east-1"},
        **{"bucket": bucket.name, "folder": "", "access_key_id": bucket.access_key_id},
        "secret_access_key": bucket.secret_access_key,
    }


def test_secrets_are_in_no_log_page_trail_file_or_row(
    acme: Product,
    place: dict[str, Any],
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    some_history(acme)
    name, right = list(place.items())[-1]
    secrets = Secrets(right, "planted-wrong")
    root = logged_in(AdminUser.objects.create_superuser("root"))
    values = fields(acme, str(place["store_kind"]), **place)
    html = root.post(reverse(ADD), values, follow=True).content.decode()
    assert "The export can run." in html and secrets.among(html) == []
    export = ScheduledExport.objects.get()
    press(root, export, "run_now")
    write_due(clock)
    run = ExportRun.objects.get()
    assert (run.state, run.error) == (ExportRun.State.DONE, "")
    # The store takes another one only.
    answer = root.post(page_of(export), {**values, name: "planted-wrong"}, follow=True)
    html = answer.content.decode()
    assert "cannot be used." in html or "could not be written." in html
    assert secrets.among(html) == []
    run = run_now(export, clock)
    assert run.error and secrets.among(run.error) == []
    pages = [
        page_of(export),
        reverse("admin:exports_scheduledexport_changelist"),
        reverse("admin:exports_scheduledexport_history", args=[export.pk]),
        reverse("admin:exports_exportrun_change", args=[run.pk]),
        reverse("admin:exports_exportrun_changelist"),
    ]
    assert secrets.on_pages(root, pages) == []
    printed_rows = [*ScheduledExport.objects.defer(None), *ExportRun.objects.all()]
    assert secrets.in_files("exports", caplog, capsys, printed_rows) == []


def test_a_token_that_reads_changes_nothing(acme: Product, place: dict[str, Any]) -> None:
    some_history(acme)
    export = ScheduledExport.objects.create(
        product=acme, workspace=acme.workspaces.get(), name="Warehouse", tables=["users"], **place
    )
    before = ScheduledExport.objects.values().get()
    token = ApiToken.create(acme, "dashboard").secret
    reader = Client(headers={"authorization": f"Bearer {token}"})
    for name in ("run_now", "write_everything", "verify", "stop", "delete", "change"):
        address = reverse(f"admin:exports_scheduledexport_{name}", args=[export.pk])
        answer = reader.post(address, {"post": "yes"})
        assert answer.status_code == 302 and "/login/" in answer.headers["Location"], name
    assert ScheduledExport.objects.values().get() == before and not ExportRun.objects.exists()
    assert not runs.unfinished_ids()
