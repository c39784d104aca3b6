"""Features in the admin: their form, the pages of features and events, and weights by feature."""

from datetime import datetime, time, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from access.models import TrailEntry
from console.rules import previews
from core.database import sql
from engagement.messages import Track
from engagement.models import (
    Account,
    EventName,
    EventWeight,
    Feature,
    Product,
    ScoreSet,
    Segment,
    StoredOrder,
    User,
)
from engagement.models.features import MAX_FEATURES
from engagement.orders import pages, storage
from engagement.rescoring.rescore import rescore
from engagement.segments import counts
from tests.admin.rows import Rows
from tests.admin.test_workspaces import filled_in, save
from tests.cases import each
from tests.database import CITUS
from tests.engagement.history import identify, tell
from tests.jobs import pretend_duration, refresh_orders, run_job
from trends.usage import features
from trends.usage.nights import JOB

# On a cluster, pages of features do not see what their own transaction wrote on other nodes.
pytestmark = pytest.mark.django_db(transaction=CITUS is not None)

DAY = timedelta(days=1)
ADD = "/admin/engagement/feature/add/"


@pytest.fixture
def reports(acme: Product) -> Feature:
    """Initech exported yesterday, and hooli 40 days ago. A night has counted it."""
    now = timezone.now()
    feature = Feature.objects.create(product=acme, name="Reports")
    features.set_events(feature, ["exported", "printed"])
    tell(acme, identify("ann", -20_000, group="initech"), identify("bob", -20_000, group="hooli"))
    tell(acme, Track("ann", "exported", now - DAY), Track("bob", "printed", now - 40 * DAY))
    rescore(now)
    run_job(JOB, datetime.combine(now.date() + DAY, time(), now.tzinfo))
    return feature


def form(acme: Product, **fields: Any) -> dict[str, Any]:
    return {"product": acme.pk, "name": "Reports", "known": [], "typed": "", **fields}


def test_a_manager_groups_known_and_new_events(member: Client, acme: Product) -> None:
    EventName.objects.create(product=acme, name="exported")
    page = member.get(f"{ADD}?product={acme.pk}").content.decode()
    assert 'value="exported"' in page
    member.post(ADD, form(acme, known=["exported"], typed="printed\n\n  shared "))
    feature = Feature.objects.get()
    names = EventName.objects.filter(feature=feature).values_list("name", flat=True)
    assert list(names) == ["exported", "printed", "shared"]
    entry = TrailEntry.objects.get(kind="feature")
    assert entry.changes["events"][1] == "exported, printed, shared"

    member.post(f"/admin/engagement/feature/{feature.pk}/delete/", {"post": "yes"})
    assert not Feature.objects.exists()
    assert not EventName.objects.filter(feature__isnull=False).exists()


def test_what_the_form_refuses(member: Client, acme: Product, globex: Product) -> None:
    sharing = Feature.objects.create(product=acme, name="Sharing")
    features.set_events(sharing, ["shared"])
    Feature.objects.create(product=globex, name="Reports")
    for fields, problem in (
        ({}, "Choose at least one event"),
        ({"typed": "shared"}, "is in the feature “Sharing”"),
        ({"name": "Sharing", "typed": "exported"}, "already has a feature with this name"),
        ({"typed": "a\x07b"}, "is not the name of an event"),
        ({"typed": "x" * 300}, "is not the name of an event"),
        ({"product": globex.pk, "typed": "exported"}, "Select a valid choice"),
    ):
        page = member.post(ADD, form(acme, **fields)).content.decode()
        assert problem in page
    assert list(Feature.objects.filter(product=acme)) == [sharing]

    Feature.objects.bulk_create(
        Feature(product=acme, name=f"feature {number}") for number in range(MAX_FEATURES - 1)
    )
    page = member.post(ADD, form(acme, typed="exported")).content.decode()
    assert f"at most {MAX_FEATURES} features" in page


def test_a_feature_that_a_segment_names_keeps_its_name(
    member: Client, acme: Product, reports: Feature
) -> None:
    Segment.objects.create(
        workspace=acme.workspaces.get(),
        scope="account",
        name="Exporters",
        conditions=[{"kind": "feature", "feature": "Reports", "operator": "uses"}],
    )
    address = f"/admin/engagement/feature/{reports.pk}/change/"
    page = member.post(address, form(acme, name="Files", known=["exported"])).content.decode()
    assert "These segments use “Reports”: Exporters" in page
    assert Feature.objects.get(pk=reports.pk).name == "Reports"


