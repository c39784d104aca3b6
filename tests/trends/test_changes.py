"""What changed in a week or a day equals a plain model that looks at every row."""

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest

from console.lists.views import view_filter
from core.database import sql
from engagement.models import (
    AccountChance,
    AccountEngagement,
    Alarm,
    AlarmNight,
    CachedCounts,
    Product,
    SavedView,
    ScoreSet,
    Segment,
    Workspace,
)
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.scores.formula import rounded_score
from engagement.segments import counts
from outcomes.models import LicenseOutcome
from tests.cases import each, leaves_no_rows
from tests.engagement.alarms.rows import LEVEL, alarm, night
from tests.engagement.history import NOON
from tests.engagement.rows import TODAY, account, moved
from tests.jobs import run_job
from trends.changes import finding, nights, sections, texts, whose
from trends.changes.finding import DUE_DAYS, MOST_LISTED, find_changes, last_period
from trends.changes.results import Cadence, Changes, Period
from trends.models import WHOLE, DayFigures, StoredChanges

pytestmark = pytest.mark.django_db

YESTERDAY = TODAY - timedelta(days=1)
WEEK = Period.until(YESTERDAY, Cadence.WEEK)
DAY = Period.until(YESTERDAY, Cadence.DAY)
WITHOUT_LEVELS = ("leaving", "key_user")
INSIGHTS = {
    "fall": "trend_down",
    "rise": "trend_up",
    "feature": "breadth_narrowing",
    "leaving": "users_leaving",
    "key_user": "key_user_quiet",
}


def own(scores: ScoreSet, **of: Any) -> whose.Whose:
    rows = Workspace.objects.select_related("product", "scores__cached_counts")
    return whose.of_workspace(rows.get(pk=scores.workspace_id), **of)


def changes(scores: ScoreSet, period: Period = WEEK, **of: Any) -> Changes:
    return find_changes(own(scores, **of), period)


def paying(scores: ScoreSet) -> Segment:
    condition = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}
    return Segment.objects.create(
        workspace=scores.workspace, scope="account", name="Paying", conditions=[condition]
    )


def view_of_paying(scores: ScoreSet) -> SavedView:
    return SavedView.objects.create(
        product=scores.product,
        workspace=scores.workspace,
        scope="account",
        name="My paying ones",
        filters={"trait.plan": "pro"},
        sort="-score",
    )


# --- A planted world and its plain model ------------------------------------------------------


@dataclass
class World:
    """What was planted: rows of accounts, alarms, and terms, as plain values."""

    scores: ScoreSet
    accounts: dict[str, AccountEngagement] = field(default_factory=dict)
    paying: set[str] = field(default_factory=set)
    created: dict[str, date] = field(default_factory=dict)
    moves: dict[str, float] = field(default_factory=dict)
    alarms: list[Alarm] = field(default_factory=list)
    terms: list[LicenseOutcome] = field(default_factory=list)


def plant(scores: ScoreSet, seed: int) -> World:
    chance, world = random.Random(seed), World(scores)
    for number in range(14):
        name, plan = f"a{number:02}", chance.choice(["pro", "free"])
        age = chance.choice([0, 1, 2, 6, 7, 8, 20, 90])
        created = TODAY - timedelta(days=age)
        now, before = chance.choice([(50, 100), (50, 0), (0, 160), (30, 60), (90, 20)])
        world.accounts[name] = moved(
            scores,
            name,
            now,
            before,
            traits={"plan": plan},
            created_at=datetime.combine(created, time(23, 59), UTC),
        )
        world.created[name] = created
        # Under the benchmarks of the fixture.
        scored = rounded_score(now, 100.0) - rounded_score(before, 200.0)
        world.moves[name] = round(scored, 1)
        if plan == "pro":
            world.paying.add(name)
    plant_alarms(world, chance)
    plant_terms(world, chance)
    return world


