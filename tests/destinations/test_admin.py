"""What connectors do with CRMs in the admin: from nothing to the first row."""

from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from access.models import TrailEntry
from destinations import runs
from destinations.models import RecordDestination, RecordLink, RecordRun
from engagement.models import Product, ProductMember, Segment
from engagement.models.limits import TraitName
from harness.crm.hubspot import FakeHubSpot
from tests.admin.conftest import logged_in
from tests.destinations.rows import (
    PLAN,
    SCORE,
    hubspot_destination,
    link_of,
    numbers,
    run_now,
    scored,
    set_traits,
    work,
)
from tests.notifications.rows import Clock

ADD = "admin:destinations_recorddestination_add"


@pytest.fixture
def connector(acme: Product) -> Client:
    """A viewer who may manage connections."""
    user = AdminUser.objects.create_user("ann", is_staff=True)
    ProductMember.objects.create(
        product=acme, user=user, role=ProductMember.Role.VIEWER, may_manage_connections=True
    )
    return logged_in(user)


def page_of(destination: RecordDestination, name: str = "change") -> str:
    return reverse(f"admin:destinations_recorddestination_{name}", args=[destination.pk])


def press(client: Client, destination: RecordDestination, name: str) -> str:
    return client.post(page_of(destination, name), follow=True).content.decode()


def rows(*mapping: tuple[str, str, str], **values: Any) -> dict[str, Any]:
    """The form with these rows."""
    filled = {
        "match_source": "domain",
        "match_field": "domain",
        "mode": "update",
        "id_field": "",
        "points": "1",
        "interval": "15",
        "quota_share": "20",
        "clears_forgotten": "on",
    }
    for number, (source, field, rule) in enumerate(mapping):
        filled |= {
            f"source_{number}": source,
            f"field_{number}": field,
            f"rule_{number}": rule,
        }
    return {**filled, **values}


def test_from_nothing_to_the_first_row_in_eight_fields(
    acme: Product, connector: Client, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35.4, "nobody": 20})
    initech = hubspot.add(domain="initech.example", eds_score="12")
    values = {"workspace": acme.workspaces.get().pk, "vendor": "hubspot", "scope": "account"}
    refused = connector.post(reverse(ADD), {**values, "key": "a-typo"}).content.decode()
    assert "HubSpot rejects the key." in refused and "a-typo" not in refused
    response = connector.post(reverse(ADD), {**values, "key": hubspot.key}, follow=True)
    assert "HubSpot accepts the key." in response.content.decode()
    destination = RecordDestination.objects.get()
    # The proposed match, and one row: eight fields in all.
    match = {"match_source": "domain", "match_field": "domain"}
    form = connector.get(page_of(destination)).context["adminform"].form
    assert {name: form[name].value() for name in match} == match
    empty = ("", "", "clear")
    saved = connector.post(
        page_of(destination), rows(("score", "eds_score", "clear"), empty, empty), follow=True
    ).content.decode()
    assert "Dry run: it begins in a moment." in saved
    work(clock)
    html = connector.get(page_of(destination)).content.decode()
    assert "Of 2 accounts, 1 would be updated" in html and "1 have no record" in html
    assert "<td>12</td><td>35</td>" in html and hubspot.written_rows == 0
    assert "Started." in press(connector, destination, "start")
    assert runs.request_due(clock.step(10_000_000)) == 1
    work(clock)
    assert hubspot.records[initech]["eds_score"] == "35"
    html = connector.get(page_of(destination)).content.decode()
    assert "<strong>Active.</strong> 1 linked." in html
    assert hubspot.key not in html
    trail = str(list(TrailEntry.objects.values()))
    assert "Started." in trail and hubspot.key not in trail