def test_the_pages_say_who_uses_it(reader: Client, reports: Feature) -> None:
    page = reader.get(f"/admin/engagement/feature/{reports.pk}/usage/").content.decode()
    assert "1 <small>of 1 active, 100%</small>" in page
    started, stopped = page.split('id="stopped"')
    assert "initech" in started and "hooli" not in page.split('id="started"')[1].split("</table")[0]
    assert "hooli" in stopped
    event = EventName.objects.get(name="printed")
    page = reader.get(f"/admin/engagement/eventname/{event.pk}/change/?days=365").content.decode()
    assert "An event of" in page and "0 <small>of 1 active, 0%</small>" in page
    listed = reader.get("/admin/engagement/feature/").content.decode()
    assert "100%" in listed and "Reports" in listed


@each("kind", ["feature", "eventname"])
def test_a_list_of_all_products_says_whose_each_row_is(
    reader: Client, reports: Feature, kind: str
) -> None:
    column = '<td class="field-product'
    assert column in reader.get(f"/admin/engagement/{kind}/").content.decode()
    of_one = f"/admin/engagement/{kind}/?product__id__exact={reports.product_id}"
    assert column not in reader.get(of_one).content.decode()


def test_accounts_and_users_show_their_features(
    reader: Client, acme: Product, reports: Feature
) -> None:
    Feature.objects.create(product=acme, name="Automation")
    for model, name, group in (
        (Account, "initech", "Used in the last 28 days (1)"),
        (Account, "hooli", "Stopped (1)"),
        (User, "bob", "Stopped (1)"),
    ):
        subject = model._default_manager.get(external_id=name)
        scope = model.__name__.lower()
        page = reader.get(f"/admin/engagement/{scope}/{subject.pk}/change/").content.decode()
        assert group in page and "Never used (1)" in page
    workspace = acme.workspaces.get()
    listing = f"/admin/engagement/account/?workspace={workspace.pk}&columns=features_in_use"
    page = reader.get(listing).content.decode()
    assert "1 <small>of 2</small>" in page and "0 <small>of 2</small>" in page
    page = reader.get(f"{listing}&feature=stopped-Reports").content.decode()
    assert "hooli" in page and "initech" not in page
    assert "Feature: Reports, stopped" in page


@pytest.fixture
def large(acme: Product, reports: Feature, monkeypatch: pytest.MonkeyPatch) -> ScoreSet:
    """The scores, which are too many to sort for each page, and are ranked at once."""
    pretend_duration(monkeypatch, 0.0)
    monkeypatch.setattr(storage, "MAX_LIVE_ROWS", 0)
    score_set = ScoreSet.objects.get(product=acme, state="current")
    counts.recount(score_set, timezone.now())
    return score_set


def test_a_large_list_by_a_feature_says_as_of_when_it_is(
    reader: Client, acme: Product, reports: Feature, large: ScoreSet
) -> None:
    """It shows nobody who does not match any more. A few minutes later it has who matches since."""

    def refresh(minutes: int) -> None:
        counts.recount(large, timezone.now() + timedelta(minutes=minutes))
        refresh_orders(timezone.now() + timedelta(minutes=minutes))

    def listed(query: str) -> set[str]:
        url = f"/admin/engagement/account/?workspace={large.workspace_id}&{query}"
        page = reader.get(url).content.decode()
        assert "As of" in page
        return {name for name in ("initech", "hooli") if name in page}

    refresh(2)
    assert listed("feature=stopped-Reports") == {"hooli"}
    assert listed("feature=uses-Reports") == {"initech"}
    assert listed("feature=never-Reports") == set()
    assert listed("feature=uses-Reports&sort=name") == {"initech"}
    assert listed("feature=stopped-Reports&license_type=COMMERCIAL") == set()
    tell(acme, Track("bob", "exported", timezone.now()))
    rescore(timezone.now())
    assert listed("feature=stopped-Reports") == set()
    assert listed("feature=uses-Reports") == {"initech"}
    refresh(9)
    assert listed("feature=uses-Reports") == {"initech", "hooli"}

    features.delete(reports)
    assert not StoredOrder.objects.filter(column__startswith="feature:").exists()


