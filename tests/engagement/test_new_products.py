"""Scoring and reading a new product beside a large one costs what its own size does.

The planner's statistics know only the large product, and expect a single row of any other.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from core.database import sql
from engagement.models import Product, UserEngagement
from engagement.rescoring.rescore import rescore
from engagement.rules.rules import parse_rule
from engagement.scores import history
from engagement.segments import members
from tests.database import one_server
from tests.engagement.history import NOON, identify, tell, track

pytestmark = one_server
USERS, DAYS = 100, 10
COUNTS = USERS * DAYS

_LARGE = """
    INSERT INTO engagement_dailycount
        (product_id, user_id, day, event_name_id, account_id, count, last_at)
    SELECT %s, 1000000 + n / 20, date %s - n %% 20, 1000000, 1000000 + n / 100, 1, %s
    FROM generate_series(1, 40000) AS n
"""
_READ = """
    SELECT COALESCE(seq_tup_read, 0) + COALESCE(idx_tup_fetch, 0)
    FROM pg_stat_xact_user_tables WHERE relname = 'engagement_dailycount'
"""


@pytest.fixture
def new_product(acme: Product, globex: Product) -> Product:
    """Globex, new beside Acme: a hundred users in five accounts, each active on ten days."""
    with connection.cursor() as cursor:
        cursor.execute(_LARGE, [acme.pk, NOON.date(), NOON])
        cursor.execute("ANALYZE engagement_dailycount")
    people = [f"user {number}" for number in range(USERS)]
    tell(globex, *(identify(name, -300, f"account {len(name)}") for name in people))
    tell(globex, *(track(name, hours=-24 * day) for name in people for day in range(DAYS)))
    return globex


@contextmanager
def rows_read(at_most: int) -> Iterator[None]:
    """Assert that the block reads at most this many daily counts."""
    ((before,),) = sql.fetch(_READ)
    yield
    ((after,),) = sql.fetch(_READ)
    assert after - before <= at_most


def test_scoring_reads_each_count_a_few_times(new_product: Product) -> None:
    # Users, accounts, the past benchmarks of both, and when users were last seen.
    with rows_read(at_most=8 * COUNTS):
        rescore(NOON)
    assert UserEngagement.objects.filter(product=new_product, raw=7).count() == USERS


def test_an_audience_costs_no_more(new_product: Product) -> None:
    opened = {"kind": "event", "event": "opened", "operator": "done", "times": 10}
    new_product.workspaces.update(audience={"match": "all", "conditions": [opened]})
    with rows_read(at_most=10 * COUNTS):
        rescore(NOON)
    assert UserEngagement.objects.filter(product=new_product).count() == USERS


def test_reading_a_user_reads_only_their_counts(new_product: Product) -> None:
    rescore(NOON)
    workspace = new_product.workspaces.select_related("scores").get()
    row = UserEngagement.objects.filter(product=new_product)[0]
    assert workspace.scores is not None
    with rows_read(at_most=3 * DAYS):
        assert history.all_time_totals(workspace.scores, "user", row.user_id).event_count == DAYS
        assert sum(
            event.points for event in history.score_breakdown(workspace.scores, "user", row.user_id)
        )
        assert history.score_history(workspace.scores, row)[-1].day == NOON.date()


def test_a_segment_by_events_reads_each_count_once(new_product: Product) -> None:
    rescore(NOON)
    workspace = new_product.workspaces.select_related("scores").get()
    opened = {"kind": "event", "event": "opened", "operator": "done", "times": 10}
    rule = parse_rule({"match": "all", "conditions": [opened]}, "user")
    assert workspace.scores is not None
    with rows_read(at_most=2 * COUNTS):
        assert members.count_members(workspace.scores, rule) == USERS