def plant_alarms(world: World, chance: random.Random) -> None:
    planted = set()
    for _ in range(60):
        name, signal = chance.choice([*world.accounts]), chance.choice([*INSIGHTS])
        level = 0 if signal in WITHOUT_LEVELS else chance.choice([0, LEVEL, LEVEL, LEVEL, 4, -3])
        since = TODAY - timedelta(days=chance.randint(1, 16))
        if (key := (name, signal, level, since)) in planted:
            continue
        planted.add(key)
        outcome = chance.choice(["", "", "recovered", "settled", "replaced"])
        ended = since + timedelta(days=chance.randint(0, (YESTERDAY - since).days))
        values = {"ended_on": ended, "outcome": outcome} if outcome else {}
        is_stopped = signal == "fall" and chance.random() < 0.3
        numbers = {"observed": chance.randint(0, 30), "is_stopped": is_stopped}
        row = alarm(world.accounts[name], signal, level=level, since=since, **numbers, **values)
        world.alarms.append(row)


def plant_terms(world: World, chance: random.Random) -> None:
    for number in range(30):
        day = TODAY + timedelta(days=chance.choice([-1, 0, 3, 29, 30, 45]))
        term = LicenseOutcome.objects.create(
            product=world.scores.product,
            license=f"L{number}",
            kind=chance.choice(["evaluation", "renewal", "monthly_stay"]),
            cloud_id=chance.choice([*world.accounts, "nobody", ""]),
            began_on=TODAY - timedelta(days=300),
            day=day,
            answered_on=chance.choice([None, None, TODAY, TODAY + timedelta(days=2)]),
            exclusion=chance.choice(["open", "open", "open", "sandbox"]),
            seats=number,
        )
        world.terms.append(term)


class Plain:
    """The answer, answer by looking at everything."""

    def __init__(self, world: World, period: Period, names: set[str]) -> None:
        self.world, self.period, self.names = world, period, names

    def within(self, day: date | None) -> bool:
        return day is not None and self.period.first <= day <= self.period.last

    def visible(self) -> list[Alarm]:
        ids = {self.world.accounts[name].account_id for name in self.names}
        return [
            each
            for each in self.world.alarms
            if each.account_id in ids
            and each.level == (0 if each.signal in WITHOUT_LEVELS else LEVEL)
        ]

    def began(self) -> list[Alarm]:
        return [
            each
            for each in self.visible()
            if self.within(each.since) and each.outcome != "replaced"
        ]

    def ended(self) -> list[Alarm]:
        return [
            each
            for each in self.visible()
            if self.within(each.ended_on) and each.outcome in ("recovered", "settled")
        ]

    def by_insight(self) -> Counter[str]:
        return Counter(
            "activity_stopped" if each.is_stopped else INSIGHTS[each.signal]
            for each in self.began()
        )

    def new(self) -> set[str]:
        return {name for name in self.names if self.within(self.world.created[name])}

    def moved(self, sign: int) -> dict[str, float]:
        """Those that are no new accounts: of two lookbacks and more."""
        oldest = TODAY - timedelta(days=2 * self.world.scores.lookback_days)
        return {
            name: move
            for name, move in self.world.moves.items()
            if name in self.names and move * sign > 0 and self.world.created[name] <= oldest
        }

    def due(self, kind: str) -> list[str]:
        today = self.period.last + timedelta(days=1)
        return [
            each.license
            for each in sorted(self.world.terms, key=lambda each: (each.day, each.license))
            if each.kind == kind
            and each.exclusion == "open"
            and each.cloud_id in self.names
            and today <= each.day < today + timedelta(days=DUE_DAYS)
            and (each.answered_on is None or each.answered_on > today)
        ]


def assert_equal(answer: Changes, plain: Plain) -> None:
    assert answer.began.count == len(plain.began())
    assert answer.began.by_insight == plain.by_insight()
    pairs = {(each.account_id, each.since) for each in plain.began()}
    assert {(each.account.id, each.since) for each in answer.began.first} <= pairs
    assert len(answer.began.first) == min(MOST_LISTED, len(plain.began()))
    assert answer.ended.count == len(plain.ended())
    assert Counter(each.outcome for each in answer.ended.first) <= Counter(
        each.outcome for each in plain.ended()
    )
    assert answer.new.count == len(plain.new())
    assert {each.account.tracking_id for each in answer.new.first} <= plain.new()
    for moved_accounts, sign in ((answer.rose, 1), (answer.fell, -1)):
        expected = plain.moved(sign)
        assert moved_accounts.count == len(expected)
        largest = sorted((abs(move) for move in expected.values()), reverse=True)[:5]
        assert [abs(each.change or 0) for each in moved_accounts.first] == largest
        for mover in moved_accounts.first:
            assert mover.change == expected[mover.account.tracking_id]
    for due, kind in ((answer.evaluations, "evaluation"), (answer.renewals, "renewal")):
        assert due.count == len(plain.due(kind))
        assert [each.license for each in due.first] == plain.due(kind)[:MOST_LISTED]


