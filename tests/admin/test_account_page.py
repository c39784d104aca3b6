"""An account's page: the license in a line, what changed, and the people behind the change."""

import re
from datetime import date, timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from console.subjects import subject_pages
from console.subjects.license_card import license_card
from engagement.models import Account, Product, Workspace
from engagement.rescoring.rescore import rescore
from engagement.scores import history, people
from engagement.trait_days import parse_trait_day
from tests.engagement.history import NOON, group, identify, tell, track

pytestmark = pytest.mark.django_db
DAY = 24


@pytest.fixture
def initech(acme: Product) -> Account:
    """Ann carries the account, Bob came in this week, and Cyd and Dan were active last week."""
    tell(
        acme,
        *(identify(name, -20 * DAY, "initech") for name in ("ann", "bob", "cyd", "dan", "eve")),
    )
    traits: dict[str, Any] = {"name": "Initech", "am.tier.number": 10}
    tell(acme, group("initech", -20 * DAY, **traits))
    tell(acme, *(track("ann", "opened", -DAY - minute / 60) for minute in range(9)))
    tell(acme, track("ann", "opened", -8 * DAY), track("bob", "shared", -2 * DAY))
    tell(acme, *(track("cyd", "exported", -9 * DAY - minute / 60) for minute in range(3)))
    tell(acme, track("dan", "opened", -10 * DAY))
    Workspace.objects.update(lookback_days=7)
    rescore(NOON)
    return Account.objects.get(external_id="initech")


def page(account: Account) -> str:
    return reverse("admin:engagement_account_change", args=[account.pk])


def test_the_page_shows_who_carries_the_account_who_came_and_who_went_quiet(
    root: Client, initech: Account
) -> None:
    response = root.get(page(initech))
    table = response.context["people"]
    assert [(tab.label, tab.count, tab.is_current) for tab in table.tabs] == [
        ("Active", 2, True),
        ("New", 1, False),
        ("Gone quiet", 2, False),
        ("All", 5, False),
    ]
    assert [(row.name, row.share) for row in table.rows] == [("ann", "90%"), ("bob", "10%")]
    assert table.rows[1].change == float(table.rows[1].score)
    sentence = "2 of the 3 people who were active in the 7 days before have gone quiet; 1 came."
    assert sentence in response.content.decode()
    groups = {"came": ["bob"], "quiet": ["cyd", "dan"], "all": ["ann", "bob", "eve", "dan", "cyd"]}
    for group_name, names in groups.items():
        response = root.get(page(initech), {"people": group_name})
        assert [row.name for row in response.context["people"].rows] == names, group_name
    # An unknown group is the one that the page opens with.
    assert root.get(page(initech), {"people": "x"}).context["people"].tabs[0].is_current


def test_events_show_their_points_and_how_complete_days_changed(
    root: Client, initech: Account
) -> None:
    html = root.get(page(initech)).content.decode()
    body = html.split('class="eds-breakdown"')[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in body.split("</tr>")[:-1]]
    # An event that nobody does any more is listed, too.
    assert rows == [
        ["opened", "1", "9", "9", "9", "2", "+7"],
        ["exported", "1", "0", "0", "0", "3", "\N{MINUS SIGN}3"],
        ["shared", "1", "1", "1", "1", "0", "+1"],
    ]


def test_today_changes_nothing_until_it_is_over(root: Client, initech: Account) -> None:
    def texts() -> tuple[str, list[str], str]:
        html = root.get(page(initech)).content.decode()
        change = html.split("/ 100</span>")[1].split("</p>")[0]
        differences = re.findall(r'data-label="(?:Before|Difference)">([^<]*)<', html)
        return change, differences, html.split('id="people-heading"')[1].split("<nav")[0]

    before = texts()
    assert "unchanged in the 7 days through yesterday" in before[0]
    tell(initech.product, *(track("ann", "opened", -2) for _ in range(50)))
    rescore(NOON)
    assert texts() == before
    # Somebody who is here today is not gone. One who comes on each first day of a week is not, too.
    tell(initech.product, track("cyd", "exported", -1))
    rescore(NOON)
    sentence = "1 of the 3 people who were active in the 7 days before have gone quiet"
    assert sentence.replace("have", "has") in root.get(page(initech)).content.decode()


