"""Editing a workspace's scoring."""

from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.workspaces import workspaces
from engagement.models import (
    DailyCount,
    EventName,
    EventWeight,
    Product,
    Segment,
    UserEngagement,
    Workspace,
)
from tests.admin.rows import Rows
from tests.cases import each


@pytest.fixture
def rescored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The workspaces for which a rescore was requested."""
    requests: list[int] = []
    monkeypatch.setattr("engagement.rescoring.sets.request_score_set", requests.append)
    return requests


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that were requested."""
    requests: list[str] = []
    monkeypatch.setattr("engagement.tasks.request_rescore", lambda: requests.append("rescore"))
    return requests


def test_the_workers_are_woken_when_a_change_is_saved(
    member: Client, acme_rows: Rows, woken: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    save(member, acme_rows, filled_in(acme_rows, name="New"), django_capture_on_commit_callbacks)
    assert woken == []
    address = reverse("admin:engagement_workspace_change", args=[acme_rows.workspace.pk])
    with django_capture_on_commit_callbacks() as waiting:
        member.post(address, filled_in(acme_rows, lookback_days=30))
    # Before the commit, a worker would find nothing to do.
    assert woken == []
    for callback in waiting:
        callback()
    assert woken == ["rescore"]


def filled_in(rows: Rows, *weights: tuple[str, object], **changes: Any) -> dict[str, Any]:
    """The workspace's form as a browser submits it, with new *weights* below the stored one."""
    weight_row = EventWeight.objects.get(workspace=rows.workspace)
    data: dict[str, Any] = {
        "product": rows.product.pk,
        "name": "Default",
        "lookback_days": 7,
        "alarm_level": 2,
        "default_weight": 1,
        "weights-TOTAL_FORMS": 1 + len(weights),
        "weights-INITIAL_FORMS": 1,
        "weights-0-id": weight_row.pk,
        "weights-0-workspace": rows.workspace.pk,
        "weights-0-event": weight_row.event_name.name,
        "weights-0-weight": 5,
    }
    for number, (event, weight) in enumerate(weights, 1):
        data |= {f"weights-{number}-event": event, f"weights-{number}-weight": weight}
    return {**data, **changes}


def save(client: Client, rows: Rows, data: dict[str, Any], capture: Any) -> Any:
    address = reverse("admin:engagement_workspace_change", args=[rows.workspace.pk])
    with capture(execute=True):
        return client.post(address, data)


def weights(workspace: Workspace) -> dict[str, int]:
    return dict(workspace.weights.values_list("event_name__name", "weight"))


@pytest.mark.parametrize(
    "change",
    [{"lookback_days": 30}, {"half_life_days": 60}, {"default_weight": 0}, {"weights-0-weight": 9}],
)
def test_a_change_of_the_scoring_scores_anew(
    member: Client,
    acme_rows: Rows,
    rescored: list[int],
    django_capture_on_commit_callbacks: Any,
    change: dict[str, int],
) -> None:
    data = filled_in(acme_rows, **change)
    assert save(member, acme_rows, data, django_capture_on_commit_callbacks).status_code == 302
    assert rescored == [acme_rows.workspace.pk]


def test_a_new_name_does_not(
    member: Client,
    acme_rows: Rows,
    rescored: list[int],
    django_capture_on_commit_callbacks: Any,
) -> None:
    save(member, acme_rows, filled_in(acme_rows, name="New"), django_capture_on_commit_callbacks)
    acme_rows.workspace.refresh_from_db()
    assert acme_rows.workspace.name == "New"
    assert rescored == []


def test_a_weight_is_given_to_known_and_to_new_event_names(
    member: Client,
    acme_rows: Rows,
    globex: Product,
    rescored: list[int],
    django_capture_on_commit_callbacks: Any,
) -> None:
    EventName.objects.create(product=acme_rows.product, name="Known ")
    EventName.objects.create(product=globex, name="New")
    data = filled_in(acme_rows, ("Known ", 2), ("New", 10))
    save(member, acme_rows, data, django_capture_on_commit_callbacks)
    assert weights(acme_rows.workspace) == {"acme event": 5, "Known ": 2, "New": 10}
    for weight in acme_rows.workspace.weights.all():
        assert weight.event_name.product == acme_rows.product
    assert rescored == [acme_rows.workspace.pk]


def test_a_weight_is_taken_away_and_given_again_in_one_go(
    member: Client,
    acme_rows: Rows,
    rescored: list[int],
    django_capture_on_commit_callbacks: Any,
) -> None:
    data = filled_in(acme_rows, ("acme event", 8), **{"weights-0-DELETE": "on"})
    save(member, acme_rows, data, django_capture_on_commit_callbacks)
    assert weights(acme_rows.workspace) == {"acme event": 8}
    assert rescored == [acme_rows.workspace.pk]


@pytest.mark.slow
@each(
    ("event", "weight", "sentence"),
    [
        ("New", -1, "Enter a whole number from 0 to 10."),
        ("New", 11, "Enter a whole number from 0 to 10."),
        ("New", "1.5", "Enter a whole number from 0 to 10."),
        ("New", "", "Enter a whole number from 0 to 10."),
        ("New", "many", "Enter a whole number from 0 to 10."),
        ("acme event", 3, "“acme event” is listed twice."),
        ("   ", 3, "Enter the event&#x27;s name exactly as your application sends it."),
        ("a\tb", 3, "Enter the event&#x27;s name exactly as your application sends it."),
        ("x" * 257, 3, "at most 256 characters"),
    ],
)
def test_a_bad_weight_has_an_error(
    member: Client,
    acme_rows: Rows,
    rescored: list[int],
    django_capture_on_commit_callbacks: Any,
    event: str,
    weight: object,
    sentence: str,
) -> None:
    data = filled_in(acme_rows, (event, weight))
    answer = save(member, acme_rows, data, django_capture_on_commit_callbacks)
    assert answer.status_code == 200
    assert sentence in answer.content.decode()
    assert weights(acme_rows.workspace) == {"acme event": 5}
    assert rescored == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"default_weight": 11}, "Enter a whole number from 0 to 10."),
        ({"default_weight": -1}, "Enter a whole number from 0 to 10."),
        ({"lookback_days": 8}, "Select a valid choice."),
        ({"half_life_days": 6}, "Enter a whole number from 7 to 180."),
        ({"half_life_days": "181"}, "Enter a whole number from 7 to 180."),
        ({"half_life_days": "a month"}, "Enter a whole number from 7 to 180."),
        ({"name": "Taken"}, "already exists"),
    ],
)
def test_a_bad_profile_has_an_error(
    member: Client,
    acme_rows: Rows,
    django_capture_on_commit_callbacks: Any,
    change: dict[str, Any],
    sentence: str,
) -> None:
    Workspace.objects.create(product=acme_rows.product, name="Taken")
    data = filled_in(acme_rows, **change)
    answer = save(member, acme_rows, data, django_capture_on_commit_callbacks)
    assert answer.status_code == 200 and sentence in answer.content.decode()


