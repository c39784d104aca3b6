"""Engagement rows, history, and breakdowns agree with the events, day after day."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engagement.models import (
    AccountEngagement,
    EventName,
    EventWeight,
    Product,
    ScoreSet,
    UserEngagement,
    Workspace,
)
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from engagement.scopes import ACCOUNTS as OF_ACCOUNTS
from engagement.scopes import USERS as OF_USERS
from engagement.scores import history
from engagement.scores.benchmarks import HISTORY_DAYS
from engagement.scores.formula import shown_points
from engagement.scores.histories import score_histories
from engagement.scores.metrics import points_in_window
from tests.cases import examples, leaves_no_rows
from tests.engagement import plain
from tests.engagement.history import NOON, identify, tell, track
from tests.engagement.plain import Definition, Did

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_nights")]

USERS = ("ann", "bob", "cyd")
ACCOUNTS = ("initech", "hooli")
# Where each user works, from before the first event on.
EMPLOYERS = {"ann": "initech", "bob": "initech", "cyd": "hooli"}
NAMES = ("opened", "shared", "paid")
TODAY = NOON.date()

days_ago = st.one_of(
    # The ends of all windows, of all lookbacks, on the first day and on those after it.
    st.sampled_from([0, 1, 2, 5, 6, 7, 8, 12, 13, 14, 15, 28, 29, 30, 31, 59, 60, 61, 88, 89, 90]),
    st.integers(0, 125),
)
activities = st.builds(
    lambda user, name, ago: Did(user, name, NOON - timedelta(days=ago), EMPLOYERS[user]),
    st.sampled_from(USERS),
    st.sampled_from(NAMES),
    days_ago,
)
definitions = plain.definitions(NAMES)


def define(product: Product, definition: Definition) -> None:
    """Have the product's workspace score by the definition."""
    workspace = Workspace.objects.get(product=product)
    workspace.lookback_days = definition.lookback
    workspace.half_life_days = definition.half_life
    workspace.default_weight = definition.default_weight
    workspace.save()
    for name, weight in (definition.weights or {}).items():
        event_name, _ = EventName.objects.get_or_create(product=product, name=name)
        EventWeight.objects.create(workspace=workspace, event_name=event_name, weight=weight)
    sets.request_score_set(workspace.pk)


def introduce(product: Product) -> None:
    long_ago = -24 * 200
    tell(product, *(identify(user, long_ago, group=EMPLOYERS[user]) for user in USERS))


def happen(product: Product, events: list[Did]) -> None:
    tell(
        product,
        *(track(did.user, did.event, (did.at - NOON).total_seconds() / 3600) for did in events),
    )


def scores_of(product: Product) -> ScoreSet:
    scores = Workspace.objects.get(product=product).scores
    assert scores is not None
    return scores


def rows(model: Any, product: Product, subject: str, columns: list[str]) -> dict[str, Any]:
    rows = model.objects.filter(score_set=scores_of(product))
    return {
        row[f"{subject}__external_id"]: {column: row[column] for column in columns}
        for row in rows.values(f"{subject}__external_id", *columns)
    }


def assert_rows_are_right(
    product: Product, events: list[Did], definition: Definition, today: date
) -> None:
    of_users, of_accounts = plain.by_subject(events, "user"), plain.by_subject(events, "account")
    # A set that follows another one may have a later reference day.
    reference = scores_of(product).reference_day
    assert reference is not None
    definition = replace(definition, reference=reference)
    users = {name: plain.numbers(of_users.get(name, []), definition, today) for name in USERS}
    assert rows(UserEngagement, product, "user", list(users["ann"])) == users
    accounts = {
        name: plain.account_numbers(
            of_accounts.get(name, []),
            definition,
            today,
            [user for user, employer in EMPLOYERS.items() if employer == name],
        )
        for name in ACCOUNTS
    }
    assert rows(AccountEngagement, product, "account", list(accounts["hooli"])) == accounts