@pytest.mark.parametrize("cadence", Cadence)
@each("seed", range(4))
@leaves_no_rows
def test_what_changed_equals_a_plain_model(scores: ScoreSet, seed: int, cadence: Cadence) -> None:
    world, period = plant(scores, seed), Period.until(YESTERDAY, cadence)
    assert_equal(changes(scores, period), Plain(world, period, set(world.accounts)))
    only_paying = Plain(world, period, world.paying)
    assert_equal(changes(scores, period, segment=paying(scores)), only_paying)
    assert_equal(changes(scores, period, view=view_of_paying(scores)), only_paying)


def test_another_product_changes_nothing(scores: ScoreSet, globex: Product) -> None:
    plant(scores, 1)
    before = changes(scores)
    other = ScoreSet.objects.get(pk=scores.pk)
    other.pk, other.product, other.workspace = None, globex, globex.workspaces.get()
    other.save()
    globex.workspaces.update(scores=other)
    assert changes(other).is_quiet and changes(other).renewals.count == 0
    plant(other, 2)
    assert changes(scores) == before


# --- Figures of days --------------------------------------------------------------------------


def figures(scores: ScoreSet, segment_id: int, days_ago: int, **numbers: int | None) -> None:
    DayFigures.objects.create(
        workspace=scores.workspace,
        segment_id=segment_id,
        day=TODAY - timedelta(days=days_ago),
        score_set_id=scores.pk,
        **numbers,
    )


def test_accounts_that_stopped_and_returned_are_sums_of_all_days(scores: ScoreSet) -> None:
    for days_ago in range(1, 9):
        figures(scores, WHOLE, days_ago, stopped_accounts=days_ago, returned_accounts=1)
    answer = changes(scores)
    assert (answer.stopped, answer.returned) == (28, 7)
    assert texts.summary(answer) == "28 accounts stopped and 7 came back."
    day = changes(scores, DAY)
    assert (day.stopped, day.returned) == (1, 1)
    DayFigures.objects.filter(day=TODAY - timedelta(days=4)).delete()
    assert (changes(scores).stopped, changes(scores).returned) == (None, None)


def test_segments_are_named_if_each_day_is_known_and_anybody_moved(scores: ScoreSet) -> None:
    calm, busy, edited = (
        Segment.objects.create(workspace=scores.workspace, scope="account", name=name)
        for name in ("Calm", "Busy", "Edited")
    )
    for days_ago in range(1, 8):
        figures(scores, calm.pk, days_ago, entered=0, left=0)
        figures(scores, busy.pk, days_ago, entered=3, left=1)
        number = None if days_ago == 2 else 9
        figures(scores, edited.pk, days_ago, entered=number, left=number)
    (only,) = changes(scores).segments
    assert (only.name, only.entered, only.left) == ("Busy", 21, 7)
    assert [each.name for each in changes(scores, segment=busy).segments] == ["Busy"]
    assert changes(scores, segment=calm).segments == []
    # Nobody knows what a saved view kept on other days.
    assert changes(scores, view=view_of_paying(scores)).segments == []


# --- Details ----------------------------------------------------------------------------------


def test_the_chance_of_a_term_has_its_interval_and_an_average_is_not_shown(
    scores: ScoreSet,
) -> None:
    rows = [account(scores, name, traits={"name": name.title()}) for name in ("initech", "hooli")]
    for place, row in enumerate(rows):
        end = TODAY + timedelta(days=place)
        values = {"kind": "renewal", "license": f"L{place}", "began_on": TODAY, "day": end}
        name = row.account.external_id
        LicenseOutcome.objects.create(
            product=scores.product, cloud_id=name, exclusion="open", seats=place + 1, **values
        )
        AccountChance.objects.create(
            product=scores.product,
            workspace=scores.workspace,
            account=row.account,
            **{**values, "chance": 0.62, "low": 0.48, "high": 0.75, "outcomes": 214},
            is_share=place == 1,
            looked_on=TODAY,
        )
    answer = changes(scores)
    (section,) = sections.sections(answer, sections.Places(scores.workspace_id, {}), 5)
    assert [(row.name, row.value, row.text) for row in section.rows] == [
        ("Initech", "24 September, 1 seat", "62% likely to renew (48 to 75%), by 214 past cases."),
        ("Hooli", "25 September, 2 seats", ""),
    ]


