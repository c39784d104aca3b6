"""Figures are computed once a night, and again where counts changed. Nobody forgotten stays."""

from datetime import timedelta

import numpy as np
import pytest
from django.db import connection

from core.models import Job
from engagement.models import EventName, EventWeight, Product, ScoreSet, Segment, Workspace
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import forgetting
from engagement.rescoring import sets
from engagement.rescoring.rescore import rescore
from engagement.scores.active_days import DAY
from tests.engagement.history import NOON, tell, track
from tests.engagement.nights.kills import kill_at_each
from tests.engagement.nights.kills import work as work_on
from tests.trends.worlds import (
    TODAY,
    YESTERDAY,
    be_active,
    figures,
    make,
    next_day,
    score,
    segment_of,
    work,
)
from trends.figures import jobs, members
from trends.models import WHOLE, DayFigures, SegmentMove, SegmentRoster
from trends.reading import KEPT

pytestmark = pytest.mark.django_db

DAILY = range(1, 100)


def moves(segment: Segment) -> list[tuple[int, bool]]:
    rows = SegmentMove.objects.filter(segment_id=segment.pk).order_by("day", "is_entry")
    return list(rows.values_list("subject_id", "is_entry"))


def account_id(product: Product, name: str) -> int:
    return product.account_set.get(external_id=name).pk


def test_a_new_workspace_has_the_figures_of_its_past(acme: Product) -> None:
    workspace = make(acme, {"initech": DAILY, "hooli": [40, 41, 5]})
    assert work() == 2
    assert DayFigures.objects.filter(workspace=workspace, segment_id=WHOLE).count() == 150
    row = figures(workspace, 5)
    assert (row.accounts, row.daily_accounts, row.returned_accounts) == (2, 2, 1)
    assert (figures(workspace, 41).new_accounts, figures(workspace, 12).stopped_accounts) == (1, 1)
    assert sum(row.account_bands) == sum(row.user_bands) == 2
    assert jobs.due_workspaces() == []
    assert work() == 0


def test_a_night_begins_when_the_day_has_arrived(acme: Product) -> None:
    workspace = make(acme, {"initech": DAILY})
    segment_of(workspace)
    work(NOON - timedelta(hours=11, minutes=30))
    days = DayFigures.objects.filter(workspace=workspace)
    assert days.latest("day").day == YESTERDAY - DAY
    assert set(days.values_list("segment_id", flat=True)) == {WHOLE}
    work(NOON)
    assert days.filter(day=YESTERDAY).exclude(segment_id=WHOLE).exists()


def test_late_counts_change_the_days_that_they_belong_to(acme: Product) -> None:
    workspace = make(acme, {"initech": DAILY, "hooli": [60]})
    work()
    assert figures(workspace, 3).daily_accounts == 1
    tell(acme, track("hooli-0", hours=-24 * 3))
    rescore(NOON)
    assert jobs.due_workspaces() == []
    work(next_day())
    assert figures(workspace, 3).daily_accounts == 2
    # An import changes days of long ago, and does not wait for the night.
    tell(acme, track("hooli-0", hours=-24 * 30))
    now = next_day() + timedelta(hours=2)
    assert jobs.due_workspaces() == [workspace.pk]
    work(now)
    assert figures(workspace, 30).daily_accounts == 2


def test_another_definition_replaces_all_figures(acme: Product) -> None:
    workspace = make(acme, {"initech": DAILY})
    work()
    assert figures(workspace, 9).daily_accounts == 1
    EventWeight.objects.create(
        workspace=workspace, event_name=EventName.objects.get(product=acme), weight=0
    )
    sets.request_score_set(workspace.pk)
    rescore(NOON)
    work(NOON + timedelta(hours=6))
    current = ScoreSet.objects.get(workspace=workspace, state=ScoreSet.State.CURRENT)
    assert set(
        DayFigures.objects.filter(workspace=workspace, segment_id=WHOLE).values_list(
            "score_set_id", "daily_accounts"
        )
    ) == {(current.pk, 0)}


def test_a_clock_that_was_ahead_leaves_no_figures(acme: Product) -> None:
    workspace = make(acme, {"initech": DAILY})
    own = {"workspace": workspace, "score_set_id": 1}
    DayFigures.objects.create(**own, day=TODAY + 9 * DAY)
    work()
    assert DayFigures.objects.filter(workspace=workspace).latest("day").day == YESTERDAY


def test_who_entered_and_left_is_told_from_night_to_night(acme: Product) -> None:
    workspace = make(acme, {"initech": DAILY, "hooli": [7]})
    segment = segment_of(workspace)
    work()
    first = figures(workspace, 1, segment)
    assert (first.accounts, first.entered, first.left) == (1, None, None)
    be_active(acme, "globex", [-1])
    work(next_day())
    row = figures(workspace, 0, segment)
    assert (row.accounts, row.entered, row.left) == (2, 1, 0)
    assert moves(segment) == [(account_id(acme, "globex"), True)]
    work(next_day(9))
    assert moves(segment)[1:] == sorted(
        (account_id(acme, name), False) for name in ("initech", "globex")
    )
    assert (figures(workspace, -8, segment).entered, figures(workspace, -8, segment).left) == (0, 2)