def test_a_segment_by_a_feature_of_a_large_set_shows_its_first_members(
    member: Client, acme: Product, large: ScoreSet
) -> None:
    conditions = [{"kind": "feature", "feature": "Reports", "operator": "stopped"}]
    workspace = acme.workspaces.get()
    segment = Segment.objects.create(
        workspace=workspace, scope="account", name="Gone", conditions=conditions
    )
    refresh_orders(timezone.now() + timedelta(minutes=2))
    assert StoredOrder.objects.filter(column__startswith="feature:", version=1).count() == 3
    page = member.get(f"/admin/engagement/segment/{segment.pk}/change/").content.decode()
    assert "hooli" in page and "initech" not in page


@pytest.fixture
def away(acme: Product) -> Segment:
    conditions = [{"kind": "last_active", "operator": "more_than_days_ago", "days": 30}]
    segment: Segment = Segment.objects.create(
        workspace=acme.workspaces.get(), scope="account", name="Away", conditions=conditions
    )
    return segment


def test_a_page_that_finds_no_member_in_time_has_them_stored(
    member: Client, large: ScoreSet, away: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(previews, "PREVIEW_TIMEOUT_SECONDS", 0.001)
    monkeypatch.setattr(previews, "_member", lambda *_: sql.fetch("SELECT pg_sleep(1)"))
    member.get(f"/admin/engagement/segment/{away.pk}/change/")
    assert StoredOrder.objects.filter(column__startswith="segment:").exists()


def test_the_members_of_a_segment_are_stored_after_somebody_waited(
    member: Client, acme: Product, large: ScoreSet, away: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = away
    stored = StoredOrder.objects.filter(column__startswith="segment:")
    url = f"/admin/engagement/account/?workspace={segment.workspace_id}&segment={segment.pk}"
    preview = f"/admin/engagement/segment/{segment.pk}/change/"

    def listed() -> tuple[bool, bool]:
        """Whether the list and the page of the segment have hooli, and nobody else."""
        texts = [member.get(address).content.decode() for address in (url, preview)]
        assert not any("initech" in text for text in texts)
        return "hooli" in texts[0], "hooli" in texts[1]

    assert listed() == (True, True)
    assert not stored.exists()
    monkeypatch.setattr(pages, "WAIT_SECONDS", 0.0)
    assert listed() == (True, True)
    assert stored.get().version == 0
    refresh_orders(timezone.now() + timedelta(minutes=2))
    assert (stored.get().version, stored.get().row_count) == (1, 1)
    assert listed() == (True, True)
    assert "As of" in member.get(url).content.decode()
    tell(acme, Track("bob", "exported", timezone.now()))
    rescore(timezone.now())
    assert listed() == (False, False)

    # Another rule has another order.
    segment.conditions = [{"kind": "last_active", "operator": "more_than_days_ago", "days": 60}]
    segment.updated_at = timezone.now()
    segment.save()
    assert "As of" not in member.get(url).content.decode()
    assert stored.count() == 2


def test_a_weight_for_a_feature_is_that_of_its_events(
    member: Client, acme_rows: Rows, django_capture_on_commit_callbacks: Any
) -> None:
    """The stored weight of one event changes, and another event gets one."""
    features.set_events(acme_rows.feature, [acme_rows.event_name.name, "exported"])
    data = filled_in(acme_rows) | {f"feature-weight-{acme_rows.feature.pk}": "7"}
    save(member, acme_rows, data, django_capture_on_commit_callbacks)
    weights = EventWeight.objects.filter(workspace=acme_rows.workspace)
    assert dict(weights.values_list("event_name__name", "weight")) == {
        acme_rows.event_name.name: 7,
        "exported": 7,
    }


def test_no_other_products_feature_sets_weights(
    member: Client, acme_rows: Rows, globex_rows: Rows, django_capture_on_commit_callbacks: Any
) -> None:
    data = filled_in(acme_rows) | {f"feature-weight-{globex_rows.feature.pk}": "7"}
    save(member, acme_rows, data, django_capture_on_commit_callbacks)
    assert EventWeight.objects.get(workspace=acme_rows.workspace).weight == 5
