"""A page of each workspace has the renewals ahead, and how good past forecasts were."""

import csv
import re
from datetime import UTC, date, datetime, timedelta
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from core.jobs import run
from engagement.models import AccountChance, Product, User, Workspace
from engagement.rescoring.rescore import rescore
from marketplace.models import LicenseEvent
from outcomes.forecasts import jobs
from outcomes.forecasts.results import month_after
from outcomes.kinds import Kind
from outcomes.models import StoredForecast
from outcomes.reading import QUEUE
from tests.admin.test_backtests import text_of
from tests.outcomes.forecasts import Planted, plant

pytestmark = pytest.mark.django_db(transaction=True)

TODAY = datetime.now(UTC).date()
MONTH = TODAY.replace(day=1)
NEXT = month_after(MONTH, 1)
LAST = month_after(MONTH, -1)


def work(day: date) -> None:
    now = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    jobs.request_due(now)
    run.run_due(QUEUE, lambda: now)


def address(workspace: Workspace, **query: str | int) -> str:
    page = reverse("admin:engagement_workspace_forecast", args=[workspace.pk])
    return page + "?" + "&".join(f"{name}={value}" for name, value in query.items())


def html_of(reader: Client, workspace: Workspace, **query: str | int) -> str:
    response = reader.get(address(workspace, **query))
    assert response.status_code == 200
    return response.content.decode()


@pytest.fixture
def ours(acme: Product) -> Workspace:
    """A forecast of last month, of which a half renewed, and one of today."""
    rescore(datetime.now(UTC))
    past = [Planted(f"past {number}", LAST + timedelta(days=9), 0.9) for number in range(10)]
    plant(acme, past, LAST)
    work(LAST)
    ended = [term.ended("churned" if int(term.license[5:]) % 2 else "renewed") for term in past]
    ahead = [
        Planted("large", NEXT + timedelta(days=4), 0.5, seats=900, cents=500_000),
        Planted("small", NEXT + timedelta(days=5), 0.5, seats=3, cents=900_000),
        *(Planted(f"safe {number}", NEXT, 0.98, seats=40, cents=100) for number in range(30)),
        Planted("monthly", NEXT, 0.9, seats=70, kind=Kind.MONTHLY_STAY),
    ]
    plant(acme, [*ended, *ahead], TODAY)
    AccountChance.objects.filter(license="large").update(
        evidence={
            "facts": [{"feature": "users", "value": 3, "usual": 21, "effect": -0.24}],
            "similar": [],
        }
    )
    work(TODAY)
    return acme.workspaces.get()


def test_a_sentence_comes_first_then_the_months_and_what_past_forecasts_were_worth(
    reader: Client, ours: Workspace
) -> None:
    html = html_of(reader, ours, measure="seats")
    (heading,) = re.findall(r'<h2 id="summary">(.*?)</h2>', html)
    assert heading.startswith("Of 2,103 seats of annual terms that are up for renewal until")
    assert "1,628 are expected to renew (" in heading and "32 terms)" in heading
    assert html.index('id="summary"') < html.index("<table")
    text = text_of(html)
    assert "0 of 1 past months were within their 80% interval (0 to 79%)." in text
    assert re.search(rf"{LAST:%B %Y} 100 90 [\d ]+to \d+ 50 missed", text)
    assert "nan" not in text.lower() and "None" not in text


def test_accounts_with_most_at_stake_come_first_with_their_evidence(
    reader: Client, ours: Workspace
) -> None:
    text = text_of(html_of(reader, ours, measure="seats"))
    assert text.index("site of large") < text.index("site of small") < text.index("site of safe 0")
    assert "3 active users; usual 21: lowers the chance by 24 points." in text
    revenue = text_of(html_of(reader, ours, measure="cents"))
    assert revenue.index("site of small") < revenue.index("site of large")
    assert "9,000" in revenue


def test_accounts_are_paged(reader: Client, ours: Workspace) -> None:
    first = html_of(reader, ours, measure="seats")
    (following,) = re.findall(r'<a href="([^"]*)" rel="next"', first)
    second = reader.get(unescape(following)).content.decode()
    listed = (html[: html.index('id="past"')] for html in (first, second))
    names = [re.findall(r">(site of [a-z0-9 ]+)</a>", html) for html in listed]
    assert (len(names[0]), len(names[1])) == (25, 7) and not set(names[0]) & set(names[1])


