"""What the report about the demo's alarms counts: alarm rows beside the planted truth."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from engagement.models import Account, ActiveDay, Alarm, AlarmNight, Product, ScoreSet, Workspace
from harness.demo import alarm_report
from harness.demo.alarm_report import Outcome

TODAY = date(2026, 9, 23)
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace(acme: Product) -> Workspace:
    workspace = acme.workspaces.get()
    workspace.scores = ScoreSet.objects.create(
        product=acme,
        workspace=workspace,
        state=ScoreSet.State.CURRENT,
        lookback_days=7,
        default_weight=1,
        scored_day=TODAY,
    )
    workspace.save(update_fields=["scores"])
    AlarmNight.objects.create(
        workspace=workspace, day=TODAY, user_days=9, accounts=9, decided_at=LONG_AGO
    )
    return workspace


def an_account(
    workspace: Workspace, change: str, ago: int | None = None, users: int = 2
) -> Account:
    """An account that changed *ago* days ago, with *users* active users each day until then."""
    traits = {"demo.truth": change}
    if ago is not None:
        traits["demo.changedOn"] = (TODAY - timedelta(days=ago)).isoformat()
    account = Account.objects.create(
        product=workspace.product,
        external_id=f"{change} {Account.objects.count()}",
        traits=traits,
        is_identified=True,
        first_seen_at=LONG_AGO,
        last_seen_at=LONG_AGO,
    )
    ActiveDay.objects.bulk_create(
        ActiveDay(
            product=workspace.product,
            score_set=workspace.scores,
            account_id=account.pk,
            day=TODAY - timedelta(days=(ago or 0) + 1 + day),
            users=users,
            hour=9,
        )
        for day in range(60 if users else 0)
    )
    return account


def an_alarm(workspace: Workspace, account: Account, ago: int, **fields: Any) -> None:
    values = {"signal": "fall", "level": workspace.alarm_level, "window_days": 28}
    values |= {"observed": 1, "expected": 9.0, "dispersion": 1.5, "p": 0.001, **fields}
    since = TODAY - timedelta(days=ago)
    Alarm.objects.create(
        product=workspace.product,
        workspace_id=workspace.pk,
        account_id=account.pk,
        since=since,
        **values,
    )


def outcome(workspace: Workspace, change: str) -> Outcome:
    report = alarm_report.report([workspace])
    return next(each for each in report.outcomes if each.change == change)


@pytest.mark.parametrize(
    ("change", "signal"),
    [
        ("halved", "fall"),
        ("stopped", "fall"),
        ("doubled", "rise"),
        ("users left", "leaving"),
        ("feature dropped", "feature"),
    ],
)
def test_a_change_is_found_by_its_alarm_after_so_many_days(
    workspace: Workspace, change: str, signal: str
) -> None:
    account = an_account(workspace, change, ago=80)
    level = 0 if signal == "leaving" else workspace.alarm_level
    an_alarm(workspace, account, ago=40, signal=signal, level=level)
    an_alarm(workspace, account, ago=68, signal=signal, level=level)
    assert outcome(workspace, change) == Outcome(change, days=[12])


@pytest.mark.parametrize(
    "alarm",
    [
        {"ago": 90},
        {"ago": 68, "signal": "rise"},
        {"ago": 68, "level": 4},
        {"ago": 68, "outcome": "replaced"},
    ],
)
def test_other_alarms_find_nothing(workspace: Workspace, alarm: dict[str, Any]) -> None:
    """Those before the change, of another direction, that nobody sees, or that were replaced."""
    an_alarm(workspace, an_account(workspace, "halved", ago=80), **alarm)
    assert outcome(workspace, "halved") == Outcome("halved", missed=1)


def test_a_new_change_is_not_missed_yet_and_a_quiet_account_cannot_tell(
    workspace: Workspace,
) -> None:
    an_account(workspace, "halved", ago=20)
    an_account(workspace, "halved", ago=80, users=0)
    an_account(workspace, "halved", ago=80)
    counted = outcome(workspace, "halved")
    assert (counted.early, counted.cannot_tell, counted.missed, counted.accounts) == (1, 1, 1, 3)


def test_alarms_on_unchanged_accounts_are_false(workspace: Workspace) -> None:
    accounts = [an_account(workspace, "unchanged") for _ in range(5)]
    an_alarm(workspace, accounts[0], ago=30)
    an_alarm(workspace, accounts[0], ago=3)
    an_alarm(workspace, accounts[1], ago=200)
    an_alarm(workspace, accounts[2], ago=30, signal="rise")
    an_alarm(workspace, an_account(workspace, "joined"), ago=30)
    fall, rise = alarm_report.report([workspace]).false_alarms
    assert (fall.alarms, fall.account_quarters, fall.rate) == (2, 10, 0.2)
    assert (rise.alarms, rise.rate) == (1, 0.1)


def test_the_table_has_a_row_for_each_change(workspace: Workspace) -> None:
    an_alarm(workspace, an_account(workspace, "halved", ago=80), ago=68)
    lines = list(alarm_report.as_table(alarm_report.report([workspace])))
    assert "| halved | 1 | 1 | 12 | 0 | 0 | 0 |" in lines
    assert "| stopped | 0 | 0 | – | 0 | 0 | 0 |" in lines
    assert "| falling or stopped | 0 | 0.000 |" in lines


def test_there_is_no_report_before_the_first_night(workspace: Workspace) -> None:
    an_account(workspace, "halved", ago=80)
    AlarmNight.objects.all().delete()
    assert sum(each.accounts for each in alarm_report.report([workspace]).outcomes) == 0
