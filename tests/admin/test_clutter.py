"""What nobody should meet in the admin, and what stands in its place."""

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from celery import current_app
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.html import strip_tags
from django_celery_beat.models import IntervalSchedule, PeriodicTask
from kombu.exceptions import OperationalError

from access.models import TrailEntry
from core import telemetry
from core.jobs import kinds
from core.models import Job
from engagement.models import Product
from engagement.removal.jobs import DELETE_PRODUCT
from engagement.rescoring.jobs import BENCHMARKS, INDEX_BACKLOG, STAMP_CHANGES
from ingestion.prometheus import DRAIN_COUNTER
from tests.admin.rows import Rows
from tests.admin.test_permissions import addresses


def page(who: Client, url: str) -> str:
    answer = who.get(url)
    assert answer.status_code == 200, url
    return answer.content.decode()


def test_home_lists_no_tables_of_the_database(root: Client, acme_rows: Rows) -> None:
    html = strip_tags(page(root, reverse("admin:index")))
    for name in ("Drop counts", "Inbox messages", "Periodic tasks", "Groups", "Recent actions"):
        assert name not in html
    answer = root.get(reverse("admin:app_list", args=["engagement"]))
    assert answer.headers["Location"] == reverse("admin:index")


def test_logins_have_no_groups_and_no_permissions(root: Client) -> None:
    person = AdminUser.objects.get(username="root")
    html = page(root, reverse("admin:auth_user_change", args=[person.pk]))
    assert 'name="user_permissions"' not in html and 'name="groups"' not in html
    assert "<h1>Logins</h1>" in page(root, reverse("admin:auth_user_changelist"))
    assert "Add login" in page(root, reverse("admin:auth_user_changelist"))
    form = {"username": "root", "first_name": "Ro", "is_active": "on", "is_staff": "on"}
    url = reverse("admin:auth_user_change", args=[person.pk])
    assert root.post(url, {**form, "is_superuser": "on"}).status_code == 302
    person.refresh_from_db()
    assert person.first_name == "Ro" and person.is_superuser


def test_deleting_a_product_leads_to_the_page_that_does_it(
    root: Client, reader: Client, acme: Product
) -> None:
    url = reverse("admin:engagement_product_delete", args=[acme.pk])
    answer = root.get(url)
    assert answer.headers["Location"] == reverse(
        "admin:engagement_product_delete_all", args=[acme.pk]
    )
    assert reader.get(url).status_code == 403


def test_forms_have_words_for_no_choice_and_one_way_to_save(root: Client, acme_rows: Rows) -> None:
    forms = [row for row in addresses(acme_rows) if row.name.endswith(("_add", "_change"))]
    pages = {row.name: root.get(row.url, follow=True).content.decode() for row in forms}
    assert len(pages) > 20
    for name, html in pages.items():
        assert "---------" not in html, name
        assert 'name="_continue"' not in html and 'name="_addanother"' not in html, name
        assert len(re.findall(r'class="default" name="_save"', html)) <= 1, name


def test_users_and_accounts_offer_no_history(member: Client, acme_rows: Rows) -> None:
    for name in ("account", "user"):
        pk = getattr(acme_rows, name).pk
        html = page(member, reverse(f"admin:engagement_{name}_change", args=[pk]))
        assert "historylink" not in html
    product = reverse("admin:engagement_product_change", args=[acme_rows.product.pk])
    assert "historylink" in page(member, product)


def test_the_list_of_logs_counts_products(root: Client, acme: Product, globex: Product) -> None:
    html = page(root, reverse("admin:ingestion_ingestionlog_changelist"))
    assert "2 products" in html and "2 ingestion log" not in html


# --- Background jobs ----------------------------------------------------------------------------


@pytest.fixture
def job(db: None) -> PeriodicTask:
    hourly = IntervalSchedule.objects.create(every=7200, period=IntervalSchedule.SECONDS)
    return PeriodicTask.objects.create(
        name="drain the inbox",
        task="ingestion.tasks.drain",
        interval=hourly,
        last_run_at=timezone.now() - timedelta(minutes=30),
    )


def cells(html: str, name: str) -> list[str]:
    rows = re.findall(r"<tr>.*?</tr>", html, re.DOTALL)
    (row,) = [row for row in rows if name in row]
    return [strip_tags(cell).strip() for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]


def test_jobs_say_what_they_do_and_when(root: Client, job: PeriodicTask) -> None:
    html = page(root, reverse("admin:jobs"))
    assert "Records the messages in the inbox." in html
    schedule, last, duration, following, button = cells(html, "Drain the inbox")
    assert (schedule, last, duration) == ("Every 2 hours", "30 minutes ago", "–")
    assert (following, button) == ("in 1 hour", "Run now")
    # Runs that a worker has recorded are newer than what beat knows, and have a duration.
    telemetry.add_run(DRAIN_COUNTER, 3, 0.25, timezone.now())
    assert cells(page(root, reverse("admin:jobs")), "Drain the inbox")[1:3] == [
        "just now",
        "250 ms",
    ]
    # An operator's own schedule is shown as it is.
    PeriodicTask.objects.update(enabled=False)
    assert cells(page(root, reverse("admin:jobs")), "Drain the inbox")[3] == "Disabled"


