"""Finding the segments of one subject is cheap, and its caches are never stale."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.sql.compiler import SQLCompiler
from django.test.utils import CaptureQueriesContext

from engagement.metric_names import BOTH_SCOPES, METRICS, Scope
from engagement.models import DailyCount, EventName, ScoreSet, Segment, User
from engagement.models.activity import NO_ACCOUNT
from engagement.segments import members
from tests.engagement.history import NOON
from tests.engagement.rows import MAKE, TODAY, user

pytestmark = pytest.mark.django_db


def asking(scope: Scope, conditions: list[dict[str, Any]], how_many: int) -> list[Segment]:
    return [
        Segment(pk=number, scope=scope, match="all", conditions=conditions)
        for number in range(1, how_many + 1)
    ]


@pytest.mark.parametrize("scope", BOTH_SCOPES)
def test_a_hundred_segments_cost_the_database_no_more_metrics_than_one(
    scores: ScoreSet, scope: Scope
) -> None:
    metrics = [name for name, metric in METRICS.items() if scope in metric.scopes]
    conditions = [
        {"kind": "metric", "metric": name, "operator": "at_least", "value": 0} for name in metrics
    ]
    conditions += [{"kind": "trend", "trend": "steady"}, {"kind": "active", "active": False}]
    row = MAKE[scope](scores, "ann")

    def statement(how_many: int) -> str:
        with CaptureQueriesContext(connection) as queries:
            members.segments_containing(scores, asking(scope, conditions, how_many), row)
        (only,) = queries
        return str(only["sql"])

    assert statement(100) == statement(1)


def test_conditions_are_compiled_once(scores: ScoreSet, monkeypatch: pytest.MonkeyPatch) -> None:
    conditions: list[dict[str, Any]] = [
        {"kind": "trait", "trait": f"t{number}", "operator": "is", "value": "x"}
        for number in range(10)
    ]
    conditions += [
        {"kind": "event", "event": "opened", "operator": "not_done", "within_days": number}
        for number in range(1, 11)
    ]
    EventName.objects.create(product_id=scores.product_id, name="opened")
    row, own = user(scores, "ann"), asking("user", conditions, 50)
    compiled = 0
    compile_ = SQLCompiler.compile

    def counted(self: Any, node: Any) -> Any:
        nonlocal compiled
        compiled += 1
        return compile_(self, node)

    assert members.segments_containing(scores, own, row) == []
    monkeypatch.setattr(SQLCompiler, "compile", counted)
    assert members.segments_containing(scores, own, row) == []
    # The 50 segments ask for 1,000 conditions.
    assert compiled < 100


def test_cached_fragments_depend_on_day_event_names_and_scores(scores: ScoreSet) -> None:
    condition = {"kind": "event", "event": "opened", "operator": "done", "within_days": 2}
    high = {"kind": "metric", "metric": "engagement_score", "operator": "at_least", "value": 50}
    row = user(scores, "ann", raw=40)
    recent, engaged = (
        Segment(pk=1, scope="user", conditions=[condition]),
        Segment(pk=2, scope="user", conditions=[high]),
    )

    def segment_ids() -> list[int]:
        scores.refresh_from_db()
        return [
            segment.pk for segment in members.segments_containing(scores, [recent, engaged], row)
        ]

    # A raw score of 40 of 100 shows 60.2, and of 200 36.9.
    assert segment_ids() == [2]
    name = EventName.objects.create(product_id=scores.product_id, name="opened")
    assert segment_ids() == [2]
    DailyCount.objects.create(
        product_id=scores.product_id,
        user=User.objects.get(external_id="ann"),
        account_id=NO_ACCOUNT,
        event_name=name,
        day=TODAY,
        count=1,
        last_at=NOON,
    )
    assert segment_ids() == [1, 2]
    ScoreSet.objects.update(scored_day=TODAY + timedelta(days=1), user_benchmark=200.0)
    assert segment_ids() == [1]
    ScoreSet.objects.update(scored_day=TODAY + timedelta(days=2))
    assert segment_ids() == []
    engaged.conditions = [{**high, "value": 30}]
    assert segment_ids() == [2]


def test_a_trait_and_the_same_account_trait_differ(scores: ScoreSet) -> None:
    mine: dict[str, Any] = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}
    row = user(scores, "ann", traits={"plan": "pro"})
    own, of_account, both = (
        Segment(pk=number, scope="user", match=match, conditions=conditions)
        for number, (match, conditions) in enumerate(
            [
                ("all", [mine]),
                ("all", [{**mine, "kind": "account_trait"}]),
                ("any", [{**mine, "kind": "account_trait"}, mine]),
            ],
            start=1,
        )
    )
    assert members.segments_containing(scores, [own, of_account, both], row) == [own, both]
