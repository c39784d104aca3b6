"""A page of each workspace says how likely evaluations are to be bought."""

import csv
import re
from html import unescape

import msgspec
import pytest
from django.test import Client
from django.urls import reverse

from access.pages.subject_urls import subject_url
from engagement.models import Account, AccountChance, Product, Workspace
from outcomes.chances.results import Evidence, Totals
from outcomes.kinds import Kind
from outcomes.models import ChanceLook, LicenseRevision
from tests.admin.test_backtests import text_of
from tests.outcomes.stored_chances import DAY, FACTS, TODAY, chance, look, make_radar, model


def address(workspace: Workspace, **query: str | int) -> str:
    page = reverse("admin:engagement_workspace_chances", args=[workspace.pk])
    return page + "?" + "&".join(f"{name}={value}" for name, value in query.items())


def html(reader: Client, workspace: Workspace, **query: str | int) -> str:
    response = reader.get(address(workspace, **query))
    assert response.status_code == 200
    return str(response.content.decode())


@pytest.fixture
def ours(acme: Product) -> Workspace:
    return acme.workspaces.get()


@pytest.fixture
def radar(ours: Workspace) -> Workspace:
    return make_radar(ours)


def test_the_sentence_and_the_proof_come_first(reader: Client, radar: Workspace) -> None:
    page = html(reader, radar)
    (heading,) = re.findall(r'<h2 id="summary">(.*?)</h2>', page)
    assert heading == "12 evaluations are under way; about 4 will buy (2 to 6)."
    text = text_of(page)
    for part in (
        "Without a chance: 3 answered already (cancelled, unsubscribed, or bought), 2 too young (a "
        "chance is told when day 3 is over), 1 without data of an account, or without past ones.",
        "For 1 of them, too few past ones were known on the same day",
        "240 past ones were predicted",
        "a gain of 0.068 (0.041 to 0.095). The chances tell more than the share does.",
        "Day 7 300 100 bought 0.142 0.210 0.068 (0.041 to 0.095) 240 predicted",
        "Day 21 30 7 bought – – too few",
        "Expected 20%, observed 22% (10 to 40%, 40 outcomes).",
        "3 hours ago",
    ):
        assert part in text, part
    assert "None" not in text and "nan" not in text


def test_the_most_expected_seats_come_first_with_what_moved_the_chance(
    reader: Client, radar: Workspace
) -> None:
    text = text_of(html(reader, radar))
    assert text.index("Initech") < text.index("Umbrella")
    assert "Initech day 9 of 30 50 40% 30 to 50% as of day 7, from 300 past ones" in text
    assert "2 active users; usual 5 lowers the chance by 12 points" in text
    assert "1 active user-day in 7 days; usual 9 hardly changes the chance" in text
    assert f"Hooli : bought, {TODAY - 40 * DAY:%-d %b %Y}" in text
    assert text.count("Nothing that counts differs from the usual.") == 1, "of Umbrella"


def test_similar_cases_have_links_and_forgotten_accounts_none(
    reader: Client, radar: Workspace
) -> None:
    page = html(reader, radar)
    (similar,) = re.findall(r"<details>(.*?)</details>", page, re.DOTALL)
    links = re.findall(r'href="(.*?)"', similar)
    assert len(links) == 1 and reader.get(unescape(links[0])).status_code == 200


def test_too_few_outcomes_are_said(reader: Client, ours: Workspace) -> None:
    LicenseRevision.objects.create(product=ours.product, revision=1)
    model(ours, outcomes=67, good=7, coefficients=None)
    chance(ours, "initech", 0.1, is_share=True, outcomes=67)
    look(ours, evaluation=Totals(12, 0, 4.2, 1.6, 6.4))
    text = text_of(html(reader, ours))
    assert (
        "12 evaluations are under way. Too few to tell which will buy: 7 of 20 purchases needed."
        in text
    )
    assert "too few to tell: the share of all, from 67 past ones" in text
    assert "about 4" not in text
    assert "Nothing can be judged yet" in text


