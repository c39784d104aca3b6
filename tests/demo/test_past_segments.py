"""The planted past of segments is what nights would have noted, and they go on with it."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from engagement.models import Product, Segment, Workspace
from harness.demo import loading, past_segments
from harness.demo.population import Size
from harness.demo.vocabulary import BOARDS
from tests.jobs import run_job
from trends.figures.jobs import JOB as FIGURES
from trends.models import DayFigures, SegmentMove

NOW = datetime(2026, 9, 24, 14, 30, tzinfo=UTC)
SIZE = Size(accounts=12, users=60, days=80, event_days=2)
DAY = timedelta(days=1)

pytestmark = pytest.mark.django_db


@pytest.fixture
def workspace(acme: Product) -> Workspace:
    assert sum(loading.populate(acme, BOARDS, SIZE, NOW)) == SIZE.users
    loading.score_products([acme], lambda: NOW, lambda how_far: False)
    return acme.workspaces.select_related("scores").get()


def test_segments_have_a_past_that_the_next_night_continues(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_segments, "DAYS", 14)
    past_segments.plant(workspace)
    rows = DayFigures.objects.filter(workspace=workspace)
    assert rows.count() > 20 * past_segments.DAYS
    yesterday = NOW.date() - DAY
    assert set(rows.values_list("day", flat=True)) == {
        yesterday - ago * DAY for ago in range(1, past_segments.DAYS + 1)
    }
    run_job(FIGURES, NOW)
    moved = 0
    for segment in workspace.segments.all():
        kind = "users" if segment.scope == Segment.Scope.USER else "accounts"
        own = rows.filter(segment_id=segment.pk).order_by("day")
        nights = list(own.values_list("day", kind, "entered", "left"))
        assert nights[-1][0] == yesterday
        for before, (day, number, came, went) in pairwise(nights):
            assert number - before[1] == came - went, (segment.name, day)
            moves = SegmentMove.objects.filter(segment_id=segment.pk, day=day)
            assert moves.count() == came + went
            moved += came + went
        if len(nights) == 1:
            continue
        # Had the past another rule than the night, many would move in it.
        *_, (_, number, came, went) = nights
        most = max(sum(night[2:]) for night in nights[1:-1])
        assert came + went <= max(2 * most, number / 3), segment.name
    assert moved > 30


def test_a_workspace_with_a_past_gets_no_other(workspace: Workspace) -> None:
    run_job(FIGURES, NOW)
    before = DayFigures.objects.count()
    past_segments.plant(workspace)
    assert DayFigures.objects.count() == before