def test_a_superuser_runs_a_job_now(
    root: Client, job: PeriodicTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_names: list[str] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, **_: task_names.append(name))
    url = reverse("admin:jobs_run", args=[job.pk])
    assert root.get(url).status_code == 405 and not task_names
    html = root.post(url, follow=True).content.decode()
    assert task_names == ["ingestion.tasks.drain"]
    assert "Drain the inbox starts as soon as a worker is free." in html
    PeriodicTask.objects.get(pk=job.pk, interval__every=7200)

    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("no broker")

    monkeypatch.setattr(current_app, "send_task", fail)
    assert "was not started" in root.post(url, follow=True).content.decode()


def test_nobody_edits_a_background_job(root: Client, job: PeriodicTask) -> None:
    with pytest.raises(NoReverseMatch):
        reverse("admin:django_celery_beat_periodictask_change", args=[job.pk])
    html = page(root, reverse("admin:jobs"))
    content = html[html.index('id="content-main"') :]
    assert "<input" not in content.replace('<input type="hidden" name="csrfmiddlewaretoken"', "")


def test_only_superusers_see_and_run_jobs(member: Client, job: PeriodicTask) -> None:
    assert member.get(reverse("admin:jobs")).status_code == 403
    assert member.post(reverse("admin:jobs_run", args=[job.pk])).status_code == 403


def test_stepwise_jobs_show_where_they_are(root: Client) -> None:
    now = timezone.now()
    Job.objects.create(kind=INDEX_BACKLOG, cursor=1, progress=500, total=2000, due_at=now)
    failing = Job.objects.create(
        kind=STAMP_CHANGES,
        failures=2,
        error="ValueError: no luck",
        due_at=now + timedelta(minutes=5, seconds=30),
    )
    Job.objects.create(kind=DELETE_PRODUCT, key=0, progress=1234, due_at=now)
    html = page(root, reverse("admin:jobs"))
    assert cells(html, "Delete a product: 0")[0] == "In progress1,234 so far"
    assert cells(html, "Index for the search")[0] == "In progress500 of 2,000"
    state, _, _, following, buttons = cells(html, "Stamp changes")
    assert (state, following) == ("Failed 2 times in a row", "in 5 minutes")
    assert "ValueError: no luck" in html and "Retry now" in buttons
    root.post(reverse("admin:jobs_resume", args=[failing.pk]))
    failing.refresh_from_db()
    assert failing.due_at is not None and failing.due_at <= timezone.now()


def test_of_jobs_with_a_key_those_that_rest_are_left_out(root: Client, acme_rows: Rows) -> None:
    now, key = timezone.now(), str(acme_rows.workspace.scores_id)
    job = Job.objects.create(kind=BENCHMARKS, key=key, due_at=now + timedelta(minutes=5))
    title = f"Compute benchmarks: {acme_rows.workspace}"
    assert title not in page(root, reverse("admin:jobs"))
    week = Job(kind=BENCHMARKS, key="0", due_at=now + timedelta(days=7), cursor={"last": "a day"})
    week.save()
    assert "Compute benchmarks: 0" not in page(root, reverse("admin:jobs"))
    changes: list[dict[str, Any]] = [{"failures": 1}, {"is_paused": True}, {"due_at": now}]
    for change in [*changes, {"lease": uuid4()}, {"cursor": {"hour": 1}}]:
        Job.objects.filter(pk=job.pk).update(**change)
        assert title in page(root, reverse("admin:jobs"))
        job.save()


def test_a_job_with_a_key_is_named_and_in_progress_while_a_worker_has_it(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "_kinds", {})
    kinds.register(
        "copy",
        "Copies.",
        queue="tests",
        step=lambda job, now: kinds.Done(),
        keys=lambda: [],
        lease=timedelta(minutes=1),
        title=lambda key: f"Ledger {key}",
    )
    now = timezone.now()
    job = Job.objects.create(kind="copy", key="7", lease=uuid4(), due_at=now, failures=1)
    for seconds, state in ((30, "In progress"), (-30, "Failed")):
        Job.objects.update(leased_until=now + timedelta(seconds=seconds))
        row = cells(page(root, reverse("admin:jobs")), "Copy: Ledger 7")
        assert row[:2] == [state, "None yet"]
    pause = root.post(reverse("admin:jobs_pause", args=[job.pk]), follow=True)
    assert "Copy: Ledger 7 is paused" in pause.content.decode()


def test_a_superuser_pauses_a_job_and_the_trail_knows(root: Client, member: Client) -> None:
    job = Job.objects.create(kind=STAMP_CHANGES, due_at=timezone.now())
    pause = reverse("admin:jobs_pause", args=[job.pk])
    assert member.post(pause).status_code == 403
    assert root.get(pause).status_code == 405
    assert "is paused" in root.post(pause, follow=True).content.decode()
    assert "Resume" in cells(page(root, reverse("admin:jobs")), "Stamp changes")[-1]
    entry = TrailEntry.objects.get(kind="background job")
    assert entry.changes == {"paused": [False, True]}
    root.post(reverse("admin:jobs_resume", args=[job.pk]))
    job.refresh_from_db()
    assert not job.is_paused
