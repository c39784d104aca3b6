"""What people see of alarms: on the page of an account, of a workspace, and of a product."""

from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from engagement.models import (
    AccountEngagement,
    ActiveDay,
    Alarm,
    AlarmNight,
    RescoreRequest,
    ScoreSet,
    Workspace,
)
from tests.admin.rows import Rows, an_account
from tests.engagement.alarms.rows import alarm

PARAMETERS = {
    "movement": [[1.0] * 3] * 3,
    "weekly": [[1.0] * 16] * 3,
    "spread": [[1.0] * 6] * 3,
    "error": [[1.0] * 6] * 3,
    "accounts": [[100] * 6] * 3,
}
SIZE = {"accounts": 20, "stops": [5, 10, 15, 20], "halvings": [0, 1, 2, 4]}
SUMMARY = {"sizes": {"1": SIZE, "5-9": {**SIZE, "accounts": 40}, "10+": {**SIZE, "accounts": 0}}}


def nights(rows: Rows, number: int = 250) -> None:
    """Nights until yesterday, each of which decided about 40 accounts."""
    today = timezone.now().date()
    AlarmNight.objects.bulk_create(
        AlarmNight(
            workspace=rows.workspace,
            day=today - timedelta(days=ago),
            user_days=100,
            accounts=40,
            parameters=PARAMETERS,
            summary=SUMMARY,
            decided_at=timezone.now(),
        )
        for ago in range(1, number + 1)
    )
    ScoreSet.objects.update(scored_day=today)


def engagement(rows: Rows) -> AccountEngagement:
    return AccountEngagement.objects.get(account_id=rows.account.pk)


def an_alarm(row: AccountEngagement, ago: int, signal: str = "fall", **values: Any) -> Alarm:
    """An alarm that began *ago* days ago. With *lasted*, it ended so many days later."""
    since = timezone.now().date() - timedelta(days=ago)
    if (lasted := values.pop("lasted", None)) is not None:
        values = {"outcome": "recovered", **values, "ended_on": since + timedelta(days=lasted)}
    return alarm(row, signal, since=since, **values)


def page(client: Client, name: str, pk: int) -> str:
    html = client.get(reverse(f"admin:engagement_{name}_change", args=[pk])).content.decode()
    return unescape(html)


# --- Accounts -------------------------------------------------------------------------------


def active(rows: Rows, users: int, first: int, last: int) -> None:
    assert rows.workspace.scores is not None
    ActiveDay.objects.bulk_create(
        ActiveDay(
            product=rows.product,
            score_set=rows.workspace.scores,
            account_id=rows.account.pk,
            day=timezone.now().date() - timedelta(days=ago),
            users=users,
            hour=9,
        )
        for ago in range(last, first + 1)
    )


def test_the_page_of_an_account_has_its_activity_with_what_is_usual_and_marks(
    member: Client, acme_rows: Rows
) -> None:
    nights(acme_rows)
    active(acme_rows, users=3, first=300, last=15)
    row = engagement(acme_rows)
    an_alarm(row, 100, lasted=20)
    an_alarm(row, 10, weekly_rate=21.0)
    html = page(member, "account", acme_rows.account.pk)
    assert '<span class="eds-state eds-falling">falling</span>' in html
    assert "Active user-days in two weeks, over the last 26 weeks" in html
    chart = html.split('id="chart-active-user-days-in-two-weeks')[1:][-1].split("</figure>")[0]
    assert chart.count('class="eds-chart-mark"') == 2
    assert chart.count('class="eds-chart-mark eds-chart-end"') == 1
    since = timezone.now().date() - timedelta(days=10)
    assert f"Activity falling since {since.day} {since:%b}" in chart
    assert "Activity falling: back to usual on" in chart
    assert "eds-chart-band" in chart and "Usual range" in chart


