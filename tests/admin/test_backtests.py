"""A page of each workspace says whether its score predicts."""

import csv
import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from console.workspaces.backtest_page import reliability_end
from engagement.models import Product, Segment, Workspace
from outcomes.backtests.results import ReliabilityPoint, Verdict
from outcomes.kinds import Kind
from outcomes.models import LicenseRevision
from outcomes.statistics.estimates import Estimate
from tests.outcomes.backtests import backtest, keep

COMPUTED_AT = datetime.now(UTC) - timedelta(hours=3)


def address(workspace: Workspace, **query: str | int) -> str:
    page = reverse("admin:engagement_workspace_backtest", args=[workspace.pk])
    return page + "?" + "&".join(f"{name}={value}" for name, value in query.items())


def page(reader: Client, workspace: Workspace, **query: str | int) -> str:
    response = reader.get(address(workspace, **query))
    assert response.status_code == 200
    return text_of(response.content.decode())


def text_of(html: str) -> str:
    main = html.split('id="content-main"')[1].split("</main>")[0]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", main)).split())


@pytest.fixture
def ours(acme: Product) -> Workspace:
    return acme.workspaces.get()


@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        (Verdict.TOO_FEW, "Too few outcomes: 12 of 30 needed."),
        (Verdict.NO_BETTER_THAN_CHANCE, "The score predicts renewals no better than chance."),
        (Verdict.NO_BETTER_THAN_RECENCY, "better than chance, but no better than the days since"),
        (Verdict.BETTER_THAN_BOTH, "The score predicts renewals: better than chance, and better"),
    ],
)
def test_the_verdict_comes_first(
    reader: Client, ours: Workspace, verdict: Verdict, sentence: str
) -> None:
    keep(ours, backtest(Kind.RENEWAL, verdict), COMPUTED_AT)
    html = reader.get(address(ours, kind="renewal")).content.decode()
    (heading,) = re.findall(r'<h2 id="verdict">(.*?)</h2>', html)
    assert sentence in heading
    assert html.index('id="verdict"') < html.index("<table")
    assert "nan" not in text_of(html).lower() and "None" not in text_of(html)


def test_each_figure_has_its_interval_and_its_count(reader: Client, ours: Workspace) -> None:
    keep(ours, backtest(Kind.RENEWAL), COMPUTED_AT)
    text = page(reader, ours, kind="renewal", horizon=60)
    assert "21 accounts scored under 25: 9 did not renew (23 to 63%)." in text
    assert "Score Outcomes Did not renew Rate 95% interval Under 25 21 9 43% 23 to 63%" in text
    assert "60 days 214 26 did not 0.77 0.71 to 0.83 0.62 0.56 to 0.68 0.52 0.40 to 0.64" in text
    assert "0.15 0.08 to 0.22" in text
    assert "Expected 10%, observed 12% (5 to 20%, 40 outcomes)." in text
    for remark in (
        "Sandboxes 14",
        "Already decided 60 days before 7",
        "Outcomes from 2025-03-01 to 2026-10-28.",
        "revision 12,345",
        "audience is left out",
        "3 hours ago",
    ):
        assert remark in text


@pytest.mark.parametrize(("high", "end"), [(0.1, 0.1), (0.11, 0.2), (0.35, 0.4), (0.7, 1.0)])
def test_the_axes_of_the_plot_end_above_all_intervals(high: float, end: float) -> None:
    point = ReliabilityPoint(0.05, Estimate(0.04, 0.01, high, 30))
    assert reliability_end([point]) == end
    assert reliability_end([]) == 1.0


def test_a_kind_and_a_horizon_are_chosen_by_links(reader: Client, ours: Workspace) -> None:
    LicenseRevision.objects.create(product=ours.product, revision=1)
    keep(ours, backtest(Kind.RENEWAL), COMPUTED_AT)
    keep(ours, backtest(Kind.DORMANCY, Verdict.NO_BETTER_THAN_CHANCE), COMPUTED_AT)
    html = reader.get(address(ours, kind="dormancy", horizon=90)).content.decode()
    assert "90 days before the day" in text_of(html)
    assert "predicts who stays active no better than chance." in text_of(html)
    links = [unescape(link) for link in re.findall(r'href="([^"]*backtest/\?[^"]*)"', html)]
    assert any("kind=renewal" in link for link in links)
    assert {re.findall(r"horizon=(\d+)", link)[0] for link in links if "horizon" in link} == {
        *("14", "30", "60", "90"),
    }
    for link in set(links):
        assert reader.get(link).status_code == 200


