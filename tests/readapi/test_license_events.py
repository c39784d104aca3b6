"""GET /v2/license-events, and expand=license_events of an account."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from engagement.models import Product, Workspace
from marketplace.models import LicenseEvent
from readapi.models import ApiToken
from tests.cases import each
from tests.license_events import RECORDED_AT, add_event
from tests.readapi.conftest import Reads
from tests.readapi.rows import make_account

URL = "/v2/license-events"


def types(body: dict[str, Any]) -> list[str]:
    return [row["type"] for row in body["data"]]


@pytest.fixture
def life(acme: Product) -> None:
    add_event(acme, "evaluation_started", "2026-03-01")
    add_event(acme, "evaluation_bought", "2026-03-31", details={"seats": 25})
    add_event(acme, "churned", "2026-04-30", withdrawn_at=RECORDED_AT)
    add_event(acme, "renewed", "2026-04-30", details={"until": "2026-05-30", "gap_days": 12})
    add_event(acme, "purchased", "2026-03-31", license="E-2", cloud_id="site-b")


def test_a_record_has_every_key(acme_reads: Reads, acme: Product, workspace: Workspace) -> None:
    account = make_account(workspace, "site-a", traits={"name": "Brindle Tea"})
    add_event(acme, "seats_up", "2026-04-02", anchor="25-40", details={"from": 25, "to": 40})
    assert acme_reads(URL).json()["data"] == [
        {
            "id": "E-1/seats_up/25-40",
            "license": "E-1",
            "type": "seats_up",
            "date": "2026-04-02",
            "known_on": "2026-04-02",
            "text": "Seats added: 25 → 40.",
            "details": {"from": 25, "to": 40},
            "sources": ["sync"],
            "account": {"id": account.pk, "tracking_id": "site-a", "name": "Brindle Tea"},
            "recorded_at": "2026-03-01T00:00:00.000000Z",
            "changed_at": "2026-03-01T00:00:00.000000Z",
            "withdrawn_at": None,
        }
    ]


def test_the_latest_date_is_first_and_withdrawn_events_are_left_out(
    acme_reads: Reads, life: None
) -> None:
    body = acme_reads(URL).json()
    assert types(body)[0] == "renewed" and types(body)[-1] == "evaluation_started"
    assert set(types(body)[1:3]) == {"evaluation_bought", "purchased"}
    assert body["data"][0]["text"] == "Renewed: until 30 May 2026, after 12 unpaid days."
    assert body["data"][0]["account"] is None
    assert "churned" in types(acme_reads(URL, withdrawn="true").json())


@each(
    "parameters, expected",
    [
        ({"type": "purchased"}, ["purchased"]),
        ({"since": "2026-04-30"}, ["renewed"]),
        ({"until": "2026-03-31"}, ["evaluation_started"]),
        ({"since": "2026-03-02", "until": "2026-03-31"}, []),
    ],
)
def test_filters(
    acme_reads: Reads, life: None, parameters: dict[str, str], expected: list[str]
) -> None:
    assert types(acme_reads(URL, **parameters).json()) == expected


def test_events_of_one_account(
    acme_reads: Reads, globex_reads: Reads, life: None, workspace: Workspace
) -> None:
    account = make_account(workspace, "site-b")
    assert types(acme_reads(URL, account_id=account.pk).json()) == ["purchased"]
    assert acme_reads(URL, account_id=account.pk + 1).json()["data"] == []
    expanded = acme_reads(
        f"/v2/accounts/{account.pk}", workspace_id=workspace.pk, expand="license_events"
    ).json()
    assert types({"data": expanded["data"]["license_events"]}) == ["purchased"]
    # Another product has none of them.
    assert globex_reads(URL, withdrawn="true").json()["data"] == []


@each(
    "parameters",
    [
        {"type": "bought"},
        {"since": "2026-02-30"},
        {"until": "yesterday"},
        {"withdrawn": "yes"},
        {"account_id": "0"},
        {"changed_since": "2026-01-01"},
        {"changed_since": "start", "type": "churned"},
        {"cursor": "x"},
    ],
)
def test_what_it_refuses(acme_reads: Reads, parameters: dict[str, str]) -> None:
    response = acme_reads(URL, **parameters)
    assert response.status_code == 400
    assert response.json()["error"]["field"] in parameters


def test_a_token_of_users_may_not_read_them(acme_reads: Reads, life: None, acme: Product) -> None:
    ApiToken.objects.filter(product=acme).update(reads=ApiToken.Reads.USERS)
    assert acme_reads(URL).status_code == 403


def follow(reads: Reads, body: dict[str, Any]) -> list[dict[str, Any]]:
    bodies = [body]
    while following := bodies[-1]["_links"].get("next"):
        bodies.append(reads(following).json())
    return bodies


def test_pages_show_each_event_once_and_lead_back(acme_reads: Reads, acme: Product) -> None:
    for number in range(7):
        day = f"2026-04-0{1 + number // 3}"
        add_event(acme, "seats_up", day, license=f"E-{number}")
    for limit in (1, 2, 3, 7, 8):
        bodies = follow(acme_reads, acme_reads(URL, limit=limit).json())
        keys = [row["license"] for body in bodies for row in body["data"]]
        assert sorted(keys) == [f"E-{number}" for number in range(7)]
        for before, after in pairwise(bodies):
            assert acme_reads(after["_links"]["prev"]).json()["data"] == before["data"]


def test_a_mirror_gets_what_changed_and_nothing_twice(acme_reads: Reads, life: None) -> None:
    first = follow(acme_reads, acme_reads(URL, changed_since="start", limit=2).json())
    assert sum(len(body["data"]) for body in first) == 5
    assert "changes" not in first[0]["_links"]
    later = acme_reads(first[-1]["_links"]["changes"]).json()
    assert later["data"] == []

    LicenseEvent.objects.filter(type="renewed").update(
        withdrawn_at=RECORDED_AT, changed_at=RECORDED_AT + timedelta(days=1)
    )
    changed = acme_reads(later["_links"]["changes"]).json()
    assert types(changed) == ["renewed"] and changed["data"][0]["withdrawn_at"]
    assert acme_reads(changed["_links"]["changes"]).json()["data"] == []


def test_a_mirror_meets_events_again_that_are_still_being_written(
    acme_reads: Reads, acme: Product
) -> None:
    """A transaction may end after one that began later."""
    now = datetime.now(UTC)
    add_event(acme, "renewed", "2026-04-30", changed_at=now)
    [body] = follow(acme_reads, acme_reads(URL, changed_since="start").json())
    add_event(acme, "churned", "2026-04-30", changed_at=now - timedelta(minutes=1))
    changed = acme_reads(body["_links"]["changes"]).json()
    assert types(changed) == ["churned", "renewed"]