def test_a_missed_month_names_who_made_the_difference(reader: Client, ours: Workspace) -> None:
    LicenseEvent.objects.create(
        product=ours.product,
        license="past 3",
        type="cancelled",
        anchor="",
        date=LAST + timedelta(days=5),
        known_on=LAST + timedelta(days=5),
        recorded_at=datetime.now(UTC),
        changed_at=datetime.now(UTC),
        cloud_id="site of past 3",
        details={"reason": "cost"},
        sources=[],
    )
    html = html_of(reader, ours, measure="seats")
    before, text = text_of(html).split(f"{LAST:%B %Y}: who made the difference ")
    assert "past 3" not in before
    assert text.startswith("50 seats renewed, 40 fewer than expected (90; ")
    assert f"Made on {LAST:%-d %B %Y}, by model 7." in text
    names = re.findall(r"site of past (\d)", text)
    assert sorted(names) == list("13579"), "those that were expected to renew and did not"
    row = text[text.index("site of past 3") :]
    assert re.match(
        r"site of past 3 [\w ]+ 10 90% did not renew [\d-]+: Subscription cancelled", row
    )
    assert f"{TODAY:%-d %B %Y}, by model 7." in text
    past = html_of(reader, ours, measure="cents", past=f"{LAST:%Y-%m}")
    assert "0 US dollars renewed" in text_of(past)


def test_monthly_licenses_have_a_forecast_of_their_own(reader: Client, ours: Workspace) -> None:
    text = text_of(html_of(reader, ours, kind="monthly_stay", measure="seats"))
    assert "Renewals Monthly licenses Of 70 seats of monthly licenses" in text
    assert "A monthly license counts in each month" in text


def test_too_few_outcomes_are_said(reader: Client, ours: Workspace) -> None:
    AccountChance.objects.update(is_share=True)
    StoredForecast.objects.filter(stays=False).delete()
    work(TODAY)
    text = text_of(html_of(reader, ours))
    assert "Too few outcomes to tell accounts apart (200)" in text and "too few to tell" in text


def test_the_file_has_the_months_the_past_ones_and_the_terms(
    reader: Client, ours: Workspace
) -> None:
    response = reader.get(address(ours, measure="seats", file="csv"))
    rows = list(csv.DictReader(response.getvalue().decode().splitlines()))
    months = [row for row in rows if row["Figure"] == "Month"]
    assert [row["Month"] for row in months] == [
        f"{month_after(MONTH, number):%Y-%m}" for number in range(4)
    ]
    assert (months[1]["Due"], months[1]["Expected"]) == ("2103", "1627.5")
    (past,) = [row for row in rows if row["Figure"] == "Past month"]
    assert (past["Made on"], past["Happened"], past["Open"]) == (f"{LAST}", "50.0", "0")
    terms = [row for row in rows if row["Figure"] == "Term"]
    assert len(terms) == 32 and terms[0]["Account"] == "site of large"
    assert (terms[0]["Due"], terms[0]["Expected"]) == ("900", "450.0")


def test_without_a_forecast_the_page_says_what_it_needs(reader: Client, acme: Product) -> None:
    workspace = acme.workspaces.get()
    assert "There is no forecast yet." in text_of(html_of(reader, workspace))
    for query in ({"file": "csv"}, {"kind": "luck"}):
        assert reader.get(address(workspace, **query)).status_code == 404, query


def test_what_no_link_asks_for_is_not_found(reader: Client, ours: Workspace) -> None:
    for query in ({"month": "1999-01"}, {"past": "1999-01"}, {"past": "1999-Q1"}):
        assert reader.get(address(ours, **query)).status_code == 404
    html = html_of(reader, ours)
    links = [unescape(link) for link in re.findall(r'href="([^"]*forecast/\?[^"]*)"', html)]
    assert len(set(links)) >= 8
    for link in set(links):
        assert reader.get(link).status_code == 200, link


def test_the_overview_has_the_next_month(reader: Client, ours: Workspace) -> None:
    now = datetime.now(UTC)
    times = {"first_seen_at": now, "last_seen_at": now}
    User.objects.create(product=ours.product, external_id="ann", is_identified=True, **times)
    html = reader.get(reverse("admin:index")).content.decode()
    text = " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())
    assert re.search(
        rf"Renewals in {NEXT:%B} 7,029 of 14,030 revenue; [\d,.]+ to [\d,.]+ in 80% of cases",
        text,
    )
    assert f"{address(ours)}kind=renewal" in html