def test_a_key_is_not_sent_for_the_workspace_of_another_product(
    acme: Product, globex: Product, connector: Client, hubspot: FakeHubSpot
) -> None:
    values = {"workspace": globex.workspaces.get().pk, "vendor": "hubspot", "scope": "account"}
    html = connector.post(reverse(ADD), {**values, "key": hubspot.key}).content.decode()
    assert "Select a valid choice" in html and "Globex" not in html
    assert hubspot.calls == [] and not RecordDestination.objects.exists()


def test_a_mapping_is_checked_against_the_types_of_their_fields(
    acme: Product, connector: Client, hubspot: FakeHubSpot
) -> None:
    scored(acme, {"initech": 35.4})
    TraitName.objects.create(product=acme, name="plan")
    segment = Segment.objects.create(workspace=acme.workspaces.get(), scope="account", name="VIPs")
    destination = hubspot_destination(acme, hubspot, mapping=[], match=[])
    html = connector.get(page_of(destination)).content.decode()
    assert "Eds score (eds_score)" in html and "VIPs" in html
    # It cannot be written.
    assert "createdate" not in html

    def problem(*mapping: tuple[str, str, str], **values: Any) -> str:
        response = connector.post(page_of(destination), rows(*mapping, **values))
        assert response.status_code == 200, "It was saved."
        errors: dict[str, list[str]] = response.context["adminform"].form.errors
        return " ".join(text for texts in errors.values() for text in texts)

    clear = "clear"
    assert problem(("domain", "eds_score", clear)) == "Eds score cannot hold what Domain has."
    assert problem(("score", "eds_active", clear)) == "Eds active cannot hold what Score has."
    assert "Choose both" in problem(("score", "", clear))
    assert "at least one value" in problem(("", "", clear))
    twice = (("score", "eds_score", clear), ("active_users", "eds_score", clear))
    assert "Another row writes this field." in problem(*twice)
    hubspot.properties["eds_trend"]["options"].pop()
    press(connector, destination, "read_fields")
    assert "lacks the options falling" in problem(("trend", "eds_trend", clear))
    row = ("score", "eds_score", clear)
    assert "choose the unique field" in problem(row, mode="create")
    assert "by what records are found" in problem(row, match_field="")
    assert "less than or equal to 80" in problem(row, quota_share="90")
    every = (row, ("trait:plan", "plan", "leave"), (f"segment:{segment.pk}", "eds_at_risk", clear))
    connector.post(page_of(destination), rows(*every, mode="create", id_field="eds_id"))
    destination.refresh_from_db()
    assert [each["rule"] for each in destination.mapping] == ["clear", "leave", "clear"]
    assert (destination.mode, destination.id_field) == ("create", "eds_id")


def test_an_edit_looks_at_all_subjects_again(
    acme: Product, connector: Client, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35.4})
    TraitName.objects.create(product=acme, name="plan")
    set_traits(acme, "initech", plan="gold")
    initech = hubspot.add(domain="initech.example")
    destination = hubspot_destination(acme, hubspot)
    run_now(destination, clock)
    mapping = (("score", "eds_score", "clear"), ("trait:plan", "plan", "clear"))
    connector.post(page_of(destination), rows(*mapping))
    assert numbers(run_now(destination, clock)) == {"updated": 1}
    assert hubspot.records[initech]["plan"] == "gold" and hubspot.idle_writes == 0


def test_the_page_of_a_run_lists_what_was_rejected_and_sends_it_again(
    acme: Product, connector: Client, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35, "hooli": 40, "nobody": 50})
    for name in ("initech", "hooli"):
        hubspot.add(domain=f"{name}.example")
    set_traits(acme, "initech", plan="odd <b>")
    hubspot.rejected = {"odd <b>"}
    destination = hubspot_destination(acme, hubspot, mapping=[SCORE, PLAN])
    run = run_now(destination, clock)
    page = reverse("admin:destinations_recordrun_change", args=[run.pk])
    html = connector.get(page).content.decode()
    assert "odd &lt;b&gt;" in html and "breaks a rule of the account" in html
    retry = reverse("admin:destinations_recordrun_retry", args=[run.pk])
    assert f'action="{retry}"' in html and "Retry rejected rows" in html
    assert (
        "No record has nobody.example." in connector.get(page, {"rows": "skipped"}).content.decode()
    )
    hubspot.rejected = set()
    assert "sent again" in connector.post(retry, follow=True).content.decode()
    work(clock)
    assert numbers(RecordRun.objects.all()[0]) == {"updated": 1}
    html = connector.get(page).content.decode()
    assert "A later run has decided otherwise." in html


