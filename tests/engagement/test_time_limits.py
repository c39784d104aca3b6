"""No scoring statement exceeds its time limit, and a slow subject does not hold up others."""

import logging
from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from core.database import pace, sql, statistics
from core.models import Job
from engagement.models import (
    CachedCounts,
    DailyBenchmark,
    Product,
    RescoreRequest,
    ScoreSet,
    UserEngagement,
)
from engagement.rescoring import ranges
from engagement.rescoring.jobs import BENCHMARKS
from engagement.rescoring.rescore import rescore
from engagement.scores import benchmarks, past_benchmarks, raw
from engagement.segments import attention, counts
from tests.database import CITUS, one_server
from tests.engagement.history import NOON, group, identify, tell, track

pytestmark = pytest.mark.django_db
PEOPLE = [f"user {number}" for number in range(10)]


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of a minute are half a second here."""
    monkeypatch.setattr(pace, "STATEMENT_SECONDS", 0.5)
    monkeypatch.setattr(pace, "_chunk_size", pace.MAX_SUBJECTS_PER_STATEMENT)
    for module in (benchmarks, past_benchmarks, counts):
        monkeypatch.setattr(module, "STATEMENT_TIMEOUT_SECONDS", 0.5)


@pytest.fixture
def slow_for_many(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A statement about more than three users never ends. Notes how many users each is about."""
    sizes: list[int] = []
    score_users = raw.score_users

    def score(
        score_set: ScoreSet, user_ids: Collection[int], today: Any, settled: Collection[int] = ()
    ) -> set[int]:
        sizes.append(len(user_ids))
        if len(user_ids) > 3:
            never_ends()
        return score_users(score_set, user_ids, today, settled)

    monkeypatch.setattr(raw, "score_users", score)
    return sizes


def never_ends() -> None:
    sql.fetch("SELECT pg_sleep(600)::text")


def raws(product: Product) -> dict[str, int]:
    rows = UserEngagement.objects.filter(product=product, score_set__state="current")
    return dict(rows.values_list("user__external_id", "raw"))


def busy(product: Product, *names: str) -> None:
    tell(product, *(identify(name, -1) for name in names), *(track(name) for name in names))


@pytest.mark.slow
@pytest.mark.whole
def test_a_statement_over_the_limit_is_retried_with_half_of_its_subjects(
    acme: Product, slow_for_many: list[int]
) -> None:
    rescore(NOON)
    slow_for_many.clear()
    busy(acme, *PEOPLE)
    rescore(NOON)
    assert slow_for_many[:3] == [10, 5, 2] and max(slow_for_many[3:]) <= 4
    # A statement takes longer on a cluster.
    assert CITUS or slow_for_many[3] == 4
    assert raws(acme) == dict.fromkeys(PEOPLE, 1)
    assert not RescoreRequest.objects.exists()


@pytest.mark.slow
@pytest.mark.whole
def test_a_set_is_built_in_steps_within_the_limit(
    acme: Product, slow_for_many: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "IDS_PER_RANGE", 1_000_000_000)
    busy(acme, *PEOPLE)
    rescore(NOON)
    assert 10 in slow_for_many
    assert raws(acme) == dict.fromkeys(PEOPLE, 1)


