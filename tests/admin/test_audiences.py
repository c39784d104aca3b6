"""Editing the audience of a workspace in the admin."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from engagement.models import ScoreSet, Workspace
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from tests.admin.rows import NOON, Rows, a_user
from tests.admin.test_segments import filled_in

SEATED = {"what": "trait", "trait": "seats", "trait_is": "at_least", "text": "3"}
PAYING = {"what": "account_trait", "account_trait": "plan", "trait_is": "is", "text": "pro"}
STORED = {"kind": "trait", "trait": "seats", "operator": "at_least", "value": 3}


def page(rows: Rows, name: str = "change") -> str:
    return reverse(f"admin:engagement_workspace_{name}", args=[rows.workspace.pk])


def profile(*conditions: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The workspace's form as a browser submits it."""
    return filled_in(
        *conditions,
        name="Default",
        lookback_days=7,
        default_weight=1,
        alarm_level=2,
        **{"weights-TOTAL_FORMS": 0, "weights-INITIAL_FORMS": 0, **more},
    )


def audience(rows: Rows) -> dict[str, Any]:
    audience_rule: dict[str, Any] = Workspace.objects.get(pk=rows.workspace.pk).audience
    return audience_rule


@pytest.fixture
def rescored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The workspaces for which a rescore was requested."""
    workspace_ids: list[int] = []
    monkeypatch.setattr("engagement.rescoring.sets.request_score_set", workspace_ids.append)
    return workspace_ids


def test_a_changed_audience_scores_anew(
    member: Client, acme_rows: Rows, rescored: list[int]
) -> None:
    assert member.post(page(acme_rows), profile(SEATED, PAYING, match="any")).status_code == 302
    paying = {"kind": "account_trait", "trait": "plan", "operator": "is", "value": "pro"}
    assert audience(acme_rows) == {"match": "any", "conditions": [STORED, paying]}
    assert rescored == [acme_rows.workspace.pk]
    history = member.get(page(acme_rows, "history")).content.decode()
    assert "audience" in history


def test_one_that_stays_as_it_is_does_not(
    member: Client, acme_rows: Rows, rescored: list[int]
) -> None:
    Workspace.objects.update(audience={"match": "all", "conditions": [STORED]})
    assert 'value="seats"' in member.get(page(acme_rows)).content.decode()
    # A form without these rows has the same effect.
    for data in (profile(SEATED), {**profile(SEATED), "conditions-TOTAL_FORMS": None}):
        form = {name: value for name, value in data.items() if value is not None}
        assert member.post(page(acme_rows), form).status_code == 302
        assert audience(acme_rows) == {"match": "all", "conditions": [STORED]}
    assert rescored == []


def test_without_conditions_the_workspace_is_about_everybody(
    member: Client, acme_rows: Rows, rescored: list[int]
) -> None:
    Workspace.objects.update(audience={"match": "all", "conditions": [STORED]})
    assert member.post(page(acme_rows), profile({**SEATED, "what": ""})).status_code == 302
    assert audience(acme_rows) == {}
    assert rescored == [acme_rows.workspace.pk]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({**SEATED, "text": ""}, "Enter a number, such as 75 or 0.5."),
        ({"what": "created", "days": ""}, "An audience needs a number of days."),
        ({"what": "metric:raw_score", "number": "1"}, "Select a valid choice."),
        ({"what": "active"}, "Select a valid choice."),
        ({"what": "last_active", "days": "3"}, "Select a valid choice."),
    ],
    ids=str,
)
def test_a_bad_audience_has_an_error(
    member: Client, acme_rows: Rows, rescored: list[int], row: dict[str, Any], sentence: str
) -> None:
    answer = member.post(page(acme_rows), profile(row))
    assert answer.status_code == 200 and sentence in answer.content.decode()
    assert (audience(acme_rows), rescored) == ({}, [])


def test_looking_saves_nothing(member: Client, acme_rows: Rows, rescored: list[int]) -> None:
    a_user(acme_rows.product, "second-user", acme_rows.workspace, acme_rows.account)
    for button in ("_preview", "_add_condition"):
        html = member.post(page(acme_rows), profile(SEATED, **{button: "1"})).content.decode()
        assert "<strong>2 users</strong> match" in html and "second-user" in html
    assert (audience(acme_rows), rescored) == ({}, [])


def test_users_are_shown_while_one_writes(
    reader: Client, member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    html = member.post(page(acme_rows, "preview"), filled_in(SEATED)).content.decode()
    assert "<strong>1 user</strong>" in html and "acme-user" in html
    html = member.post(page(acme_rows, "preview"), filled_in(PAYING)).content.decode()
    assert "No users match." in html
    assert reader.post(page(acme_rows, "preview"), filled_in(SEATED)).status_code == 403
    assert member.post(page(globex_rows, "preview"), filled_in(SEATED)).status_code == 404
    assert reader.get(page(acme_rows, "preview")).status_code == 403
    assert member.get(page(acme_rows, "preview")).status_code == 405


def test_a_viewer_reads_the_audience_in_words(reader: Client, acme_rows: Rows) -> None:
    assert "All users" in reader.get(page(acme_rows)).content.decode()
    Workspace.objects.update(audience={"match": "all", "conditions": [STORED]})
    html = reader.get(page(acme_rows)).content.decode()
    assert "Trait “seats” is at least 3" in html and "conditions-TOTAL_FORMS" not in html


def test_progress_is_shown_until_the_new_scores_are_there(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    assert member.post(page(acme_rows), profile(SEATED)).status_code == 302
    html = member.get(page(acme_rows)).content.decode()
    assert f'data-progress-url="{page(acme_rows, "progress")}"' in html
    progress = member.get(page(acme_rows, "progress")).json()
    assert progress["is_over"] is False
    assert progress["text"].startswith("Recalculating") and progress["text"] in html
    rescore(NOON)
    assert member.get(page(acme_rows, "progress")).json() == {
        "text": "Up to date through 2 Mar 2026",
        "is_over": True,
    }
    assert "data-progress-url" not in member.get(page(acme_rows)).content.decode()
    new = Workspace.objects.get(pk=acme_rows.workspace.pk).scores
    assert new and new.audience["conditions"] == [STORED]
    assert ScoreSet.objects.filter(state="current", workspace=acme_rows.workspace).count() == 1
    assert member.get(page(globex_rows, "progress")).status_code == 404


def test_a_new_workspace_is_about_everybody_at_first(root: Client, acme_rows: Rows) -> None:
    html = root.get(reverse("admin:engagement_workspace_add")).content.decode()
    assert "conditions-TOTAL_FORMS" not in html
    workspace = Workspace.objects.create(product=acme_rows.product, name="New")
    sets.request_score_set(workspace.pk)
    assert workspace.audience == {}
