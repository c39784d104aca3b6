"""What readers see of alarms: the open ones of their level, and the state of each account."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.activity import reading
from engagement.activity.reading import NO_ALARMS, Activity, Signal
from engagement.insight_kinds import ACTIVITY_LABELS
from engagement.models import (
    AccountEngagement,
    ActiveDay,
    Alarm,
    Product,
    ScoreSet,
    Segment,
    Workspace,
)
from engagement.segments import members
from tests.cases import examples, leaves_no_rows
from tests.engagement.alarms.rows import LEVEL, SINCE, alarm, night
from tests.engagement.rows import TODAY, account

pytestmark = pytest.mark.django_db

LONG_AGO = TODAY - timedelta(weeks=26, days=1)


def activity(scores: ScoreSet, row: AccountEngagement) -> Activity:
    return reading.activities(scores, [row])[row.account_id]


def in_segments(scores: ScoreSet, row: AccountEngagement) -> list[str]:
    """The states whose segments have the account, as a list of members and as one account's."""
    own = [
        Segment(pk=number, scope="account", conditions=[{"kind": "activity", "state": state}])
        for number, state in enumerate(ACTIVITY_LABELS)
    ]
    states = list(ACTIVITY_LABELS)
    rows = AccountEngagement.objects.filter(product_id=row.product_id, account_id=row.account_id)
    members_of: list[str] = [
        states[each.pk]
        for each in own
        if rows.filter(members.members_filter(scores, members.segment_rule(each))).exists()
    ]
    by_subject = [states[each.pk] for each in members.segments_containing(scores, own, row)]
    assert by_subject == members_of
    return members_of


@pytest.mark.parametrize(
    ("decided", "alarms", "expected"),
    [
        (0, [], Activity("steady")),
        (1, [], Activity("unknown", "too_quiet")),
        (2, [], Activity("unknown", "too_new")),
        (None, [], Activity("unknown", "not_decided")),
        (0, [{"signal": "fall"}], Activity("falling", since=SINCE)),
        (1, [{"signal": "fall", "is_stopped": True}], Activity("stopped", since=SINCE)),
        (0, [{"signal": "rise"}], Activity("rising", since=SINCE)),
        (0, [{"signal": "rise"}, {"signal": "fall"}], Activity("falling", since=SINCE)),
        (0, [{"signal": "fall", "outcome": "settled"}], Activity("settled_lower", since=SINCE)),
        (1, [{"signal": "rise", "outcome": "settled"}], Activity("settled_higher", since=SINCE)),
        (
            0,
            [
                {"signal": "fall", "outcome": "settled", "since": SINCE - timedelta(days=9)},
                {"signal": "rise", "outcome": "settled"},
            ],
            Activity("settled_higher", since=SINCE),
        ),
        (
            0,
            [{"signal": "fall", "outcome": "settled"}, {"signal": "rise"}],
            Activity("rising", since=SINCE),
        ),
        (0, [{"signal": "fall", "outcome": "settled", "since": LONG_AGO}], Activity("steady")),
        (0, [{"signal": "fall", "outcome": "recovered"}], Activity("steady")),
        (0, [{"signal": "fall", "outcome": "replaced"}], Activity("steady")),
        (0, [{"signal": "fall", "level": LEVEL + 1}], Activity("steady")),
        (0, [{"signal": "fall", "level": 0}], Activity("steady")),
        (0, [{"signal": "feature"}, {"signal": "leaving"}], Activity("steady")),
    ],
)
def test_the_state_of_an_account(
    scores: ScoreSet, decided: int | None, alarms: list[dict[str, Any]], expected: Activity
) -> None:
    row = account(scores, "initech", activity=decided)
    other = account(scores, "hooli", activity=0)
    for values in alarms:
        alarm(row, **values)
    assert activity(scores, row) == expected
    assert in_segments(scores, row) == [expected.state]
    assert activity(scores, other) == Activity("steady")
    assert in_segments(scores, other) == ["steady"]


drawn_alarms = st.lists(
    st.fixed_dictionaries({
        "signal": st.sampled_from(list(Signal)),
        "level": st.sampled_from([0, LEVEL, LEVEL, LEVEL + 1]),
        "since": st.integers(0, 200).map(lambda days: TODAY - timedelta(days=days)),
        "outcome": st.sampled_from(["", "", "settled", "settled", "recovered", "replaced"]),
        "is_stopped": st.booleans(),
    }),
    max_size=5,
    unique_by=lambda values: (values["signal"], values["level"], values["since"]),
)  # fmt: skip