def test_links_come_from_a_file_as_a_whole_or_not_at_all(
    acme: Product, connector: Client, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35, "hooli": 40, "third": 50})
    initech, hooli, third = (hubspot.add(name=name) for name in ("A", "B", "C"))
    destination = hubspot_destination(acme, hubspot)

    def upload(content: str | bytes) -> str:
        content = content if isinstance(content, bytes) else content.encode()
        file = SimpleUploadedFile("links.csv", content)
        address = page_of(destination, "links")
        return connector.post(address, {"file": file}, follow=True).content.decode()

    refusals: dict[str | bytes, str] = {
        "initech,501,x": "Line 1: two values are needed, and there are 3.",
        "initech,5 1": "Line 1: 5 1 is no id of a record.",
        f"initech,{initech}\nnobody,502": "Line 2: there is no account nobody.",
        f"initech,{initech}\nhooli,{initech}": "Line 2: the record came before, in line 1.",
        f"initech,{initech}\ninitech,502": "Line 2: initech came before.",
        "tracking_id,id\n": "The file must have 1 to 100,000 lines.",
        b"\xff\xfe": "The file is not UTF-8.",
    }
    for content, problem in refusals.items():
        html = upload(content)
        assert "Nothing was stored." in html and problem in html
        assert not RecordLink.objects.exists()
    html = upload(f"tracking_id,id\ninitech,{initech}\nhooli,{hooli}\n")
    assert "2 links are stored." in html
    run_now(destination, clock)
    assert [record.get("eds_score") for record in hubspot.records.values()] == ["35", "40", None]
    assert "the record belongs to hooli" in upload(f"third,{hooli}")
    upload(f"hooli,{third}")
    run_now(destination, clock)
    assert link_of(destination, "hooli").remote_id == third
    assert hubspot.records[third]["eds_score"] == "40"


def test_a_new_key_is_checked_before_it_replaces_the_stored_one(
    acme: Product, connector: Client, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35})
    destination = hubspot_destination(acme, hubspot)
    hubspot.key = "next-key"
    row = ("score", "eds_score", "clear")
    html = connector.post(page_of(destination), rows(row, key="typo")).content.decode()
    assert "HubSpot rejects the key." in html and "typo" not in html
    run_now(destination, clock)
    html = connector.get(page_of(destination)).content.decode()
    assert "<strong>Paused.</strong>" in html and "Enter a new one." in html
    home = connector.get(reverse("admin:index")).content.decode()
    assert "is paused. HubSpot rejects the key." in home
    connector.post(page_of(destination), rows(row, key="next-key"))
    press(connector, destination, "start")
    assert run_now(destination, clock).state == RecordRun.State.DONE
    assert RecordDestination.objects.defer(None).get().key == "next-key"


def test_a_destination_is_deleted_with_its_runs_and_links(
    acme: Product, connector: Client, hubspot: FakeHubSpot, clock: Clock
) -> None:
    scored(acme, {"initech": 35})
    initech = hubspot.add(domain="initech.example")
    destination = hubspot_destination(acme, hubspot)
    run_now(destination, clock)
    connector.post(page_of(destination, "delete"), {"post": "yes"})
    assert not RecordDestination.objects.exists() and not RecordLink.objects.exists()
    assert hubspot.records[initech]["eds_score"] == "35"