def test_a_half_life_takes_the_lookback_of_a_month_and_leaves_it(
    member: Client, acme_rows: Rows, django_capture_on_commit_callbacks: Any
) -> None:
    workspace = acme_rows.workspace
    for half_life, lookback, stored in (
        (60, 7, (60, 30)),
        ("", 30, (None, 30)),
        ("", 7, (None, 7)),
    ):
        data = filled_in(acme_rows, half_life_days=half_life, lookback_days=lookback)
        assert save(member, acme_rows, data, django_capture_on_commit_callbacks).status_code == 302
        workspace.refresh_from_db()
        assert (workspace.half_life_days, workspace.lookback_days) == stored
    address = reverse("admin:engagement_workspace_changelist")
    assert "last 7 days" in member.get(address).content.decode()
    Workspace.objects.update(half_life_days=60, lookback_days=30)
    assert "half-life of 60 days" in member.get(address).content.decode()


def test_a_half_life_that_someone_else_set_is_not_lost(
    member: Client, acme_rows: Rows, django_capture_on_commit_callbacks: Any
) -> None:
    Workspace.objects.update(half_life_days=60, lookback_days=30)
    form = {"initial-half_life_days": "", "initial-lookback_days": 7}
    untouched = filled_in(acme_rows, half_life_days="", **form)
    assert save(member, acme_rows, untouched, django_capture_on_commit_callbacks).status_code == 302
    acme_rows.workspace.refresh_from_db()
    assert acme_rows.workspace.half_life_days == 60
    changed = filled_in(acme_rows, half_life_days=90, **form)
    answer = save(member, acme_rows, changed, django_capture_on_commit_callbacks)
    assert "Someone else changed this to 60" in answer.content.decode()


def test_the_product_is_fixed(
    root: Client, acme_rows: Rows, globex: Product, django_capture_on_commit_callbacks: Any
) -> None:
    data = filled_in(acme_rows, product=globex.pk)
    save(root, acme_rows, data, django_capture_on_commit_callbacks)
    acme_rows.workspace.refresh_from_db()
    assert acme_rows.workspace.product == acme_rows.product


