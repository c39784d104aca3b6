"""Weeks that are over are packed: they take less room, and nobody who reads or writes notices."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from hypothesis import given
from hypothesis import strategies as st

from core.database import packing, sql
from core.database.partitions import maintain_partitions, partitions
from core.jobs import run
from core.models import Job
from engagement import event_lookup
from engagement.export import stream_statements
from engagement.messages import ReceivedMessage, Track
from engagement.models import Account, Event, EventName, Product, User
from engagement.recording.jobs import MOVE_JOINED, REATTRIBUTE
from engagement.recording.record import record
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal.forgetting import forget
from engagement.removal.jobs import ERASE_FORGOTTEN
from engagement.removal.maintenance import PACK_EVENTS, maintain
from ingestion.drain import processing
from tests.cases import examples, leaves_no_rows
from tests.database import CITUS, one_server_as
from tests.engagement.history import NOON, alias, at, identify, state, tell, track
from tests.jobs import run_job, step_job
from tests.pipeline.waiting import (
    at_once,
    counts,
    drain,
    kill_own_connection,
    somebody_else,
    wait,
    waiting,
)

IN_STEPS = one_server_as("a week is packed in one step.")
IN_ONE_TRANSACTION = one_server_as("it says no sizes in a transaction that has written.")
# The test's events happen in the week of noon. It is over then.
OVER = NOON + timedelta(days=4)
WEEK = "engagement_event_2026_09_21"

users = st.sampled_from(["ann", "bob", "cyd", "kiosk"])
hours = st.integers(-80, 80)
messages = st.one_of(
    st.builds(track, users, st.sampled_from(["opened", "saved"]), hours),
    st.builds(track, users, st.just("closed"), hours, st.sampled_from(["initech", "hooli"])),
    st.builds(identify, users, hours, st.sampled_from(["initech", "hooli", None])),
    st.builds(alias, st.just("kiosk"), st.sampled_from(["ann", "bob"]), hours),
)


@pytest.fixture
def weeks(db: None) -> Iterator[None]:
    drop_partitions()
    maintain_partitions(NOON.date(), retention_days=31)
    yield
    # Other tests are rolled back. After these, the database gets those of the present day again.
    if not connection.in_atomic_block:
        packing.give_up()
        drop_partitions()


def drop_partitions() -> None:
    for partition in partitions():
        sql.execute(f"DROP TABLE {partition.name}")


def pack() -> int:
    return run_job(PACK_EVENTS, OVER)


def is_packed() -> bool:
    ((comment,),) = sql.fetch(f"SELECT obj_description('{WEEK}'::regclass, 'pg_class')")
    return str(comment).startswith("packed in ")


def settled(product: Product) -> dict[str, Any]:
    """What recording has written, without the arrivals, after all moves in the background."""
    run_job(MOVE_JOINED, NOON)
    run_job(REATTRIBUTE, NOON)
    rows = state(product)
    rows["events"] = sorted(event[1:] for event in rows["events"])
    for subject in (*rows["users"].values(), *rows["accounts"].values()):
        assert subject[0] == {}
    memberships = sorted(rows["memberships"].items(), key=lambda row: row[1])
    return rows | {"memberships": [key for key, _ in memberships]}


def answers(product: Product) -> dict[str, Any]:
    """What the readers of events say: lookups by user, account, name, and time of receipt."""
    rows: dict[str, Any] = {"all": event_lookup.newest_events(product.pk, 500, {})}
    for kind, model in {"user": User, "account": Account, "name": EventName}.items():
        for pk in model._default_manager.filter(product=product).values_list("pk", flat=True):
            rows[f"{kind} {pk}"] = event_lookup.newest_events(product.pk, 5, {kind: pk})
    rows["since"] = event_lookup.newest_events(product.pk, 9, {}, since=NOON)
    rows["at"] = event_lookup.newest_events(product.pk, 9, {}, at=NOON)
    rows["never"] = event_lookup.newest_events(product.pk, 9, {}, at=at(1))
    rows["state"] = settled(product)
    return rows


@IN_ONE_TRANSACTION
@pytest.mark.django_db
@examples(5)
@given(st.lists(messages, max_size=12), st.lists(messages, max_size=6), st.lists(messages))
@leaves_no_rows
def test_packing_changes_no_answer_and_nothing_that_is_recorded_meanwhile_or_later(
    weeks: None, acme: Product, globex: Product, before: Any, meanwhile: Any, later: Any
) -> None:
    for batch in (before, meanwhile, later):
        tell(acme, *batch)
        settled(acme)
    unpacked = answers(acme)
    tell(globex, *before)
    settled(globex)
    step_job(PACK_EVENTS, OVER)
    tell(globex, *meanwhile)
    settled(globex)
    pack()
    assert is_packed() == Event.objects.filter(occurred_at__lt=at(84)).exists()
    tell(globex, *later)
    assert settled(globex) == unpacked["state"]
    assert answers(acme) == unpacked


@IN_ONE_TRANSACTION
@pytest.mark.django_db
def test_a_late_event_is_recorded_in_a_packed_week_and_another_packing_waits(
    weeks: None, acme: Product
) -> None:
    tell(acme, track("ann"), track("bob"))
    assert pack() > 1 and is_packed()
    tell(acme, track("ann", "late", 1))
    assert Event.objects.filter(product=acme).count() == 3
    assert pack() == 0


@pytest.mark.django_db(transaction=True)
def test_a_late_message_whose_worker_loses_its_connection_takes_effect_once(
    weeks: None, acme: Product, acme_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(acme, track("ann"))
    pack()
    assert is_packed()
    late = wait(acme_key, track("ann", hours=1))

    def record_and_die(received: Sequence[ReceivedMessage]) -> None:
        record(received)
        kill_own_connection()

    with monkeypatch.context() as patch, pytest.raises(OperationalError):
        patch.setattr(processing, "record", record_and_die)
        drain()
    assert counts(acme) == {("ann", "opened"): 1} and waiting() == late
    assert at_once(drain, drain) and drain().is_empty
    assert counts(acme) == {("ann", "opened"): 2} and waiting() == []
    assert Event.objects.filter(product=acme).count() == 2


@IN_ONE_TRANSACTION
@pytest.mark.django_db
def test_a_week_that_grew_is_packed_again(
    weeks: None, acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(acme, track("ann"))
    pack()
    monkeypatch.setattr(packing, "FEW_BLOCKS", 0)
    tell(acme, *(track(f"user {number}", hours=number / 10) for number in range(300)))
    before = answers(acme)
    assert pack() > 1
    assert answers(acme) == before
    assert pack() == 0


@IN_ONE_TRANSACTION
@pytest.mark.django_db
def test_the_present_week_is_not_packed(weeks: None, acme: Product) -> None:
    tell(acme, track("ann"))
    assert run_job(PACK_EVENTS, NOON) == 0 and not is_packed()


@IN_ONE_TRANSACTION
@pytest.mark.django_db
def test_who_is_forgotten_while_a_week_is_packed_or_later_is_in_no_table(
    weeks: None, acme: Product
) -> None:
    tell(acme, track("ann"), track("bob"), track("cyd"))
    step_job(PACK_EVENTS, OVER)
    erase(acme, "ann")
    pack()
    erase(acme, "bob")
    assert [event[1] for event in state(acme)["events"]] == ["cyd"]
    tables = sql.fetch("SELECT to_regclass(%(name)s)", {"name": "engagement_packing"})
    assert tables == [(None,)]


@IN_STEPS
@pytest.mark.django_db
def test_a_packing_that_somebody_pauses_leaves_no_second_table_with_people(
    weeks: None, acme: Product
) -> None:
    tell(acme, track("ann"))
    for _ in range(2):
        step_job(PACK_EVENTS, OVER)
    run.pause(Job.objects.get(kind=PACK_EVENTS).pk)
    maintain(OVER)
    assert sql.fetch("SELECT to_regclass('engagement_packing')") == [(None,)]
    run.resume(Job.objects.get(kind=PACK_EVENTS).pk, OVER)
    pack()
    assert is_packed()


def erase(product: Product, user: str) -> None:
    assert forget(SubjectRef(product.pk, SubjectScope.USER, user), NOON)
    run_job(ERASE_FORGOTTEN, NOON)


# --- Kills, and others who write at the same time ------------------------------------------------


class Killed(BaseException):
    pass


@IN_STEPS
@pytest.mark.django_db(transaction=True)
def test_a_worker_that_is_killed_in_any_statement_loses_nothing(
    weeks: None, acme: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "ROWS_PER_STEP", 3)
    monkeypatch.setattr(packing, "NOTES_PER_STEP", 20)
    tell(acme, *(track(name, hours=hour) for hour in range(4) for name in ("ann", "bob")))
    run_statements = packing._run
    statements, kill_at, kills = 0, 1, 0

    def killed(week: Any, *own: Any, **values: Any) -> Any:
        nonlocal statements
        rows = None
        for statement in own:
            statements += 1
            rows = run_statements(week, statement, **values)
            if statements == kill_at:
                raise Killed
        return rows

    monkeypatch.setattr(packing, "_run", killed)
    # Each step is killed after its first statement, then after its second, until it has no more.
    while not is_packed():
        statements = 0
        try:
            step_job(PACK_EVENTS, OVER)
            kill_at = 1
        except Killed:
            kill_at, kills = kill_at + 1, kills + 1
            tell(acme, track("cyd", hours=kills / 100))
        assert kills < 100
    statements = kill_at = 0
    run_job(PACK_EVENTS, OVER)
    recorded = Event.objects.filter(product=acme)
    assert recorded.count() == recorded.values("arrival").distinct().count()
    assert recorded.filter(user__external_id="cyd").count() == kills > 20
    assert recorded.count() == kills + 8


@pytest.mark.django_db(transaction=True)
def test_packing_gives_way_to_who_reads_or_writes_the_week(weeks: None, acme: Product) -> None:
    tell(acme, track("ann"), track("bob"), track("cyd"))
    before = answers(acme)
    for _ in range(3 if CITUS is None else 0):
        step_job(PACK_EVENTS, OVER)
    with holding("ROW EXCLUSIVE"):
        assert run_job(PACK_EVENTS, OVER) == 0
    assert not is_packed()
    assert Job.objects.get(kind=PACK_EVENTS).failures == 0
    # It rests for a moment.
    run_job(PACK_EVENTS, OVER + timedelta(minutes=1))
    assert is_packed() and answers(acme) == before
    tell(acme, track("ann", "late", 1))
    erase(acme, "bob")
    events = [(event[1], event[2]) for event in state(acme)["events"]]
    assert events == [("ann", "opened"), ("cyd", "opened"), ("ann", "late")]


@contextmanager
def holding(mode: str) -> Iterator[None]:
    """Somebody who writes to the week has not ended."""
    with somebody_else() as other:
        other.execute("BEGIN")
        other.execute(f"LOCK TABLE {WEEK} IN {mode} MODE")
        yield
        other.execute("ROLLBACK")


@IN_STEPS
@pytest.mark.django_db(transaction=True)
def test_who_reads_as_of_an_earlier_moment_still_finds_every_event(
    weeks: None, acme: Product
) -> None:
    tell(acme, track("ann"), track("bob"))
    with somebody_else() as dump:
        dump.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        dump.execute("SELECT count(*) FROM engagement_user")
        assert pack() > 1 and not is_packed()
        assert dump.execute("SELECT count(*) FROM engagement_event").fetchall() == [(2,)]
        dump.execute("ROLLBACK")
    run_job(PACK_EVENTS, OVER + timedelta(minutes=1))
    assert is_packed()


@IN_STEPS
@pytest.mark.django_db(transaction=True)
def test_a_week_does_not_change_places_under_an_export(weeks: None, acme: Product) -> None:
    tell(acme, track("ann"), track("bob"))
    statements = stream_statements(acme.pk)
    first = next(statements)
    with ThreadPoolExecutor(1) as pool:
        # In a connection of its own.
        pool.submit(in_own_connection, pack).result()
    assert not is_packed()
    exported = [first, *statements]
    assert len([each for each, _ in exported if isinstance(each, Track)]) == 2


def in_own_connection(work: Callable[[], object]) -> None:
    try:
        work()
    finally:
        connection.close()


@IN_STEPS
@pytest.mark.django_db(transaction=True)
def test_others_read_and_write_between_all_steps(weeks: None, acme: Product) -> None:
    tell(acme, track("ann"))
    with somebody_else() as other:
        for number in range(1, 20):
            step_job(PACK_EVENTS, OVER)
            tell(acme, track("ann", hours=number / 10))
            rows = other.execute("SELECT count(*) FROM engagement_event").fetchall()
            assert rows == [(number + 1,)]
            if is_packed():
                return
    pytest.fail("It was never packed.")


# --- Bytes ----------------------------------------------------------------------------------------

BYTES = """
    SELECT pg_relation_size(c.oid), pg_indexes_size(c.oid) FROM pg_class c WHERE relname = %(name)s