def test_alarms_say_what_is_unusual_and_name_no_user(scores: ScoreSet) -> None:
    since = {"since": YESTERDAY}
    for signal in INSIGHTS:
        alarm(account(scores, signal, traits={"name": signal}), signal, **since)
    alarm(account(scores, "back"), "fall", since=TODAY - timedelta(days=30), outcome="recovered")
    answer = changes(scores)
    sentences = {each.account.tracking_id: each.text for each in answer.began.first}
    assert sentences["feature"] == "No longer used: “shared”."
    assert sentences["leaving"] == "2 of 5 regular users have not been seen for 14 days."
    assert sentences["key_user"] == "The most active user has not been seen since 25 August."
    assert sentences["fall"].startswith("Usually 11–26 active user-days in two weeks, now 4.")
    # What is good comes last.
    assert [each.account.tracking_id for each in answer.began.first][-1] == "rise"
    assert [each.text for each in answer.ended.first] == ["Back to usual."]


def test_a_quiet_week_says_so_in_one_sentence(scores: ScoreSet) -> None:
    moved(scores, "initech", 60, 20, created_at=NOON - timedelta(days=300))
    quiet = changes(scores)
    assert quiet.is_quiet and quiet.rose.count == 1
    assert texts.summary(quiet) == (
        "A quiet week: no alarm began or ended, and no account is new, stopped, or came back."
    )
    alarm(account(scores, "hooli", created_at=NOON - timedelta(days=2)), since=YESTERDAY)
    busy = changes(scores)
    assert texts.summary(busy) == "1 alarm began and 1 account is new."
    assert texts.format_period(busy.period) == "17 to 23 September"


def test_the_period_waits_two_days_for_a_night_that_is_decided_late(scores: ScoreSet) -> None:
    assert last_period(scores, Cadence.WEEK) == WEEK
    night(scores.workspace, YESTERDAY - timedelta(days=1))
    assert last_period(scores, Cadence.DAY).last == YESTERDAY - timedelta(days=1)
    AlarmNight.objects.update(day=YESTERDAY - timedelta(days=3))
    assert last_period(scores, Cadence.DAY).last == YESTERDAY


# --- Large sets -------------------------------------------------------------------------------


def grow(scores: ScoreSet) -> None:
    """Have the set count as a large one."""
    counts.recount(scores, NOON)
    CachedCounts.objects.update(seconds=counts.LIVE_COUNT_SECONDS + 1)