def test_an_edit_is_no_move(acme: Product) -> None:
    workspace = make(acme, {"initech": DAILY})
    segment = segment_of(workspace)
    work()
    segment.conditions[0]["value"] = 7_000
    segment.save()
    work(next_day())
    row = figures(workspace, 0, segment)
    assert (row.accounts, row.entered, row.left, moves(segment)) == (0, None, None, [])
    sets.request_score_set(workspace.pk)
    work(next_day(2))
    assert figures(workspace, -1, segment).left is None


def test_many_moves_are_only_counted(acme: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MOVES_PER_NIGHT", 1)
    workspace = make(acme, {"initech": [1], "hooli": [1]})
    segment = segment_of(workspace)
    work()
    work(next_day(9))
    assert figures(workspace, -8, segment).left == 2
    assert moves(segment) == []


def test_what_is_old_or_gone_is_deleted(acme: Product) -> None:
    workspace = make(acme, {"initech": DAILY})
    segment = segment_of(workspace)
    own = {"product": acme, "scope": "account", "segment_id": segment.pk, "is_entry": True}
    old = TODAY - members.MOVES_KEPT
    for day in (old - DAY, old):
        SegmentMove.objects.create(**own, subject_id=1, day=day)
    SegmentMove.objects.create(**{**own, "segment_id": 9**9}, subject_id=1, day=YESTERDAY)
    DayFigures.objects.create(workspace=workspace, day=TODAY - KEPT - DAY, score_set_id=1)
    DayFigures.objects.create(workspace=workspace, day=YESTERDAY, score_set_id=1, segment_id=9**9)
    work()
    assert list(SegmentMove.objects.values_list("day", flat=True)) == [old]
    rows = DayFigures.objects.filter(workspace=workspace)
    assert rows.earliest("day").day == TODAY - 150 * DAY
    assert not rows.filter(segment_id=9**9).exists()


def test_other_products_are_not_counted(acme: Product, globex: Product) -> None:
    be_active(globex, "umbrella", DAILY, users=3)
    workspace = make(acme, {"initech": DAILY})
    work()
    row = figures(workspace)
    assert (row.accounts, row.users, row.weekly_users) == (1, 1, 1)
    other = Workspace.objects.get(product=globex)
    assert (figures(other).accounts, figures(other).weekly_users) == (1, 3)


def test_packed_members_are_those_that_were_packed() -> None:
    for ids in ([], [5], [1, 2, 3, 9**15]):
        assert members.unpack(members.pack(np.array(ids, "i8"))).tolist() == ids


@pytest.mark.django_db(transaction=True)
class TestWithTransactions:
    def test_nothing_stays_of_who_is_forgotten(self, acme: Product) -> None:
        workspace = make(acme, {"initech": [1, -1], "hooli": [-1]})
        of_accounts, of_users = segment_of(workspace), segment_of(workspace, "user")
        work()
        work(next_day())
        assert [len(moves(segment)) for segment in (of_accounts, of_users)] == [1, 1]
        for scope, name in ((SubjectScope.ACCOUNT, "hooli"), (SubjectScope.USER, "hooli-0")):
            assert forgetting.forget(SubjectRef(acme.pk, scope, name), NOON)
        assert not SegmentMove.objects.exists()
        for segment in (of_accounts, of_users):
            roster = SegmentRoster.objects.get(segment=segment)
            assert len(members.unpack(roster.members)) == 1
        work(next_day(2))
        assert figures(workspace, -1, of_accounts).left == 0

    def test_a_killed_worker_leaves_nothing_half_done(self, acme: Product) -> None:
        workspace = make(acme, {"initech": [*DAILY, 0], "hooli": [1, 60]})
        segment = segment_of(workspace)
        work()
        be_active(acme, "globex", [0])
        now = next_day()
        clock = [now]

        def wait(time: timedelta) -> None:
            clock[0] += time

        connection.close()
        kills = kill_at_each(jobs.JOB, range(3, 400, 9), lambda: clock[0], wait)
        assert kills > 3
        work_on(jobs.JOB, lambda: clock[0])
        row = figures(workspace, 0, segment)
        assert (row.accounts, row.entered, row.left) == (3, 1, 0)
        assert moves(segment) == [(account_id(acme, "globex"), True)]
        assert figures(workspace, 0).daily_accounts == 2
        assert not Job.objects.filter(kind=jobs.JOB, lease__isnull=False).exists()


def test_figures_wait_for_scores(acme: Product) -> None:
    assert jobs.due_workspaces() == []
    score(acme)
    work()
    assert figures(Workspace.objects.get(product=acme)).accounts == 0