def test_accounts_of_a_segment_have_a_backtest_of_their_own(
    reader: Client, member: Client, ours: Workspace
) -> None:
    segment = Segment.objects.create(workspace=ours, scope="account", name="Mine", conditions=[])
    keep(ours, backtest(Kind.RENEWAL), COMPUTED_AT)
    text = page(reader, ours, kind="renewal", segment=segment.pk)
    assert "Nothing is computed for these outcomes yet." in text
    keep(ours, backtest(Kind.RENEWAL, Verdict.TOO_FEW, segment=segment.pk), COMPUTED_AT)
    assert "Too few outcomes: 12" in page(reader, ours, kind="renewal", segment=segment.pk)
    assert "better than both" not in page(reader, ours, kind="renewal", segment=segment.pk)
    assert "Too few" not in page(reader, ours, kind="renewal")


def test_a_product_without_outcomes_reads_what_is_needed(reader: Client, ours: Workspace) -> None:
    text = page(reader, ours)
    assert "Nothing is computed for these outcomes yet. Dormancy needs nothing but events" in text


def test_what_no_link_asks_for_is_not_found(
    reader: Client, ours: Workspace, globex: Product
) -> None:
    other = Segment.objects.create(
        workspace=globex.workspaces.get(), scope="account", name="Theirs", conditions=[]
    )
    for query in ({"kind": "luck"}, {"segment": other.pk}, {"segment": "x"}, {"file": "csv"}):
        assert reader.get(address(ours, **query)).status_code == 404, query


def test_the_file_has_every_horizon_and_band(reader: Client, ours: Workspace) -> None:
    keep(ours, backtest(Kind.RENEWAL), COMPUTED_AT)
    response = reader.get(address(ours, kind="renewal", file="csv"))
    assert response.headers["Content-Disposition"].endswith('renewal-backtest.csv"')
    rows = list(csv.DictReader(response.getvalue().decode().splitlines()))
    assert {row["Days before"] for row in rows} == {"14", "30", "60", "90", ""}
    of_60 = [row for row in rows if row["Days before"] == "60"]
    rates = [row for row in of_60 if row["Figure"] == "Rate"]
    assert [(row["From score"], row["Outcomes"], row["Bad"]) for row in rates] == [
        *(("0", "21", "9"), ("25", "34", "9"), ("50", "71", "6"), ("75", "88", "2")),
    ]
    (auc,) = [row for row in of_60 if row["Figure"] == "AUC: Score"]
    assert (auc["Value"], auc["Low"], auc["High"], auc["Outcomes"]) == (
        "0.77",
        "0.71",
        "0.83",
        "214",
    )
    assert {row["Figure"]: row["Outcomes"] for row in rows}["Left out: sandboxes"] == "14"


def test_a_manager_has_it_computed_and_a_viewer_does_not(
    reader: Client, member: Client, ours: Workspace
) -> None:
    compute = reverse("admin:engagement_workspace_compute_backtest", args=[ours.pk])
    assert compute not in reader.get(address(ours)).content.decode()
    assert reader.post(compute).status_code == 403
    assert compute in member.get(address(ours)).content.decode()
    response = member.post(compute)
    assert response.status_code == 302 and "backtest/" in response.headers["Location"]
    html = reader.get(address(ours)).content.decode()
    (url,) = re.findall(r'data-progress-url="([^"]*)"', html)
    progress = reader.get(unescape(url)).json()
    assert progress["text"] and not progress["is_over"]


def test_the_page_of_weights_leads_to_it(reader: Client, ours: Workspace) -> None:
    html = reader.get(reverse("admin:engagement_workspace_change", args=[ours.pk])).content.decode()
    assert html.count(reverse("admin:engagement_workspace_backtest", args=[ours.pk])) >= 2
