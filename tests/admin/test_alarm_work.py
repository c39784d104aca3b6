"""Alarms are taken, snoozed, and closed with a result, and a page says what became of them."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User as AdminUser
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from access.trail.entries import COMMAND_LINE
from access.work import accounts, alarms
from engagement.models import (
    AccountEngagement,
    Alarm,
    AlarmNight,
    AlarmWork,
    ProductMember,
    ScoreSet,
    Workspace,
)
from outcomes.statistics.rates import wilson
from tests.admin.rows import Rows, an_account
from tests.admin.test_account_work import latest_notes, page, work
from tests.engagement.alarms.rows import alarm

DAY = timedelta(days=1)
MAYA = COMMAND_LINE._replace(name="maya")


@pytest.fixture
def today() -> Any:
    return timezone.now().date()


@pytest.fixture
def scores(acme_rows: Rows, today: Any) -> ScoreSet:
    scores = acme_rows.workspace.scores
    assert scores is not None
    ScoreSet.objects.filter(pk=scores.pk).update(scored_day=today)
    scores.refresh_from_db()
    return scores


@pytest.fixture
def fall(acme_rows: Rows, scores: ScoreSet, today: Any) -> Alarm:
    row = AccountEngagement.objects.get(score_set=scores, account=acme_rows.account)
    return alarm(row, since=today - 20 * DAY)


def stored() -> AlarmWork:
    return AlarmWork.objects.get()


def listed(who: Client, rows: Rows, **query: str) -> list[tuple[str, str]]:
    address = reverse("admin:engagement_workspace_alarms", args=[rows.workspace.pk])
    answer = who.get(address, query)
    assert answer.status_code == 200
    return [(row.alarm, row.state) for row in answer.context["rows"]]


def test_an_alarm_is_taken_snoozed_closed_and_reopened(
    member: Client, acme_rows: Rows, fall: Alarm, today: Any
) -> None:
    assert listed(member, acme_rows) == [("Activity falling", "")]
    assert listed(member, acme_rows, whose="mine") == []
    assert "Taken by maya." in work(member, acme_rows, signal="fall", do="take")
    assert listed(member, acme_rows, whose="mine") == [("Activity falling", "taken by maya")]
    until = today + 7 * DAY
    html = work(member, acme_rows, signal="fall", do="snooze", until=str(until))
    assert f"Snoozed until {until.day} {until:%b %Y}." in html and "Wake" in html
    assert listed(member, acme_rows) == []
    assert len(listed(member, acme_rows, state="snoozed")) == 1
    # It wakes by itself.
    AlarmWork.objects.update(snoozed_until=today)
    assert len(listed(member, acme_rows)) == 1
    html = work(member, acme_rows, signal="fall", do="close", result="saved")
    assert "Closed by maya as “saved”." in html
    assert listed(member, acme_rows) == []
    assert listed(member, acme_rows, state="closed", whose="mine") == [
        ("Activity falling", "saved, maya")
    ]
    assert "Closed by" not in work(member, acme_rows, signal="fall", do="reopen")
    assert (stored().result, stored().closed_at, stored().taken_by) == ("", None, "maya")
    assert latest_notes() == [
        "Reopened the alarm “Activity falling” of",
        "Closed as “saved” the alarm “Activity falling” of",
        f"Snoozed until {until} the alarm “Activity falling” of",
        "Took the alarm “Activity falling” of",
    ]


@pytest.mark.parametrize(
    ("posted", "message"),
    [
        ({"do": "snooze"}, "Choose a day after today"),
        ({"do": "snooze", "until": "1999-01-01"}, "Choose a day after today"),
        ({"do": "snooze", "until": "2999-01-01"}, "within a year"),
        ({"do": "close", "result": ""}, "Choose what became of it"),
        ({"do": "close", "result": "made up"}, "Choose what became of it"),
        ({"signal": "rise", "do": "take"}, "This alarm has ended meanwhile"),
    ],
)
def test_what_is_refused_changes_nothing(
    member: Client, acme_rows: Rows, fall: Alarm, posted: dict[str, str], message: str
) -> None:
    assert message in work(member, acme_rows, **{"signal": "fall", **posted})
    assert not AlarmWork.objects.exists()


def test_what_was_done_stays_with_its_alarm(
    acme_rows: Rows, scores: ScoreSet, fall: Alarm, today: Any
) -> None:
    """A replay may move the day on which an alarm began. The next alarm begins anew."""
    alarms.close(scores, acme_rows.account, "fall", "saved", MAYA, timezone.now())
    for moved_to in (today - 25 * DAY, today - 15 * DAY):
        Alarm.objects.update(since=moved_to)
        (own,) = alarms.open_alarms(scores, acme_rows.account.pk)
        assert own.work.result == "saved"
    alarms.take(scores, acme_rows.account, "fall", MAYA, timezone.now())
    assert AlarmWork.objects.count() == 1
    later = timezone.now() + 30 * DAY
    Alarm.objects.update(since=later.date() - 5 * DAY)
    (own,) = alarms.open_alarms(scores, acme_rows.account.pk)
    assert own.work.result == ""
    alarms.take(scores, acme_rows.account, "fall", MAYA, later)
    assert AlarmWork.objects.count() == 2
    # Another workspace has alarms of its own.
    assert set(AlarmWork.objects.values_list("workspace_id", flat=True)) == {scores.workspace_id}


def test_the_alarms_of_an_owner_are_theirs(
    member: Client, acme_rows: Rows, scores: ScoreSet, fall: Alarm
) -> None:
    dana = AdminUser.objects.create_user("dana")
    ProductMember.objects.create(product=acme_rows.product, user=dana)
    accounts.choose_owner(acme_rows.product.pk, [acme_rows.account.pk], "maya", MAYA)
    assert len(listed(member, acme_rows, whose="mine")) == 1
    accounts.choose_owner(acme_rows.product.pk, [acme_rows.account.pk], "dana", MAYA)
    assert listed(member, acme_rows, whose="mine") == []


def test_the_report_counts_results_and_says_what_they_do_not_claim(
    member: Client, acme_rows: Rows, scores: ScoreSet, today: Any
) -> None:
    results = ["saved", "false alarm", "false alarm", "contacted", "lost"]
    for number, result in enumerate(results):
        own = an_account(acme_rows.product, f"a{number}", acme_rows.workspace)
        row = AccountEngagement.objects.get(score_set=scores, account=own)
        alarm(row, "rise" if result == "lost" else "fall", since=today - 20 * DAY)
        signal = "rise" if result == "lost" else "fall"
        alarms.close(scores, own, signal, result, MAYA, timezone.now())
    address = reverse("admin:engagement_workspace_alarms", args=[acme_rows.workspace.pk])
    answer = member.get(address)
    falls, rises, both = answer.context["became"]
    assert (falls.label, falls.closed) == ("Activity falling", 4)
    assert falls.results == "2 false alarm, 1 contacted, 1 saved"
    assert falls.false == wilson(2, 4) and falls.false.percent == "50%"
    assert (rises.label, rises.closed, rises.false.percent) == ("Activity rising", 1, "0%")
    assert (both.closed, both.false.percent) == (5, "40%")
    html = answer.content.decode()
    assert "closed 5 alarms in the last 365 days, in which 5 began" in html
    assert "people choose which they close" in html
    # What was closed long ago is not counted.
    AlarmWork.objects.update(closed_at=timezone.now() - 366 * DAY)
    assert member.get(address).context["became"] == []


def test_the_rate_of_false_ones_stands_beside_the_allowed_one(
    member: Client, acme_rows: Rows, scores: ScoreSet, today: Any
) -> None:
    """The wilson interval of 8 in 40 account-quarters is 10.5 to 34.8%; of 2 it is 1.4 to 16.5%."""
    workspace = acme_rows.workspace
    for days in range(1, 92):
        day = today - days * DAY
        AlarmNight.objects.create(workspace=workspace, day=day, user_days=0, accounts=40)
    for number in range(10):
        own = an_account(acme_rows.product, f"a{number}", workspace)
        row = AccountEngagement.objects.get(score_set=scores, account=own)
        signal = "rise" if number < 2 else "fall"
        alarm(row, signal, since=today - 20 * DAY)
        alarms.close(scores, own, signal, "false alarm", MAYA, timezone.now())
    address = reverse("admin:engagement_workspace_alarms", args=[workspace.pk])
    falling = (
        "About falling activity, people closed 8 as false: 0.20 (0.10 to 0.35) per account and "
        "quarter; you allow 0.05."
    )
    above = "That is more than you allow, even without those that nobody closed: allow fewer."
    rising = (
        "About rising activity, people closed 2 as false: 0.05 (0.01 to 0.17) per account and "
        "quarter; you allow 0.05."
    )
    answer = member.get(address)
    assert answer.context["rates"] == [f"{falling} {above}", rising]
    assert falling in answer.content.decode()
    # Who allows more is told of no excess.
    Workspace.objects.filter(pk=workspace.pk).update(alarm_level=4)
    (text, _) = member.get(address).context["rates"]
    assert text == falling.replace("allow 0.05", "allow 0.20")
    # What was not watched has no rate.
    AlarmNight.objects.all().delete()
    assert "per account" not in member.get(address).content.decode()


def test_the_page_of_another_product_is_closed(
    member: Client, acme_rows: Rows, globex_rows: Rows
) -> None:
    address = reverse("admin:engagement_workspace_alarms", args=[globex_rows.workspace.pk])
    assert member.get(address).status_code in (302, 404)
    for query in ({"whose": "x"}, {"state": "x"}, {"page": "0"}):
        own = reverse("admin:engagement_workspace_alarms", args=[acme_rows.workspace.pk])
        assert member.get(own, query).status_code == 404


def test_a_viewer_sees_and_does_nothing(reader: Client, acme_rows: Rows, fall: Alarm) -> None:
    html = reader.get(page(acme_rows)).content.decode()
    assert "Activity falling" in html and 'value="take"' not in html
    posted = {"signal": "fall", "do": "take"}
    assert reader.post(page(acme_rows, "work"), posted).status_code == 403