@examples(4)
@given(
    before=st.lists(activities, max_size=25),
    after=st.lists(activities, max_size=10),
    definition=definitions,
    turns=st.lists(st.sampled_from([1, 1, 2, 7, 40]), max_size=4),
)
@leaves_no_rows
def test_rows_follow_the_events_and_the_days(
    before: list[Did], after: list[Did], definition: Definition, turns: list[int]
) -> None:
    product = Product.create_with_workspace("Acme")
    introduce(product)
    happen(product, before)
    define(product, definition)
    rescore(NOON)
    assert_rows_are_right(product, before, definition, TODAY)

    happen(product, after)
    now = NOON
    for days in turns:
        now += timedelta(days=days)
        rescore(now)
        assert_rows_are_right(product, before + after, definition, now.date())


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("lookback", [1, 7, 30])
def test_every_end_of_a_window_is_rescored(acme: Product, lookback: int) -> None:
    agos = [*range(2 * lookback + 5), *range(84, 96)]
    events = [Did(f"user {ago}", "opened", NOON - timedelta(days=ago)) for ago in agos]
    by_account = [Did(did.user, did.event, did.at, f"of {did.user}") for did in events]
    tell(acme, *(identify(did.user, -24 * 200, group=did.account) for did in by_account))
    happen(acme, by_account)
    # A former member counts for as long as their last event in the account.
    tell(acme, *(identify(did.user, 1, group="elsewhere") for did in by_account))
    definition = Definition(lookback)
    define(acme, definition)
    rescore(NOON)
    for days in (1, 4, 100):
        later = NOON + timedelta(days=days)
        rescore(later)
        compared = ["raw", "raw_yesterday", "raw_last_period", "raw_yesterday_last_period"]
        users = rows(UserEngagement, acme, "user", compared)
        accounts = rows(AccountEngagement, acme, "account", [*compared, "total_users"])
        for did in by_account:
            expected = plain.account_numbers([did], definition, later.date())
            assert users[did.user] == {column: expected[column] for column in users[did.user]}
            row = accounts[str(did.account)]
            assert row == {column: expected[column] for column in row}


@examples(4)
@given(events=st.lists(activities, min_size=1, max_size=40), definition=definitions)
@leaves_no_rows
def test_history_uses_the_benchmark_of_each_day(events: list[Did], definition: Definition) -> None:
    product = Product.create_with_workspace("Acme")
    introduce(product)
    happen(product, events)
    define(product, definition)
    rescore(NOON)
    scores = scores_of(product)
    of_users, of_accounts = plain.by_subject(events, "user"), plain.by_subject(events, "account")
    users = list(UserEngagement.objects.filter(score_set=scores).select_related("user"))
    at_once = score_histories(scores, OF_USERS, users, HISTORY_DAYS)
    for user in users:
        name = user.user.external_id
        expected = plain.history(name, {name: [], **of_users}, definition, TODAY)
        assert history.score_history(scores, user) == at_once[user.user_id] == expected
    accounts = list(AccountEngagement.objects.filter(score_set=scores).select_related("account"))
    at_once = score_histories(scores, OF_ACCOUNTS, accounts, HISTORY_DAYS)
    for account in accounts:
        name = account.account.external_id
        expected = plain.history(name, {name: [], **of_accounts}, definition, TODAY)
        assert history.score_history(scores, account) == at_once[account.account_id] == expected


@examples(4)
@given(events=st.lists(activities, max_size=40), definition=definitions)
@leaves_no_rows
def test_the_score_breakdown_adds_up_to_the_raw_score(
    events: list[Did], definition: Definition
) -> None:
    product = Product.create_with_workspace("Acme")
    introduce(product)
    happen(product, events)
    define(product, definition)
    rescore(NOON)
    scores = scores_of(product)
    of_accounts = plain.by_subject(events, "account")
    for row in AccountEngagement.objects.filter(score_set=scores).select_related("account"):
        event_points = history.score_breakdown(scores, "account", row.account_id)
        theirs = of_accounts.get(row.account.external_id, [])
        points = {event.name: event.points for event in event_points if event.points}
        assert points == plain.points(theirs, definition, TODAY)
        by_user = history.points_by_user(scores, row.account_id, limit=10)
        assert row.raw_yesterday_last_period is not None
        for parts, raw, ago in (
            ([event.points for event in event_points], row.raw, 0),
            ([event.yesterday_points for event in event_points], row.raw_yesterday, 1),
            (
                [event.before_points for event in event_points],
                row.raw_yesterday_last_period,
                1 + definition.lookback,
            ),
            ([user.points for user in by_user], points_in_window(scores, row), 0),
        ):
            expected = shown_points(scores, raw, TODAY - timedelta(days=ago))
            # With a half-life, each number is rounded.
            rounded = len(parts) / 2 + 0.5 if definition.half_life else 0
            assert sum(parts) == pytest.approx(expected, abs=rounded)
        totals = history.all_time_totals(scores, "account", row.account_id)
        scored = [did.event for did in theirs if definition.weight(did.event)]
        assert (totals.event_count, totals.event_name_count) == (len(scored), len(set(scored)))
        summary = history.summarize_counts(scores, "account", row.account_id)
        assert (summary.all_time, summary.event_points) == (totals, event_points)
        by_day = history.score_history(scores, row, summary.points_by_day)
        assert by_day == history.score_history(scores, row)