def test_the_chart_has_a_second_line_for_active_users(root: Client, initech: Account) -> None:
    html = root.get(page(initech)).content.decode()
    assert "Score and active users over the last 90 days" in html
    assert re.search(r'<th scope="row">24 Sep</th><td>[\d.]+</td><td>2</td>', html)
    scores = Workspace.objects.get().scores
    assert scores is not None
    days = [NOON.date() - timedelta(days=ago) for ago in reversed(range(12))]
    # Dan's day ten days ago counts until the day six days later, Cyd's nine days ago likewise.
    assert people.active_users_by_day(scores, initech.pk, days) == [
        *(0, 1, 2, 3, 3, 3, 3, 3),
        *(2, 2, 2, 2),
    ]


def test_the_history_of_a_large_account_comes_later(
    root: Client, initech: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    html = root.get(page(initech)).content.decode()
    # Only the timeline does anyway.
    assert "takes a moment" not in html and html.count("data-part-url") == 1
    monkeypatch.setattr(subject_pages, "MANY_USERS", 4)
    read: list[str] = []
    for module, name in (
        (history, "score_history"),
        (history, "all_time_totals"),
        (people, "account_activity"),
    ):
        monkeypatch.setattr(module, name, _noting(getattr(module, name), read, name))
    brief = root.get(page(initech)).content.decode()
    assert "eds-chart-line" not in brief and "Scored events of all time" not in brief and read == []
    assert 'id="people"' not in brief and "Score breakdown" not in brief
    chart, activity = (
        root.get(unescape(part)).content.decode()
        for part in re.findall(r'data-part-url="(.*?)"', brief)
        if "latest" not in part
    )
    assert "eds-chart-line" in chart and "Scored events of all time" in chart
    assert fieldset(activity, "People") == fieldset(html, "People")
    # Without a script, the link shows all of it.
    linked = root.get(page(initech), {"history": "1"}).content.decode()
    assert "eds-chart-line" in linked and "Score breakdown" in linked


def fieldset(html: str, heading: str) -> str:
    """The part of the page under the heading."""
    return html.split(f">{heading}</h2>")[1].split("</fieldset>")[0].strip()


def _noting(function: object, read: list[str], name: str) -> object:
    def append_and_call(*arguments: object) -> object:
        read.append(name)
        return function(*arguments)  # type: ignore[operator]

    return append_and_call


def test_the_license_is_one_line_at_the_top(root: Client, initech: Account) -> None:
    today = NOON.date()
    traits = {
        "am.licenseType": "COMMERCIAL",
        "am.status": "active",
        "am.tier.number": 500,
        "am.appEdition": "Standard",
        "am.maintenanceEndDate": (today + timedelta(days=309)).isoformat(),
    }
    card = license_card(traits, 8, today, [], compares_seats=True)
    assert card and not card.is_bad
    end = today + timedelta(days=309)
    assert " · ".join(card.facts) == (
        f"Commercial · active · 500 users · Standard · renews {end.day} {end:%b %Y} (in 309 days)"
        " · 8 of 500 seats active"
    )
    ended = {**traits, "am.maintenanceEndDate": (today - timedelta(days=1)).isoformat()}
    assert "ended" in str(
        license_card({**ended, "am.status": "inactive"}, None, today, [], compares_seats=True)
    )
    evaluation = {"am.licenseType": "EVALUATION", "am.evaluationEndDate": today.isoformat()}
    card = license_card(evaluation, None, today, ["A note."], compares_seats=True)
    assert card and card.facts == ["Evaluation", f"ends {today.day} {today:%b %Y} (today)"]
    assert license_card({"plan": "pro", "am.status": 7}, 8, today, [], compares_seats=True) is None
    html = root.get(page(initech)).content.decode()
    assert html.index("2 of 10 users of the host product active") < html.index("Engagement in")
    assert "<h1>Initech</h1>" in html


def test_a_users_page_says_why_the_score_changed(root: Client, initech: Account) -> None:
    ann = initech.users.get(external_id="ann")
    html = root.get(reverse("admin:engagement_user_change", args=[ann.pk])).content.decode()
    assert "Mainly because of “opened” (1 → 9 points)." in html
    assert f'href="{page(initech)}?workspace=' in html.split("Engagement in")[0]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-10-01", date(2026, 10, 1)),
        ("2026-10-01T23:30:00-02:00", date(2026, 10, 2)),
        ("2026-W40-4", None),
        ("soon", None),
    ],
)
def test_a_license_ends_on_the_day_that_insights_and_filters_read(
    text: str, day: date | None
) -> None:
    card = license_card(
        {"am.status": "active", "am.maintenanceEndDate": text},
        None,
        day or NOON.date(),
        [],
        compares_seats=True,
    )
    assert card is not None and parse_trait_day(text) == day
    assert [fact for fact in card.facts if "today" in fact] == (
        [f"renews {day.day} {day:%b %Y} (today)"] if day else []
    )