def test_what_scoring_writes_meanwhile_stays(
    root: Client,
    acme_rows: Rows,
    rescored: list[int],
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    from console.workspaces.workspaces import WorkspaceForm

    clean = WorkspaceForm.clean

    def scored_meanwhile(form: WorkspaceForm) -> Any:
        Workspace.objects.filter(pk=acme_rows.workspace.pk).update(scores=None)
        return clean(form)

    monkeypatch.setattr(WorkspaceForm, "clean", scored_meanwhile)
    data = filled_in(acme_rows, name="New")
    save(root, acme_rows, data, django_capture_on_commit_callbacks)
    acme_rows.workspace.refresh_from_db()
    assert (acme_rows.workspace.name, acme_rows.workspace.scores) == ("New", None)


def test_a_new_workspace_is_scored(
    member: Client, acme: Product, rescored: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    data = {
        "product": acme.pk,
        "name": "Power users",
        "lookback_days": 30,
        "alarm_level": 2,
        "default_weight": 0,
        "weights-TOTAL_FORMS": 1,
        "weights-INITIAL_FORMS": 0,
        "weights-0-event": "Login",
        "weights-0-weight": 3,
    }
    with django_capture_on_commit_callbacks(execute=True):
        answer = member.post(reverse("admin:engagement_workspace_add"), data)
    assert answer.status_code == 302
    workspace = Workspace.objects.get(name="Power users")
    assert weights(workspace) == {"Login": 3}
    assert rescored == [workspace.pk]


def test_a_new_workspace_knows_the_events_of_its_product(
    member: Client, root: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    DailyCount.objects.create(
        product=acme_rows.product,
        user=acme_rows.user,
        day=timezone.now().date(),
        event_name=acme_rows.event_name,
        count=3,
        last_at=timezone.now(),
    )
    address = reverse("admin:engagement_workspace_add")
    # Maya manages one product only, and a list that led here may name another.
    filters = {"_changelist_filters": f"product__id__exact={acme_rows.product.pk}"}
    for client, query in ((member, {}), (root, {"product": acme_rows.product.pk}), (root, filters)):
        html = client.get(address, query).content.decode()
        assert "No events yet" not in html and "globex event" not in html
        assert '<span>acme event</span><input type="hidden" name="weights-0-event"' in html
        assert f'<option value="{acme_rows.product.pk}" selected>Acme</option>' in html
    assert "acme event" not in root.get(address).content.decode()
    data = {
        **{
            "product": acme_rows.product.pk,
            "name": "Power users",
            "lookback_days": 30,
            "alarm_level": 2,
        },
        **{"default_weight": 0, "weights-TOTAL_FORMS": 2, "weights-INITIAL_FORMS": 0},
        **{"weights-0-listed": "True", "weights-0-event": "acme event", "weights-0-weight": 3},
    }
    assert member.post(address, data).status_code == 302
    assert weights(Workspace.objects.get(name="Power users")) == {"acme event": 3}


def test_saving_stays_on_the_page(
    member: Client, acme_rows: Rows, django_capture_on_commit_callbacks: Any
) -> None:
    data = filled_in(acme_rows, _save="Save", **{"weights-0-weight": 9})
    answer = save(member, acme_rows, data, django_capture_on_commit_callbacks)
    page = reverse("admin:engagement_workspace_change", args=[acme_rows.workspace.pk])
    assert (answer.status_code, answer["Location"]) == (302, page)


def test_names_to_choose_from_are_the_products_own(
    root: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    address = reverse("admin:engagement_workspace_change", args=[acme_rows.workspace.pk])
    html = root.get(address).content.decode()
    assert '<option value="acme event">' in html and "globex event" not in html


def test_a_workspace_goes_with_its_scores_and_without_listing_them(
    root: Client, acme_rows: Rows, django_assert_max_num_queries: Any
) -> None:
    address = reverse("admin:engagement_workspace_delete", args=[acme_rows.workspace.pk])
    with django_assert_max_num_queries(11):
        question = root.get(address).content.decode()
    assert "its 26 segments, 1 of them custom: acme segment" in question
    assert "Type the workspace's name to continue:" in question
    for typed in ({}, {"name": ""}, {"name": "default"}, {"name": "Acme · Default"}):
        answer = root.post(address, {"post": "yes", **typed}, follow=True)
        assert workspaces.NAME_MISMATCH_MESSAGE in unescape(answer.content.decode())
    assert Workspace.objects.exists() and Segment.objects.exists()
    assert root.post(address, {"post": "yes", "name": "Default"}).status_code == 302
    assert not UserEngagement.objects.exists() and not Workspace.objects.exists()


def test_no_list_action_deletes_workspaces_without_asking_for_a_name(
    root: Client, acme_rows: Rows
) -> None:
    listing = reverse("admin:engagement_workspace_changelist")
    assert 'name="action"' not in root.get(listing).content.decode()
    form = {"_selected_action": acme_rows.workspace.pk, "post": "yes"}
    root.post(listing, {"action": "delete_selected", **form})
    assert Workspace.objects.filter(pk=acme_rows.workspace.pk).exists()