def test_products_without_licenses_read_who_may_go_quiet(reader: Client, ours: Workspace) -> None:
    model(ours, Kind.DORMANCY, 30)
    for name, value in (("initech", 0.9), ("umbrella", 0.3)):
        evidence = msgspec.to_builtins(Evidence(FACTS))
        chance(ours, name, value, kind=Kind.DORMANCY, license="", seats=None, evidence=evidence)
    look(ours, dormancy=Totals(2, 2, 1.2, 0.4, 2.0))
    page = html(reader, ours)
    text = text_of(page)
    assert "<h1>Likely to go quiet</h1>" in re.sub(r"<h1[^>]*>", "<h1>", page)
    assert (
        "2 accounts are active; about 1 will have no active day in the next 30 days (0 to 2)."
        in text
    )
    assert text.index("Umbrella") < text.index("Initech")
    assert "Umbrella 70% 60 to 80% from 300 past ones 2 active users; usual 5 raises" in text
    assert "raises the risk by 12 points" in text and "Seats" not in text
    ChanceLook.objects.update(totals=msgspec.to_builtins({"dormancy": Totals(2, 0, 1.2, 0.4, 2)}))
    few = text_of(html(reader, ours))
    assert "Umbrella" not in few and "None: all have the share of all past ones." in few
    assert 'aria-current="page">Likely to go quiet<' in page


def test_a_workspace_without_a_look_says_so(reader: Client, ours: Workspace) -> None:
    assert "Nothing is computed yet" in text_of(html(reader, ours))
    ours.outcomes = {"off": ["dormancy"]}
    ours.save(update_fields=["outcomes"])
    assert "looks at no outcomes" in text_of(html(reader, ours))


def test_many_are_on_pages(
    reader: Client, radar: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.workspaces.chances_page.PAGE_SIZE", 1)
    first = html(reader, radar)
    assert "Initech" in first and "Umbrella" not in first
    (following,) = re.findall(r'href="([^"]*)" rel="next"', first)
    second = reader.get(unescape(following)).content.decode()
    assert "Umbrella" in second and "Initech" not in second and 'rel="next"' not in second
    (before,) = re.findall(r'href="([^"]*)" rel="prev"', second)
    assert "Initech" in reader.get(unescape(before)).content.decode()


def test_what_no_link_asks_for_is_not_found(
    reader: Client, radar: Workspace, globex: Product
) -> None:
    for query in (
        {"kind": "luck"},
        {"kind": "dormancy"},
        {"kind": "renewal"},
        {"page": 0},
        {"page": 201},
        {"age": 8},
    ):
        assert reader.get(address(radar, **query)).status_code == 404, query
    assert reader.get(address(globex.workspaces.get(), file="csv")).status_code == 404


def test_the_file_has_all_and_is_in_the_trail(reader: Client, radar: Workspace) -> None:
    response = reader.get(address(radar, file="csv"))
    assert response.headers["Content-Disposition"].endswith('evaluation-chances.csv"')
    rows = list(csv.DictReader(response.getvalue().decode().splitlines()))
    assert [(row["Account"], row["Chance"], row["Seats"]) for row in rows] == [
        ("initech", "0.4", "50"),
        ("umbrella", "0.8", "10"),
    ]
    assert rows[0]["Facts"].startswith("2 active users; usual 5 (lowers the chance by 12 points)")
    assert (rows[0]["Too few to tell"], rows[0]["Outcomes"]) == ("no", "300")


def test_progress_is_polled(reader: Client, radar: Workspace) -> None:
    body = reader.get(address(radar, progress=1)).json()
    assert body["is_over"] and body["text"].startswith("Computed.")


def test_the_page_of_an_account_has_its_chances(reader: Client, radar: Workspace) -> None:
    row = AccountChance.objects.get(license="of initech")
    url = subject_url(row.account, "account", radar.pk)
    text = text_of(reader.get(url).content.decode())
    assert "Likely to buy 40% (30 to 50%), from 300 past ones; day 9 of 30" in text
    assert "2 active users; usual 5 (lowers the chance by 12 points)" in text
    chance(radar, "few", 0.1, is_share=True, kind=Kind.RENEWAL, outcomes=67)
    row = AccountChance.objects.get(license="of few")
    text = text_of(reader.get(subject_url(row.account, "account", radar.pk)).content.decode())
    assert "Likely to renew too few to tell: 10% of 67 past ones did; by" in text
    past = Account.objects.get(external_id="hooli")
    assert "Likely to" not in reader.get(subject_url(past, "account", radar.pk)).content.decode()