def test_a_large_set_tells_those_that_were_counted_last(
    scores: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(scores, 3)
    live = changes(scores)
    grow(scores)
    assert changes(scores) == live
    monkeypatch.setattr(finding, "MOST_COUNTED", 3)
    large = changes(scores)
    assert (large.rose.first, large.fell.first) == (live.rose.first, live.fell.first)
    assert large.rose.count is None and large.fell.count is None
    assert find_changes(own(scores), WEEK, counts_all=True) == live


def all_changes(scores: ScoreSet, segment: Segment) -> list[Changes]:
    """Those that readers see of a week and of a day, in the workspace and in the segment."""
    who = (own(scores), own(scores, segment=segment))
    return [nights.changes_of(each, cadence) for each in who for cadence in Cadence]


def test_of_a_large_set_the_night_finds_what_readers_see_until_the_next_one(
    scores: ScoreSet,
) -> None:
    plant(scores, 3)
    segment = paying(scores)
    live = all_changes(scores, segment)
    assert run_job(nights.JOB, NOON) == 0 and not StoredChanges.objects.exists()
    grow(scores)
    # A page does not wait.
    assert nights.ready_changes(own(scores), Cadence.WEEK) is None
    assert all_changes(scores, segment) == live
    assert run_job(nights.JOB, NOON) == StoredChanges.objects.count() > 2
    assert all_changes(scores, segment) == live
    assert nights.ready_changes(own(scores), Cadence.WEEK) == live[0]
    row = account(scores, "umbrella", created_at=NOON - timedelta(days=1), traits={"plan": "pro"})
    alarm(row, since=YESTERDAY)
    assert run_job(nights.JOB, NOON) == 0
    assert all_changes(scores, segment) == live
    # What a saved view keeps is found when somebody asks.
    assert nights.changes_of(own(scores, view=view_of_paying(scores)), Cadence.DAY) != live[-1]
    ScoreSet.objects.update(scored_day=TODAY + timedelta(days=1))
    assert all_changes(scores, segment) == live
    night(scores.workspace, YESTERDAY + timedelta(days=1))
    run_job(nights.JOB, NOON + timedelta(days=1))
    week = all_changes(scores, segment)[0]
    assert week.period.last == TODAY
    assert "umbrella" in {each.account.tracking_id for each in week.began.first}


def test_figures_that_come_later_are_found_again(scores: ScoreSet) -> None:
    grow(scores)
    run_job(nights.JOB, NOON)
    assert nights.changes_of(own(scores), Cadence.DAY).stopped is None
    figures(scores, WHOLE, 1, stopped_accounts=3, returned_accounts=0)
    run_job(nights.JOB, NOON)
    assert nights.changes_of(own(scores), Cadence.DAY).stopped == 3


def test_an_edit_is_seen_at_once(scores: ScoreSet) -> None:
    plant(scores, 3)
    segment = paying(scores)
    grow(scores)
    run_job(nights.JOB, NOON)
    segment.conditions[0]["value"] = "free"
    segment.save()
    free = find_changes(own(scores, segment=segment), WEEK)
    assert nights.changes_of(own(scores, segment=segment), Cadence.WEEK) == free
    Workspace.objects.filter(pk=scores.workspace_id).update(alarm_level=0)
    assert nights.changes_of(own(scores), Cadence.WEEK) == changes(scores)
    assert run_job(nights.JOB, NOON) == StoredChanges.objects.count()
    assert run_job(nights.JOB, NOON) == 0


def test_forgetting_takes_an_account_out_of_what_is_stored(scores: ScoreSet, acme: Product) -> None:
    for name in ("initech", "hooli"):
        alarm(account(scores, name, created_at=NOON - timedelta(days=1)), since=YESTERDAY)
    grow(scores)
    run_job(nights.JOB, NOON)
    forgetting.forget(SubjectRef(acme.pk, SubjectScope.ACCOUNT, "initech"), NOON)
    day = nights.changes_of(own(scores), Cadence.DAY)
    assert [each.account.tracking_id for each in day.began.first] == ["hooli"]
    assert [each.account.tracking_id for each in day.new.first] == ["hooli"]
    assert not StoredChanges.objects.filter(result__icontains="initech").exists()


def test_what_takes_too_long_is_left_out_until_the_next_night(
    scores: ScoreSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(scores, 3)
    grow(scores)
    with monkeypatch.context() as patch:
        patch.setattr(nights, "STATEMENT_TIMEOUT_SECONDS", 0.001)
        patch.setattr(nights, "find_changes", lambda *_, **__: sql.fetch("SELECT pg_sleep(1)"))
        run_job(nights.JOB, NOON)
    assert not StoredChanges.objects.exclude(result=None).exists()
    assert nights.changes_of(own(scores), Cadence.WEEK) == changes(scores)


def test_what_has_no_changes_says_why(scores: ScoreSet) -> None:
    users = Segment.objects.create(workspace=scores.workspace, scope="user", name="Champions")
    with pytest.raises(whose.NoChanges, match="Choose a segment or a view of accounts"):
        own(scores, segment=users)
    view = view_of_paying(scores)
    view.filters = {"segment": "987654321"}
    with pytest.raises(whose.NoChanges, match="a segment that was deleted"):
        own(scores, view=view)
    view.filters = {}
    assert view_filter(view, scores) is None
    scores.workspace.scores = None
    with pytest.raises(whose.NoChanges, match="no scores yet"):
        whose.of_workspace(scores.workspace)