@examples(10)
@given(st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), drawn_alarms), min_size=3, max_size=6))
@leaves_no_rows
def test_the_filter_of_a_state_keeps_the_accounts_that_are_in_it(
    accounts: list[tuple[int | None, list[dict[str, Any]]]],
) -> None:
    acme = Product.create_with_workspace("Acme")
    scores = ScoreSet.objects.create(
        product=acme,
        workspace=acme.workspaces.get(),
        lookback_days=7,
        default_weight=1,
        scored_day=TODAY,
    )
    for number, (decided, alarms) in enumerate(accounts):
        row = account(scores, str(number), activity=decided)
        is_open = set[tuple[str, int]]()
        for values in alarms:
            key = values["signal"], values["level"]
            if values["outcome"] or key not in is_open:
                alarm(row, **values)
            if not values["outcome"]:
                is_open.add(key)
    rows = list(AccountEngagement.objects.filter(score_set=scores))
    states = reading.activities(scores, rows)
    for state in ACTIVITY_LABELS:
        matches = AccountEngagement.objects.filter(reading.activity_filter(scores, state))
        own = matches.filter(product_id=scores.product_id).values_list("account_id", flat=True)
        assert set(own) == {id for id, activity in states.items() if activity.state == state}
        listed = AccountEngagement.objects.filter(reading.listed_activity_filter(scores, state))
        assert set(own) == set(listed.values_list("account_id", flat=True))
    for row in rows:
        assert in_segments(scores, row) == [states[row.account_id].state]


def test_the_workspace_chooses_the_level_of_what_it_shows(scores: ScoreSet) -> None:
    row = account(scores, "initech", activity=0)
    alarm(row, level=Workspace.FalseAlarms.FOUR)
    assert activity(scores, row).state == "steady"
    Workspace.objects.update(alarm_level=Workspace.FalseAlarms.FOUR)
    assert activity(ScoreSet.objects.get(), row).state == "falling"


def test_alarms_about_users_have_no_level(scores: ScoreSet) -> None:
    row = account(scores, "initech")
    for signal in (Signal.LEAVING, Signal.KEY_USER, Signal.FEATURE):
        alarm(row, signal)
    for level in (Workspace.FalseAlarms.FOUR, LEVEL):
        Workspace.objects.update(alarm_level=level)
        (alarms,) = reading.alarms_by_account(ScoreSet.objects.get(), [row.account_id]).values()
        with_levels = {Signal.FEATURE} if level == LEVEL else set()
        assert set(alarms.open) == {Signal.LEAVING, Signal.KEY_USER, *with_levels}


def test_a_page_of_accounts_takes_one_query_for_their_alarms(
    scores: ScoreSet, django_assert_num_queries: Any
) -> None:
    rows = [account(scores, str(number), activity=0) for number in range(5)]
    for row in rows:
        alarm(row)
    assert scores.workspace
    with django_assert_num_queries(1):
        states = reading.activities(scores, rows)
    assert {each.state for each in states.values()} == {"falling"}
    with django_assert_num_queries(0):
        assert reading.activities(scores, []) == {}


def test_accounts_without_alarms_are_left_out(scores: ScoreSet) -> None:
    row = account(scores, "initech")
    assert reading.alarms_by_account(scores, [row.account_id]) == {}
    assert NO_ALARMS.activity(0) == Activity("steady")


def test_the_last_decided_day_is_that_of_the_last_night_that_decided(acme: Product) -> None:
    workspace = acme.workspaces.get()
    days = Workspace.objects.annotate(day=reading.last_decided_day()).values_list("day", flat=True)
    assert list(days.all()) == [None]
    night(workspace, TODAY - timedelta(days=2))
    night(workspace, TODAY - timedelta(days=1), decided_at=None)
    assert list(days.all()) == [TODAY - timedelta(days=2)]


def test_monthly_user_days_are_those_of_sixteen_complete_weeks(scores: ScoreSet) -> None:
    row = account(scores, "initech")
    for days, users in ((0, 100), (1, 3), (112, 5), (113, 100)):
        ActiveDay.objects.create(
            product_id=row.product_id,
            score_set=scores,
            account_id=row.account_id,
            day=TODAY - timedelta(days=days),
            users=users,
            hour=9,
        )
    assert reading.monthly_user_days(scores, row.account_id) == 2.0


def test_alarms_that_a_replay_found_are_old_news(scores: ScoreSet) -> None:
    last_day = TODAY - timedelta(days=1)
    rows = [account(scores, name) for name in ("old", "last night", "decided", "ended")]
    old, new, decided, ended = rows
    alarm(old, is_replayed=True)
    alarm(new, is_replayed=True, since=last_day)
    alarm(decided)
    alarm(ended, is_replayed=True, outcome=Alarm.Outcome.RECOVERED)
    ids = [row.account_id for row in rows]
    assert reading.told_to_nobody(scores, Signal.FALL, ids) == set()
    night(scores.workspace, last_day, is_replayed=True)
    assert reading.told_to_nobody(scores, Signal.FALL, ids) == {old.account_id}
    assert reading.told_to_nobody(scores, Signal.RISE, ids) == set()
    assert reading.last_replay(scores) == last_day