def test_a_subject_that_is_too_slow_by_itself_keeps_its_score_and_does_not_hold_up_others(
    acme: Product, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    busy(acme, "ann", "bob")
    rescore(NOON)
    ann = UserEngagement.objects.get(user__external_id="ann").user_id
    score_users = raw.score_users

    def score(
        score_set: ScoreSet, user_ids: Collection[int], today: Any, settled: Collection[int] = ()
    ) -> set[int]:
        if ann in user_ids:
            never_ends()
        return score_users(score_set, user_ids, today, settled)

    monkeypatch.setattr(raw, "score_users", score)
    tell(acme, track("ann"), track("bob"))
    with caplog.at_level(logging.ERROR):
        rescore(NOON)
    assert raws(acme) == {"ann": 1, "bob": 2}
    assert f"Scoring subject {ann} takes longer" in caplog.text


def test_no_step_is_about_more_than_5000_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = pace.score_in_chunks(range(12_000), len)
    assert sizes == [5_000, 5_000, 2_000]


def test_subjects_without_time_left_stay_in_the_queue(
    acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "MAX_SUBJECTS_PER_STATEMENT", 4)
    rescore(NOON)
    busy(acme, *PEOPLE)
    tell(acme, group("initech", user="user 1"))
    answers = iter([False])
    rescore(NOON, out_of_time=lambda: next(answers, True))
    assert len(raws(acme)) == 4
    rescore(NOON)
    assert raws(acme) == dict.fromkeys(PEOPLE, 1)


# --- Benchmarks and counts ----------------------------------------------------------------


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Statements that compute benchmarks never end."""
    fetch = sql.fetch

    def fetch_slowly(statement: Any, *arguments: Any, **options: Any) -> list[sql.Row]:
        if "percentile" in statement:
            never_ends()
        return fetch(statement, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(sql, "fetch", fetch_slowly)
        yield


@pytest.fixture
def scored(acme: Product) -> Product:
    busy(acme, "ann", "bob")
    rescore(NOON)
    return acme


def test_benchmarks_that_take_too_long_stay_the_same_and_do_not_stop_scoring(
    scored: Product, slow: None
) -> None:
    before = DailyBenchmark.objects.values_list("day", "users").order_by("day")
    old_rows = list(before)
    tell(scored, track("ann"), track("ann", hours=-48))
    rescore(NOON + timedelta(minutes=1))
    assert raws(scored) == {"ann": 3, "bob": 1}
    scores = ScoreSet.objects.get(state="current")
    assert (scores.user_benchmark, scores.benchmarks_stale) == (1.0, True)
    assert list(before) == old_rows
    # The next attempt waits as long as after benchmarks that took so long.
    job = Job.objects.get(kind=BENCHMARKS)
    assert job.due_at and job.stepped_at
    assert job.due_at - job.stepped_at >= timedelta(seconds=0.5 / 0.02)


@pytest.mark.slow
@pytest.mark.whole
def test_a_set_whose_benchmarks_take_too_long_is_not_published(acme: Product, slow: None) -> None:
    busy(acme, "ann")
    rescore(NOON)
    assert acme.workspaces.get().scores is None
    assert ScoreSet.objects.get().state == "building"


def test_counting_that_takes_too_long_keeps_the_last_counts(
    scored: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "_count_totals", lambda _: never_ends())
    busy(scored, "cyd")
    later = NOON + timedelta(minutes=11)
    rescore(later)
    cached = CachedCounts.objects.get()
    assert (cached.users, cached.counted_at >= later) == (2, True)
    # The next attempt waits as long as after a count that took this long.
    assert cached.seconds >= counts.STATEMENT_TIMEOUT_SECONDS


def test_insights_that_take_too_long_keep_no_other_count_back(
    scored: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    CachedCounts.objects.update(insights={"one_person": 7})
    monkeypatch.setattr(attention, "rank_insights", lambda _: never_ends())
    busy(scored, "cyd")
    tell(scored, identify("dan", group="acme"))
    rescore(NOON + timedelta(minutes=11))
    cached = CachedCounts.objects.get()
    assert (cached.users, cached.accounts, cached.insights) == (4, 1, {"one_person": 7})
    assert sum(cached.members.values()) > 0


# --- Statistics ---------------------------------------------------------------------------


def known_rows() -> int:
    ((rows,),) = sql.fetch(
        "SELECT reltuples::bigint FROM pg_class WHERE oid = 'engagement_user'::regclass"
    )
    return int(rows)


@pytest.fixture
def no_autovacuum() -> Iterator[None]:
    """ANALYZE skips a table that autovacuum has locked."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE engagement_user SET (autovacuum_enabled = off)")
        yield
        cursor.execute("ALTER TABLE engagement_user RESET (autovacuum_enabled)")


def flush_statistics() -> None:
    """Have this session's changed rows counted when its next statement ends, not a second later."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")


@one_server
@pytest.mark.django_db(transaction=True)
def test_tables_that_grew_are_analyzed_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch, no_autovacuum: None
) -> None:
    monkeypatch.setattr(statistics, "MIN_CHANGED_ROWS", 20)
    acme = Product.create_with_workspace("Acme")
    flush_statistics()
    statistics.analyze()
    assert statistics.analyze_grown_tables() == []
    before = known_rows()
    tell(acme, *(identify(f"user {number}") for number in range(before // 2 + 50)))
    flush_statistics()
    rescore(NOON)
    assert known_rows() >= 50
    # What scoring itself wrote may count as grown by now: the server counts it at most once a
    # second. The table that scoring reads does not.
    assert "engagement_user" not in statistics.analyze_grown_tables()