"""


@one_server_as("its tables are on the nodes.")
@pytest.mark.django_db
def test_an_event_takes_at_most_90_bytes_once_its_week_is_over(weeks: None, acme: Product) -> None:
    fill(acme, 60_000)
    on_the_day = bytes_of(60_000)
    pack()
    packed = bytes_of(60_000)
    # Bytes of the heap and of the indexes. These are exact, and the same on each machine.
    assert on_the_day == pytest.approx((85.2, 72.1), abs=1)
    assert packed == pytest.approx((84.5, 3.7), abs=0.2)
    assert sum(packed) <= 90


def fill(product: Product, events: int) -> None:
    """Events of 2,000 users all over the week, recorded in the order of arrival."""
    start, step = datetime(2026, 9, 21, tzinfo=UTC), timedelta(days=6.9) / events
    batches: list[Track] = []
    for number in range(events):
        user = f"user {number * 7919 % 2000}"
        batches.append(Track(user, f"event {number % 20}", start + number * step, "initech"))
    for first in range(0, events, 5000):
        record(
            [
                ReceivedMessage(
                    product.pk, 2_000_000_000 + first + place, message.timestamp, message
                )
                for place, message in enumerate(batches[first : first + 5000])
            ]
        )


def bytes_of(events: int) -> tuple[float, float]:
    ((heap, indexes),) = sql.fetch(BYTES, {"name": WEEK})
    return round(heap / events, 1), round(indexes / events, 1)