def test_the_page_of_an_account_says_why_nobody_can_tell(member: Client, acme_rows: Rows) -> None:
    nights(acme_rows)
    active(acme_rows, users=3, first=40, last=1)
    AccountEngagement.objects.update(activity=AccountEngagement.Activity.TOO_NEW)
    html = page(member, "account", acme_rows.account.pk)
    assert '<span class="eds-state eds-unknown">cannot tell</span>' in html
    assert "Cannot tell yet: an account needs ten weeks of activity to compare with." in html
    # Nothing is usual yet.
    assert "Active user-days in four weeks" in html and "Usual range" not in html


def test_a_list_says_why_nobody_can_tell(member: Client, acme_rows: Rows) -> None:
    url = reverse("admin:engagement_account_changelist")
    for reason, text in (("TOO_NEW", "too new"), ("TOO_QUIET", "too little activity")):
        AccountEngagement.objects.update(activity=AccountEngagement.Activity[reason])
        html = member.get(f"{url}?workspace={acme_rows.workspace.pk}&activity=unknown").content
        assert f"Cannot tell <small>{text}</small>" in html.decode()


def test_an_account_has_no_chart_of_its_activity_before_the_first_night(
    member: Client, acme_rows: Rows
) -> None:
    html = page(member, "account", acme_rows.account.pk)
    assert "Cannot tell yet: alarms are decided after the end of each day (UTC)." in html
    assert "Active user-days in" not in html


def test_a_stop_and_a_new_level_are_said(member: Client, acme_rows: Rows) -> None:
    nights(acme_rows)
    row = engagement(acme_rows)
    new_level = an_alarm(row, 100, "rise", outcome="settled", lasted=91)
    assert "eds-settled_higher" in page(member, "account", acme_rows.account.pk)
    new_level.delete()
    an_alarm(row, 10, is_stopped=True)
    html = page(member, "account", acme_rows.account.pk)
    assert '<span class="eds-state eds-stopped">stopped</span>' in html
    assert "Activity stopped since" in html


def test_the_chart_has_the_alarms_of_the_level_that_people_see(
    member: Client, acme_rows: Rows
) -> None:
    nights(acme_rows)
    an_alarm(engagement(acme_rows), 30, lasted=5, level=4)
    assert "eds-chart-mark" not in page(member, "account", acme_rows.account.pk)
    Workspace.objects.update(alarm_level=4)
    assert "eds-chart-mark" in page(member, "account", acme_rows.account.pk)


# --- The setting ----------------------------------------------------------------------------


def history(rows: Rows) -> None:
    """Of level 2, three falls of which two came to nothing; of level 3 one more that did."""
    row = engagement(rows)
    others = [an_account(rows.product, f"other {n}", rows.workspace) for n in range(2)]
    more = [AccountEngagement.objects.get(account_id=other.pk) for other in others]
    an_alarm(row, 100, lasted=30)
    an_alarm(more[0], 100, lasted=84)
    an_alarm(more[1], 100, lasted=85)
    an_alarm(row, 150, lasted=30, level=3)
    # Too new, too old, replaced, or seen by nobody.
    an_alarm(row, 30, lasted=3)
    an_alarm(row, 245, lasted=3)
    an_alarm(row, 120, lasted=3, outcome="replaced")
    an_alarm(row, 120, lasted=3, level=0)


def test_the_page_of_a_workspace_says_what_each_choice_would_have_meant(
    member: Client, acme_rows: Rows
) -> None:
    nights(acme_rows)
    history(acme_rows)
    url = reverse("admin:engagement_workspace_change", args=[acme_rows.workspace.pk])
    response = member.get(url)
    alarms = response.context["alarms"]
    counts = [(row.falling.alarms, row.falling.came_to_nothing) for row in alarms["choices"]]
    assert counts == [(0, 0), (3, 2), (1, 1), (0, 0)]
    assert [row.is_chosen for row in alarms["choices"]] == [False, True, False, False]
    # 182 nights of 40 accounts are 80 account-quarters.
    last = timezone.now().date() - timedelta(days=62)
    until = f"{last.day} {last:%b %Y}"
    assert alarms["sentences"] == [
        f"In the half year until {until}, 2 of 3 alarms about falling activity came to nothing: "
        "0.025 per account and quarter; you allow 0.05.",
        f"In the half year until {until}, no alarm about rising activity began.",
    ]
    sizes = [(row.label, row.accounts, row.stops, row.halvings) for row in alarms["sizes"]]
    assert sizes == [
        ("1 user", 20, ["25%", "50%", "75%", "100%"], ["0%", "5%", "10%", "20%"]),
        ("5–9 users", 40, ["12%", "25%", "38%", "50%"], ["0%", "2%", "5%", "10%"]),
    ]
    html = unescape(response.content.decode())
    assert '<tr class="eds-choice-now"><th scope="row">1 per 20 accounts' in html


