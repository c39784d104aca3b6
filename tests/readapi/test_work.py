"""Owners, tags, and notes in the read API and for assistants."""

from datetime import date, timedelta
from typing import Any

import pytest
from django.test import Client

from access.trail.entries import COMMAND_LINE
from access.work import accounts
from engagement.models import Account, AccountWork, AlarmWork, Product, Workspace
from readapi.models import ApiToken
from tests.engagement.history import NOON
from tests.readapi.conftest import Reads
from tests.readapi.rows import make_account
from tests.readapi.test_mcp import Tool, tool

__all__ = ["tool"]


@pytest.fixture
def initech(workspace: Workspace, acme: Product) -> Account:
    for number, name in enumerate(("initech", "hooli", "umbrella")):
        make_account(workspace, name, raw=100 - number)
    rows = {row.external_id: row for row in Account.objects.filter(product=acme)}
    for name, owner, tags in (("initech", "dana", ["vip", "new"]), ("hooli", "", ["vip"])):
        AccountWork.objects.create(
            product=acme, account_id=rows[name].pk, owner=owner, tags=tags, is_by_hand=True
        )
    return rows["initech"]


def test_accounts_have_their_owner_and_tags(
    acme_reads: Reads, workspace: Workspace, initech: Account
) -> None:
    records = acme_reads("/v2/accounts", workspace_id=workspace.pk).json()["data"]
    assert [(each["owner"], each["tags"]) for each in records] == [
        *(("dana", ["new", "vip"]), (None, ["vip"]), (None, [])),
    ]
    record = acme_reads(f"/v2/accounts/{initech.pk}", workspace_id=workspace.pk).json()["data"]
    assert (record["owner"], record["tags"]) == ("dana", ["new", "vip"])


def test_accounts_are_filtered_by_owner_and_tag(
    acme_reads: Reads, workspace: Workspace, initech: Account, tool: Tool
) -> None:
    for parameters, names in (
        ({"owner": "dana"}, ["initech"]),
        ({"owner": ":nobody"}, ["hooli", "umbrella"]),
        ({"tag": "vip"}, ["initech", "hooli"]),
        ({"tag": "vip", "owner": "dana", "sort": "owner"}, ["initech"]),
        ({"tag": "VIP"}, []),
    ):
        query: dict[str, Any] = {"workspace_id": workspace.pk, **parameters}
        records = acme_reads("/v2/accounts", **query).json()["data"]
        assert [each["tracking_id"] for each in records] == names, parameters
        records = tool("find_accounts", **query)["data"]
        assert [each["tracking_id"] for each in records] == names, parameters
    for name in ("owner", "tag"):
        for value in ("", "x" * 151):
            answer = acme_reads("/v2/accounts", workspace_id=workspace.pk, **{name: value})
            error = answer.json()["error"]
            assert (answer.status_code, error["field"]) == (400, name)


def test_a_change_of_the_owner_is_a_change_of_the_account(
    acme_reads: Reads, workspace: Workspace, initech: Account
) -> None:
    query: dict[str, Any] = {"workspace_id": workspace.pk, "changed_since": "start"}
    address = acme_reads("/v2/accounts", **query).json()["_links"]["changes"]
    accounts.choose_owner(initech.product_id, [initech.pk], "", COMMAND_LINE)
    accounts.add_tag(initech.product_id, [initech.pk], "vip", COMMAND_LINE)
    (record,) = acme_reads(address).json()["data"]
    assert (record["id"], record["owner"]) == (initech.pk, None)


def test_notes_are_expanded_for_tokens_that_read_traits_of_users(
    acme_reads: Reads, workspace: Workspace, initech: Account
) -> None:
    dana = COMMAND_LINE._replace(name="dana")
    for text in ("First.", "Second."):
        accounts.write_note(initech, text, dana, NOON)
    address, query = f"/v2/accounts/{initech.pk}", {"workspace_id": workspace.pk}
    notes = acme_reads(address, **query, expand="notes").json()["data"]["notes"]
    assert [(each["author"], each["text"]) for each in notes] == [
        ("dana", "Second."),
        ("dana", "First."),
    ]
    assert notes[0]["written_at"] == "2026-09-24T12:00:00.000000Z"
    ApiToken.objects.update(hides_user_traits=True)
    assert acme_reads(address, **query).status_code == 200
    assert acme_reads(address, **query, expand="notes").status_code == 403


def test_the_results_of_alarms_are_expanded_in_lists_and_of_one_account(
    acme_reads: Reads,
    globex_reads: Reads,
    acme_token: str,
    workspace: Workspace,
    initech: Account,
) -> None:
    def close(signal: str, day: int, result: str, **values: Any) -> None:
        AlarmWork.objects.create(
            product=initech.product,
            workspace=workspace,
            account=initech,
            signal=signal,
            since=date(2026, 9, day),
            seen_on=date(2026, 9, day),
            result=result,
            closed_by="dana",
            **values,
        )

    close("fall", 1, "saved", closed_at=NOON)
    close("leaving", 2, "merged with another one", closed_at=NOON + timedelta(days=1))
    # It is open.
    close("rise", 3, "")
    saved = {
        **{"kind": "trend_down", "since": "2026-09-01", "result": "saved", "means": "good"},
        "closed_at": "2026-09-24T12:00:00.000000Z",
    }
    query: dict[str, Any] = {"workspace_id": workspace.pk, "expand": "closed_alarms"}
    address = f"/v2/accounts/{initech.pk}"
    latest, first = acme_reads(address, **query).json()["data"]["closed_alarms"]
    assert first == saved
    assert (latest["kind"], latest["means"]) == ("users_leaving", "nothing")
    records = acme_reads("/v2/accounts", **query).json()["data"]
    assert [each["closed_alarms"] for each in records] == [[latest, first], [], []]
    assert globex_reads(address, **query).status_code == 404
    # A token that reads cannot close one.
    writer = Client(headers={"authorization": f"Bearer {acme_token}"})
    assert writer.post(address, {"result": "lost"}).status_code == 405
