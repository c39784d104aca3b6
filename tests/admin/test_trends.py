"""Each workspace has a page of trends, of itself or a segment, beside what it compares with."""

import csv
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from engagement.models import Product, Segment, Workspace
from engagement.rescoring.rescore import rescore
from engagement.scores.active_days import DAY
from tests.admin.test_subject_lists import text_of
from tests.engagement.history import NOON, group, identify, tell
from trends.models import WHOLE, DayFigures, SegmentMove
from trends.reading import YEAR

pytestmark = pytest.mark.django_db

LAST = NOON.date() - DAY


def plant(workspace: Workspace, segment_id: int = WHOLE, days: int = 181, **figures: Any) -> None:
    """Figures that rise by one a day, and those of a year before."""
    days_ago = [*range(days), *(n + YEAR.days for n in range(days if days > 100 else 0))]
    DayFigures.objects.bulk_create(
        DayFigures(
            workspace=workspace,
            segment_id=segment_id,
            day=LAST - ago * DAY,
            score_set_id=1,
            **{
                "accounts": 900 - ago,
                "weekly_accounts": 800 - ago,
                "weekly_users": 1_000,
                "new_accounts": 1,
                "account_mean": 40.0,
                "account_median": 35.5,
                "account_bands": [100, 50, *[10] * 8],
                **figures,
            },
        )
        for ago in days_ago
    )


def page(workspace: Workspace) -> str:
    return reverse("admin:engagement_workspace_trends", args=[workspace.pk])


@pytest.fixture
def ours(acme: Product) -> Workspace:
    return acme.workspaces.get()


def test_before_the_first_night_it_says_when(reader: Client, ours: Workspace) -> None:
    assert "There are no figures yet." in text_of(reader.get(page(ours)))


def test_what_moved_most_comes_first_then_curves_and_numbers(
    reader: Client, ours: Workspace
) -> None:
    plant(ours)
    response = reader.get(page(ours))
    html = response.content.decode()
    text = text_of(response)
    assert "Weekly active accounts rose by 13% against the 90 days before: from 710 to 800." in text
    assert html.index('id="moved"') < html.index("Weekly active users") < html.index('id="numbers"')
    assert "Weekly active accounts 800 710 +90 (+13%) 436 +364 (+83%)" in text
    assert "Mean score of accounts 40.0 40.0 +0.0" in text
    assert "Accounts by score" in text and "New accounts 90 90 +0 (+0%)" in text


def test_a_period_without_another_before_it_says_so(reader: Client, ours: Workspace) -> None:
    plant(ours, days=9)
    text = text_of(reader.get(page(ours), {"days": 30}))
    first = LAST - 8 * DAY
    assert f"There is nothing to compare with yet: figures begin on {first:%-d %B %Y}." in text


def test_a_segment_has_its_own_and_stands_beside_another(reader: Client, ours: Workspace) -> None:
    plant(ours)
    pair = [*Segment.objects.filter(workspace=ours, scope="account")[:2]]
    for number, segment in enumerate(pair):
        plant(ours, segment.pk, weekly_accounts=70 + number, entered=2, left=1)
    query: Any = {"segment": pair[0].pk, "beside": f"s{pair[1].pk}"}
    text = text_of(reader.get(page(ours), query))
    assert f"{pair[0].name} beside {pair[1].name}" in text
    assert "Weekly active accounts 70 71" in text
    assert "Entered and left" in text and "Entered 180 180" in text


def test_a_workspace_stands_beside_another_of_the_reader(
    reader: Client, ours: Workspace, globex: Product
) -> None:
    plant(ours)
    other = Workspace.objects.create(product=ours.product, name="Power users")
    plant(other, weekly_accounts=5)
    text = text_of(reader.get(page(ours), {"beside": f"w{other.pk}"}))
    assert "Default beside Acme · Power users" in text
    theirs = globex.workspaces.get()
    assert f'value="w{theirs.pk}"' not in reader.get(page(ours)).content.decode()
    assert reader.get(page(ours), {"beside": f"w{theirs.pk}"}).status_code == 404


def test_what_no_link_asks_for_is_not_found(
    reader: Client, ours: Workspace, globex: Product
) -> None:
    plant(ours)
    theirs = Segment.objects.filter(workspace__product=globex).first()
    assert theirs is not None
    for query in ("days=31", "days=x", f"segment={theirs.pk}", f"beside=s{theirs.pk}", "beside=x"):
        assert reader.get(f"{page(ours)}?{query}").status_code == 404, query


def test_the_file_has_the_figures_of_each_day(reader: Client, ours: Workspace) -> None:
    plant(ours)
    query: Any = {"days": 30, "file": "csv"}
    response: Any = reader.get(page(ours), query)
    rows = list(csv.DictReader(b"".join(response).decode().splitlines()))
    assert [rows[0]["day"], rows[-1]["day"]] == [str(LAST - 29 * DAY), str(LAST)]
    assert rows[-1]["weekly_accounts"] == "800" and rows[-1]["seats"] == ""


def test_the_page_needs_few_queries(
    reader: Client, ours: Workspace, django_assert_max_num_queries: Any
) -> None:
    plant(ours)
    with django_assert_max_num_queries(30):
        reader.get(page(ours), {"days": 365})


def test_the_page_of_a_segment_has_its_history_and_who_moved(
    reader: Client, ours: Workspace
) -> None:
    segment = Segment.objects.filter(workspace=ours, scope="account", is_default=True).first()
    assert segment is not None
    url = reverse("admin:engagement_segment_change", args=[segment.pk])
    assert "The last 90 days" not in text_of(reader.get(url))
    plant(ours)
    plant(ours, segment.pk, days=9, entered=1, left=1)
    tell(ours.product, group("initech", name="Initech"))
    account = ours.product.account_set.get()
    for day, is_entry in ((LAST, True), (LAST - 9 * DAY, False)):
        SegmentMove.objects.create(
            product=ours.product,
            scope="account",
            subject_id=account.pk,
            segment_id=segment.pk,
            day=day,
            is_entry=is_entry,
        )
    text = text_of(reader.get(url))
    assert "Members: accounts" in text and "Mean score of accounts" in text
    assert f"Who moved this week Initech entered {LAST.day} {LAST:%b} And 13 more." in text


def test_the_overview_has_a_strip_that_leads_to_the_page(reader: Client, ours: Workspace) -> None:
    tell(ours.product, identify("ann", group="initech"))
    rescore(NOON)
    plant(ours)
    answer = reader.get(reverse("admin:index"), {"product": ours.product.pk})
    assert "Weekly active accounts 800 +30 (+4%) in 30 days" in text_of(answer)
    assert answer.content.decode().count(f'href="{page(ours)}"') == 4
