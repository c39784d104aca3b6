"""Two people who edit a workspace at the same time: nothing is lost silently."""

import html
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from engagement.models import EventName, EventWeight, Workspace
from tests.admin.rows import Rows
from tests.admin.test_workspaces import weights


@pytest.fixture
def workspace(acme_rows: Rows) -> Workspace:
    """Two events have weights: "acme event" 5 and "opened" 2."""
    opened = EventName.objects.create(product=acme_rows.product, name="opened")
    EventWeight.objects.create(workspace=acme_rows.workspace, event_name=opened, weight=2)
    return acme_rows.workspace


def opened(who: Client, workspace: Workspace) -> dict[str, str]:
    """The form as a browser would submit the current page."""
    answer = who.get(reverse("admin:engagement_workspace_change", args=[workspace.pk]))
    return sent_by(answer.content.decode())


def sent_by(page: str) -> dict[str, str]:
    form = page.split('id="workspace_form"')[1]
    fields = {}
    for field in re.findall(r"<input[^>]*>", form):
        name, value = re.search(r' name="([^"]*)"', field), re.search(r' value="([^"]*)"', field)
        is_pressed = 'type="submit"' in field or 'type="checkbox"' in field
        if name and not is_pressed and "__prefix__" not in name[1]:
            fields[name[1]] = html.unescape(value[1]) if value else ""
    for name, choices in re.findall(r'<select name="([^"]+)".*?>(.*?)</select>', form, re.DOTALL):
        selection = re.findall(r'value="([^"]*)" selected', choices)
        if "__prefix__" not in name:
            fields[name] = selection[0] if selection else ""
    return fields


def row_of(form: dict[str, str], event: str) -> str:
    (name_of_row,) = [
        name for name, value in form.items() if name.endswith("-event") and value == event
    ]
    return name_of_row.removesuffix("-event")


def save(who: Client, workspace: Workspace, form: dict[str, str], **changes: Any) -> str:
    """The page's errors, or "" if it was saved."""
    address = reverse("admin:engagement_workspace_change", args=[workspace.pk])
    answer = who.post(address, {**form, **changes})
    return "" if answer.status_code == 302 else html.unescape(answer.content.decode())


def test_what_one_did_not_touch_stays_as_the_other_made_it(
    root: Client, member: Client, workspace: Workspace
) -> None:
    first, second = opened(root, workspace), opened(member, workspace)
    mine, theirs = row_of(first, "acme event"), row_of(first, "opened")
    changed = {f"{mine}-weight": "7", "default_weight": "3"}
    assert save(root, workspace, first, **changed) == ""
    assert save(member, workspace, second, **{f"{theirs}-weight": "9"}) == ""
    assert weights(workspace) == {"acme event": 7, "opened": 9}
    workspace.refresh_from_db()
    assert workspace.default_weight == 3


def test_a_conflicting_change_is_an_error_once_and_then_saved(
    root: Client, member: Client, workspace: Workspace
) -> None:
    first, second = opened(root, workspace), opened(member, workspace)
    row = row_of(first, "opened")
    assert save(root, workspace, first, **{f"{row}-weight": "7", "default_weight": "3"}) == ""
    mine = {f"{row}-weight": "9", "default_weight": "4"}
    page = save(member, workspace, second, **mine)
    assert "Someone else changed this to 7 after you opened this page." in page
    assert "Save again to set it to 9, or enter 7 to keep their value." in page
    assert "Someone else changed this to 3" in page
    assert weights(workspace)["opened"] == 7
    again = sent_by(page)
    assert again[f"{row}-weight"] == "9"
    assert save(member, workspace, again) == ""
    assert weights(workspace)["opened"] == 9
    workspace.refresh_from_db()
    assert workspace.default_weight == 4


def test_a_weight_that_someone_removed_is_named_with_advice(
    root: Client, member: Client, workspace: Workspace
) -> None:
    first, second = opened(root, workspace), opened(member, workspace)
    row = row_of(first, "opened")
    assert save(root, workspace, first, **{f"{row}-DELETE": "on"}) == ""
    page = save(member, workspace, second, **{f"{row}-weight": "9"})
    assert "Someone else removed the weight of “opened” after you opened this page." in page
    assert "Reload the page" in page
    assert "This field is required" not in page and "Select a valid choice" not in page
    assert weights(workspace) == {"acme event": 5}


def test_a_weight_that_someone_added_is_not_added_twice(
    root: Client, member: Client, workspace: Workspace
) -> None:
    first, second = opened(root, workspace), opened(member, workspace)
    new = {"weights-2-event": "shared", "weights-2-weight": "4"}
    assert save(root, workspace, first, **new) == ""
    page = save(member, workspace, second, **{**new, "weights-2-weight": "8"})
    assert "Someone else gave “shared” the weight 4 after you opened this page." in page
    assert weights(workspace)["shared"] == 4
