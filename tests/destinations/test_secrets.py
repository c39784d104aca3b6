"""At each CRM: its secrets are nowhere, its address obeys the operator's rules, and a token that
reads changes nothing."""

import logging
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from destinations import runs
from destinations.models import RecordDestination, RecordRun
from destinations.vendors import open_client
from destinations.vendors.base import VendorError
from engagement.models import Product
from harness.crm.hubspot import FakeHubSpot
from harness.crm.server import FakeCrm, instead, normal
from readapi.models import ApiToken
from tests.admin.conftest import logged_in
from tests.destinations.rows import (
    hubspot_destination,
    resume,
    run_now,
    salesforce_destination,
    scored,
)
from tests.notifications.rows import Clock
from tests.secrets import Secrets

# The secrets of the CRMs here, and a session that Salesforce gives for one.
SECRETS = Secrets("planted-key", "another-key", "planted-session")


@pytest.fixture(params=["hubspot", "salesforce"])
def crm(request: pytest.FixtureRequest) -> FakeCrm:
    fake: FakeCrm = request.getfixturevalue(request.param)
    return fake


@pytest.fixture
def destination(acme: Product, crm: FakeCrm) -> RecordDestination:
    scored(acme, {"initech": 35})
    own: Any = crm
    if isinstance(crm, FakeHubSpot):
        own.add(domain="initech.example")
        return hubspot_destination(acme, own)
    own.add(Website="initech.example")
    return salesforce_destination(acme, own)


def test_secrets_are_in_no_log_page_trail_file_or_row(
    destination: RecordDestination,
    crm: FakeCrm,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    root = logged_in(AdminUser.objects.create_superuser("root"))
    page = reverse("admin:destinations_recorddestination_change", args=[destination.pk])
    # Requests that work, that fail, and that repeat what they were sent, as some servers do.
    crm.faults = [normal, instead(500, f"<html>Bearer {crm.key}</html>")]
    run = run_now(destination, clock)
    resume(clock)
    for name in ("pause", "start", "read_fields", "dry_run"):
        address = reverse(f"admin:destinations_recorddestination_{name}", args=[destination.pk])
        assert root.post(address).status_code == 302
    resume(clock)
    html = root.post(page, {"key": "another-key"}).content.decode()
    assert SECRETS.among(html) == []
    # The CRM takes it no more.
    crm.key = "changed-there"
    getattr(crm, "sessions", set()).clear()
    run_now(destination, clock, RecordRun.Kind.COMPARE)
    destination.refresh_from_db()
    assert destination.state == RecordDestination.State.PAUSED
    pages = [
        page,
        reverse("admin:destinations_recorddestination_changelist"),
        reverse("admin:destinations_recorddestination_history", args=[destination.pk]),
        reverse("admin:destinations_recordrun_change", args=[run.pk]),
        reverse("admin:destinations_recordrun_changelist"),
    ]
    assert SECRETS.on_pages(root, pages) == []
    printed_rows = [*RecordDestination.objects.defer(None), *RecordRun.objects.all()]
    assert SECRETS.in_files("destinations", caplog, capsys, printed_rows) == []


def test_no_request_leaves_for_an_address_that_the_operator_does_not_allow(
    destination: RecordDestination, crm: FakeCrm, clock: Clock, settings: Settings
) -> None:
    row = RecordDestination.objects.defer(None).get()
    crm.faults = [instead(307, "", Location="https://evil.example/")]
    with pytest.raises(VendorError, match="Redirects are not followed"):
        open_client(row, lambda: None).fields()
    crm.calls.clear()
    settings.WEBHOOK_ALLOWED_NETWORKS = []
    with pytest.raises(VendorError, match="cannot be reached"):
        open_client(row, lambda: None).fields()
    run = run_now(destination, clock)
    assert run.state == RecordRun.State.RUNNING and "cannot be reached" in run.error
    assert crm.calls == []


def test_a_token_that_reads_changes_nothing(destination: RecordDestination, acme: Product) -> None:
    token = ApiToken.create(acme, "dashboard").secret
    before = RecordDestination.objects.values().get()
    reader = Client(headers={"authorization": f"Bearer {token}"})
    for name in ("start", "pause", "dry_run", "send_now", "read_fields", "links", "delete"):
        address = reverse(f"admin:destinations_recorddestination_{name}", args=[destination.pk])
        answer = reader.post(address, {"post": "yes"})
        assert answer.status_code == 302 and "/login/" in answer.headers["Location"], name
    assert RecordDestination.objects.values().get() == before and not RecordRun.objects.exists()
    assert runs.problem(destination) == ""
    query = {"workspace_id": destination.workspace_id}
    assert reader.get("/v2/accounts", query).status_code == 200
    for method in ("post", "put", "patch", "delete"):
        answer = getattr(reader, method)("/v2/accounts", {}, content_type="application/json")
        assert answer.status_code == 405, method
