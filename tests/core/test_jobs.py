"""Background jobs: each step happens once, whatever dies, and a failure delays no other job."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, transaction

from core.jobs import kinds, run
from core.jobs.backoff import Backoff
from core.jobs.kinds import Blocked, Done, Later, More, Outcome, StepFailed
from core.jobs.shares import rest_until, time_limit
from core.jobs.tasks import create_task
from core.models.jobs import Job
from tests.cases import each

pytestmark = pytest.mark.django_db(transaction=True)

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
QUEUE = "tests"


@pytest.fixture(autouse=True)
def _no_other_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_kinds", {})


def register(name: str, step: Callable[[Job, datetime], Outcome], **options: Any) -> None:
    kinds.register(name, name, queue=QUEUE, step=step, **options)


def run_at(now: datetime, **options: Any) -> int:
    return run.run_due(QUEUE, lambda: now, **options)


def count_to(total: int, numbers: list[int]) -> Callable[[Job, datetime], Outcome]:
    def step(job: Job, now: datetime) -> Outcome:
        number = (job.cursor or 0) + 1
        numbers.append(number)
        return Done() if number == total else More(number, progress=number, total=total)

    return step


def test_a_job_goes_on_from_its_cursor_until_it_is_done() -> None:
    numbers: list[int] = []
    register("count", count_to(3, numbers), every=timedelta(minutes=1))
    assert run_at(NOON) == 2
    assert numbers == [1, 2, 3]
    job = Job.objects.get()
    assert (job.due_at, job.cursor, job.steps) == (NOON + timedelta(minutes=1), None, 3)
    run_at(NOON + timedelta(seconds=59))
    assert numbers == [1, 2, 3]


def test_a_job_without_time_keeps_its_place_and_shows_its_progress() -> None:
    numbers: list[int] = []
    register("count", count_to(3, numbers))
    assert run_at(NOON, out_of_time=lambda: True) == 1
    job = Job.objects.get()
    assert (job.cursor, job.progress, job.total) == (1, 1, 3)
    run_at(NOON)
    assert numbers == [1, 2, 3]


def test_every_due_job_gets_a_step_even_if_time_is_out() -> None:
    numbers: list[int] = []
    for name in ("a", "b", "c"):
        register(name, count_to(9, numbers))
    assert run_at(NOON, out_of_time=lambda: True) == 3


def test_a_failure_is_kept_waits_and_delays_no_other_job() -> None:
    numbers: list[int] = []

    def fail(job: Job, now: datetime) -> Outcome:
        raise ValueError("no luck\nDETAIL: the row of ada@example.com")

    backoff = Backoff(timedelta(seconds=5), 3, timedelta(hours=1))
    register("fails", fail, backoff=backoff)
    register("count", count_to(2, numbers))
    run_at(NOON)
    assert numbers == [1, 2]
    job = Job.objects.get(kind="fails")
    assert (job.failures, job.error) == (1, "ValueError: no luck")
    assert job.due_at == NOON + timedelta(seconds=5)
    run_at(NOON + timedelta(seconds=5))
    job.refresh_from_db()
    assert (job.failures, job.due_at) == (2, NOON + timedelta(seconds=20))


def test_an_idle_job_looks_for_work_at_each_run_and_writes_nothing() -> None:
    numbers: list[int] = []
    register("count", count_to(1, numbers))
    for _ in range(3):
        run_at(NOON)
    assert numbers == [1, 1, 1]
    assert Job.objects.get().steps == 0


def test_a_worker_that_dies_in_a_step_leaves_it_to_another() -> None:
    cursors: list[int | None] = []

    def step(job: Job, now: datetime) -> Outcome:
        cursors.append(job.cursor)
        if len(cursors) == 2:
            # The server ends the connection, as it does when its client is killed.
            connection.ensure_connection()
            assert connection.connection is not None
            connection.connection.close()
        return More(len(cursors)) if len(cursors) < 4 else Done()

    register("dies", step)
    with pytest.raises(OperationalError):
        run_at(NOON)
    connection.close()
    run_at(NOON)
    assert cursors == [None, 1, 1, 3]


def test_a_failed_step_leaves_nothing_behind() -> None:
    def fail(job: Job, now: datetime) -> Outcome:
        Job.objects.create(kind="left behind")
        raise ValueError

    register("fails", fail)
    run_at(NOON)
    assert not Job.objects.filter(kind="left behind").exists()


def test_a_step_that_succeeds_clears_the_failures() -> None:
    register("count", count_to(1, []))
    Job.objects.create(kind="count", due_at=NOON, failures=3, error="no luck")
    run_at(NOON)
    job = Job.objects.get()
    assert (job.failures, job.error) == (0, "")


def test_a_paused_job_rests_until_it_is_resumed() -> None:
    numbers: list[int] = []
    register("count", count_to(1, numbers))
    job = Job.objects.create(kind="count", due_at=NOON)
    assert run.pause(job.pk)
    run_at(NOON)
    assert numbers == []
    assert run.resume(job.pk, NOON)
    run_at(NOON)
    assert numbers == [1]


def test_a_job_that_waits_runs_at_its_time_or_when_it_is_requested() -> None:
    times: list[datetime] = []

    def step(job: Job, now: datetime) -> Outcome:
        times.append(now)
        return Later(now + timedelta(hours=1))

    register("waits", step)
    run_at(NOON)
    soon = NOON + timedelta(minutes=1)
    run_at(soon)
    run.request("waits", soon)
    run_at(soon)
    assert times == [NOON, soon]


def test_jobs_of_one_kind_are_told_apart_by_their_keys() -> None:
    keys: list[str] = []

    def step(job: Job, now: datetime) -> Outcome:
        keys.append(job.key)
        return Done()

    register("each", step, keys=lambda: [])
    for key in (1, 2, 1):
        run.request("each", NOON, key)
    run_at(NOON)
    assert sorted(keys) == ["1", "2"]


def test_another_worker_skips_the_job_whose_step_is_under_way() -> None:
    numbers: list[int] = []
    register("count", count_to(1, numbers))
    run.request("count", NOON)
    with transaction.atomic():
        Job.objects.select_for_update().get()
        other: list[int] = []

        def work() -> None:
            try:
                other.append(run_at(NOON))
            finally:
                connection.close()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert (other, numbers) == ([0], [])


def test_a_job_of_a_kind_that_this_release_does_not_know_stays() -> None:
    Job.objects.create(kind="of the next release", due_at=NOON)
    assert run_at(NOON) == 0
    assert Job.objects.get().due_at == NOON


@each(
    ("failures", "seconds"),
    [(1, 5), (2, 15), (3, 45), (4, 60), (5_000, 60)],
)
def test_a_backoff_grows_to_its_longest_wait(failures: int, seconds: int) -> None:
    backoff = Backoff(timedelta(seconds=5), 3, timedelta(minutes=1))
    assert backoff.delay(failures) == timedelta(seconds=seconds)


# --- Keys -----------------------------------------------------------------------------------


def test_each_key_has_a_job_until_it_is_done() -> None:
    todo = {7: 2, 9: 1}
    order: list[str] = []

    def step(job: Job, now: datetime) -> Outcome:
        order.append(job.key)
        todo[int(job.key)] -= 1
        if todo[int(job.key)]:
            return More()
        del todo[int(job.key)]
        return Done()

    register("each", step, keys=lambda: list(todo))
    run_at(NOON)
    # In turns.
    assert order == ["7", "9", "7"]
    assert not Job.objects.exists()
    todo[7] = 1
    run_at(NOON)
    assert order == ["7", "9", "7", "7"]


def test_without_time_the_jobs_of_a_kind_take_turns() -> None:
    order: list[str] = []

    def step(job: Job, now: datetime) -> Outcome:
        order.append(job.key)
        return More()

    register("each", step, keys=lambda: [7, 8, 9])
    register("other", count_to(9, []))
    for _ in range(4):
        assert run_at(NOON, out_of_time=lambda: True) == 2
    assert order == ["7", "8", "9", "7"]


def test_without_time_each_job_of_an_urgent_kind_gets_a_step() -> None:
    order: list[str] = []

    def step(job: Job, now: datetime) -> Outcome:
        order.append(job.key)
        return More()

    register("each", step, keys=lambda: [7, 8, 9], is_urgent=True)
    assert run_at(NOON, out_of_time=lambda: True) == 3
    assert order == ["7", "8", "9"]


def test_a_clock_that_was_ahead_delays_no_job_that_has_more_to_do() -> None:
    register("each", lambda job, now: More(), keys=lambda: [7])
    for now in (NOON + timedelta(hours=20), NOON):
        assert run_at(now, out_of_time=lambda: True) == 1


def test_a_queue_has_keys_while_one_of_its_kinds_does() -> None:
    todo: list[int] = []
    register("idle", count_to(1, []))
    register("each", lambda job, now: Done(), keys=lambda: todo)
    assert run.keys_in(QUEUE) == set()
    todo.append(7)
    assert (run.keys_in(QUEUE), run.keys_in("others")) == ({7}, set())


def test_a_job_with_a_key_keeps_its_failures_until_it_succeeds() -> None:
    luck = [False, False, True]

    def step(job: Job, now: datetime) -> Outcome:
        if not luck.pop(0):
            raise ValueError("no luck")
        return Done()

    register("each", step, keys=lambda: [7])
    run_at(NOON)
    run_at(NOON + timedelta(seconds=5))
    assert Job.objects.get(key="7").failures == 2
    run_at(NOON + timedelta(minutes=1))
    assert not Job.objects.exists()


def test_a_blocked_job_stays_as_it_is_until_the_next_run() -> None:
    tries: list[int] = []

    def step(job: Job, now: datetime) -> Outcome:
        tries.append(1)
        return Blocked()

    register("blocked", step, keys=lambda: [7])
    run_at(NOON)
    before = Job.objects.values().get()
    run_at(NOON)
    assert Job.objects.values().get() == before
    assert len(tries) == 2


def test_in_a_turn_kinds_go_in_the_order_of_their_registration() -> None:
    order: list[str] = []

    def step(job: Job, now: datetime) -> Outcome:
        order.append(job.kind)
        return Done()

    register("first", step, keys=lambda: [])
    register("second", step, keys=lambda: [])
    run.request("second", NOON - timedelta(hours=1), 7)
    run.request("first", NOON, 7)
    run_at(NOON)
    assert order == ["first", "second"]


def test_a_job_is_finished_for_who_waits_for_it() -> None:
    todo = {7: 3, 9: 1}
    counts: list[int] = []

    def step(job: Job, now: datetime) -> Outcome:
        todo[int(job.key)] -= 1
        return More(progress=job.progress + 1) if todo[int(job.key)] else Done()

    register("each", step, keys=lambda: list(todo))
    assert run.finish("each", 7, lambda: NOON, lambda more: counts.append(more.progress))
    assert (counts, todo) == ([1, 2], {7: 0, 9: 1})
    todo[7] = 1
    run.request("each", NOON, 7)
    run.pause(Job.objects.get(key="7").pk)
    assert not run.finish("each", 7, lambda: NOON)
    assert todo[7] == 1


# --- Leases ---------------------------------------------------------------------------------

LEASE = timedelta(minutes=1)


def test_a_step_with_a_lease_holds_no_transaction() -> None:
    states: list[tuple[bool, bool]] = []

    def step(job: Job, now: datetime) -> Outcome:
        is_leased = Job.objects.filter(leased_until=NOON + LEASE).exists()
        states.append((connection.in_atomic_block, is_leased))
        return Later()

    register("slow", step, lease=LEASE)
    run_at(NOON)
    assert states == [(False, True)]
    job = Job.objects.get()
    assert (job.lease, job.leased_until, job.steps) == (None, None, 1)


def test_the_job_of_a_dead_worker_goes_on_when_its_lease_has_ended() -> None:
    cursors: list[int | None] = []

    def step(job: Job, now: datetime) -> Outcome:
        cursors.append(job.cursor)
        if len(cursors) == 2:
            raise KeyboardInterrupt
        return More(1) if len(cursors) == 1 else Done()

    register("slow", step, lease=LEASE)
    with pytest.raises(KeyboardInterrupt):
        run_at(NOON)
    run_at(NOON + LEASE / 2)
    assert cursors == [None, 1]
    run_at(NOON + LEASE)
    job = Job.objects.get()
    assert (job.failures, job.error, job.cursor) == (1, run.CRASHED, 1)
    run_at(NOON + LEASE + timedelta(seconds=5))
    assert cursors == [None, 1, 1]
    assert Job.objects.get().failures == 0


def test_a_worker_that_lost_its_lease_writes_nothing() -> None:
    def step(job: Job, now: datetime) -> Outcome:
        # Another worker took it over meanwhile.
        Job.objects.filter(pk=job.pk).update(lease=uuid4(), leased_until=NOON + 2 * LEASE)
        with run.holding(job):
            Job.objects.create(kind="written")
        return More(1)

    register("slow", step, lease=LEASE)
    run_at(NOON)
    job = Job.objects.get()
    assert (job.cursor, job.failures, job.leased_until) == (None, 0, NOON + 2 * LEASE)


def test_a_worker_whose_job_was_ended_writes_nothing() -> None:
    def step(job: Job, now: datetime) -> Outcome:
        run.end("slow", 7)
        with run.holding(job):
            Job.objects.create(kind="written")
        return Done()

    register("slow", step, keys=lambda: [], lease=LEASE)
    run.request("slow", NOON, 7)
    run.request("slow", NOON + LEASE, 8)
    run_at(NOON)
    assert list(Job.objects.values_list("key", flat=True)) == ["8"]


def test_a_worker_renews_its_lease_with_what_it_writes() -> None:
    def step(job: Job, now: datetime) -> Outcome:
        with run.holding(job, NOON + 5 * LEASE):
            Job.objects.create(kind="written")
        assert Job.objects.filter(kind="slow", leased_until=NOON + 5 * LEASE).exists()
        return Done()

    register("slow", step, lease=LEASE)
    run_at(NOON)
    assert Job.objects.filter(kind="written").exists()


def test_a_step_with_a_lease_that_loses_against_another_worker_is_repeated() -> None:
    tries: list[int] = []

    def step(job: Job, now: datetime) -> Outcome:
        tries.append(1)
        if len(tries) == 1:
            with connection.cursor() as cursor:
                cursor.execute("DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$")
        return Done()

    register("slow", step, lease=LEASE)
    run_at(NOON)
    assert len(tries) == 2
    assert Job.objects.get().failures == 0


# --- Giving up ------------------------------------------------------------------------------


def test_a_job_that_fails_too_often_is_given_up() -> None:
    given_up: list[tuple[str, str]] = []

    def step(job: Job, now: datetime) -> Outcome:
        raise StepFailed("The store refuses the key. Enter another one.")

    backoff = Backoff(timedelta(minutes=1), 4, timedelta(hours=1), give_up=2)
    register(
        "writes",
        step,
        keys=lambda: [],
        backoff=backoff,
        on_give_up=lambda job: given_up.append((job.key, job.error)),
    )
    run.request("writes", NOON, 7)
    run_at(NOON)
    assert given_up == []
    run_at(NOON + timedelta(minutes=1))
    assert given_up == [("7", "The store refuses the key. Enter another one.")]
    assert not Job.objects.filter(key="7").exists()


# --- Shares ---------------------------------------------------------------------------------


def test_a_job_rests_for_its_share_of_the_time() -> None:
    def step(job: Job, now: datetime) -> Outcome:
        time.sleep(0.05)
        return Later()

    register("rests", step, share=0.01)
    register("rests longer", step, shortest_rest=timedelta(hours=1))
    run_at(NOON)
    rests = Job.objects.get(kind="rests").due_at
    assert rests is not None
    assert rests - NOON >= timedelta(seconds=5)
    assert Job.objects.get(kind="rests longer").due_at == NOON + timedelta(hours=1)


def test_a_job_of_several_steps_rests_for_all_of_them() -> None:
    def step(job: Job, now: datetime) -> Outcome:
        if job.cursor is None:
            time.sleep(0.05)
            return More("rest")
        return Later()

    register("rests", step, share=0.01)
    for _ in range(2):
        run_at(NOON)
        job = Job.objects.get()
        assert job.due_at is not None
        assert timedelta(seconds=5) <= job.due_at - NOON < timedelta(seconds=50)
        # A rest is not counted again at the next one.
        assert job.unrested_seconds == 0
        run.request("rests", NOON)


def test_a_wait_varies_by_its_jitter() -> None:
    backoff = Backoff(timedelta(seconds=100), 1, timedelta(hours=1), jitter=0.2)
    delays = {backoff.delay(1).total_seconds() for _ in range(50)}
    assert len(delays) > 1
    assert all(80 <= delay <= 120 for delay in delays)


def test_a_time_limit_is_over_after_its_seconds() -> None:
    assert time_limit(-1)() and not time_limit(60)()


def test_work_rests_so_long_that_it_keeps_its_share() -> None:
    assert rest_until(NOON, 2.0, 0.05) == NOON + timedelta(seconds=40)


# --- Tasks ----------------------------------------------------------------------------------


def test_a_task_runs_its_queue_and_requests_what_follows() -> None:
    numbers: list[int] = []
    followed: list[int] = []
    register("count", count_to(3, numbers), keys=lambda: [] if numbers else [7])
    task = create_task(
        "tests.count", QUEUE, seconds=-1, after_steps=lambda: followed.append(len(numbers))
    )
    for _ in range(4):
        task()
    # A step in each run, and nothing to follow once all is done.
    assert (numbers, followed) == ([1, 2, 3], [1, 2])


def test_a_task_ends_early_while_others_wait() -> None:
    numbers: list[int] = []
    others = [True, True, False, False]
    register("count", count_to(9, numbers), keys=lambda: [7])
    task = create_task(
        "tests.others",
        QUEUE,
        seconds=60,
        after_steps=list,
        shared_seconds=-1,
        others_wait=lambda: others.pop(0) if others else True,
    )
    task()
    assert numbers == [1]
    task()
    assert numbers == [1, 2]
    task()
    assert numbers == [1, 2, 3, 4, 5]