def test_before_the_first_night_there_is_only_the_choice(member: Client, acme_rows: Rows) -> None:
    html = page(member, "workspace", acme_rows.workspace.pk)
    assert "No alarm has been decided yet." in html and 'name="alarm_level"' in html
    assert "eds-choice-now" not in html


def test_a_new_choice_counts_at_once_and_scores_nothing(
    member: Client, acme_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[int] = []
    monkeypatch.setattr("engagement.rescoring.sets.request_score_set", requests.append)
    ScoreSet.objects.update(cached_counts_stale=False, watches_stale=False)
    save_level(member, acme_rows, 4)
    acme_rows.workspace.refresh_from_db()
    assert acme_rows.workspace.alarm_level == 4 and requests == []
    scores = ScoreSet.objects.get(workspace=acme_rows.workspace)
    assert scores.cached_counts_stale and scores.watches_stale


def test_readers_of_changes_hear_of_accounts_with_alarms_at_any_level(
    member: Client, acme_rows: Rows
) -> None:
    row = AccountEngagement.objects.get(score_set=acme_rows.workspace.scores_id)
    save_level(member, acme_rows, 4)
    assert not RescoreRequest.objects.exists()
    alarm(row, level=3, outcome="recovered")
    alarm(row, "leaving")
    save_level(member, acme_rows, 3)
    assert not RescoreRequest.objects.exists()
    alarm(row, "rise", level=3)
    save_level(member, acme_rows, 2)
    assert [item.account_id for item in RescoreRequest.objects.all()] == [row.account_id]


def save_level(client: Client, rows: Rows, level: int) -> None:
    url = reverse("admin:engagement_workspace_change", args=[rows.workspace.pk])
    form = client.get(url).context["adminform"].form
    data = {name: form[name].value() for name in ("name", "lookback_days", "default_weight")}
    (weight,) = rows.workspace.weights.all()
    data |= {
        "product": rows.product.pk,
        "alarm_level": level,
        "weights-TOTAL_FORMS": 1,
        "weights-INITIAL_FORMS": 1,
        "weights-0-id": weight.pk,
        "weights-0-workspace": rows.workspace.pk,
        "weights-0-event": rows.event_name.name,
        "weights-0-weight": weight.weight,
    }
    assert client.post(url, data).status_code == 302


def test_the_page_of_a_product_says_how_its_alarms_did(member: Client, acme_rows: Rows) -> None:
    assert "No alarm has been decided yet." in page(member, "product", acme_rows.product.pk)
    nights(acme_rows)
    history(acme_rows)
    html = page(member, "product", acme_rows.product.pk)
    assert "2 of 3 alarms about falling activity came to nothing" in html
    assert reverse("admin:engagement_workspace_change", args=[acme_rows.workspace.pk]) in html


@pytest.mark.parametrize("number", [1, 3])
def test_the_page_of_a_product_costs_few_queries_for_its_alarms(
    member: Client, acme_rows: Rows, number: int, django_assert_max_num_queries: Any
) -> None:
    nights(acme_rows)
    for n in range(1, number):
        Workspace.objects.create(product=acme_rows.product, name=f"Other {n}")
    with django_assert_max_num_queries(45 + 3 * number):
        page(member, "product", acme_rows.product.pk)
