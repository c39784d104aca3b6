"""Work on a product that is killed at any statement goes on, and ends as if it had not been.

Each kind of job, with steps so small that it takes several.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, LiteralString, NamedTuple

import pytest
from django.db import Error, connection

from core.database import sql
from core.jobs.run import keys_in, run_due
from core.models import Job
from engagement.models import Product
from engagement.recording import moving, parting, reattribution
from engagement.recording.jobs import MOVE_JOINED, MOVE_PARTED, REATTRIBUTE
from engagement.recording.jobs import QUEUE as MOVES
from engagement.recording.suppression import SubjectRef, SubjectScope
from engagement.removal import deletion, forgetting
from engagement.removal.jobs import DELETE_PRODUCT, ERASE_FORGOTTEN
from engagement.removal.jobs import QUEUE as REMOVAL
from tests.engagement.history import NOON, alias, identify, state, tell, track
from tests.engagement.test_aliases import comparable
from tests.forgetting.test_deleting_products import rows_of
from tests.jobs import step_job
from tests.pipeline.waiting import somebody_else

pytestmark = pytest.mark.django_db(transaction=True)

QUEUES = (MOVES, REMOVAL)
# A run is killed after this many statements, the next one after as many more.
STATEMENTS = 7


class Work(NamedTuple):
    """What makes work of the kind, and what is to be the same after it."""

    kind: str
    prepare: Callable[[Product], None]
    report: Callable[[Product], Any]


def move_late(product: Product) -> None:
    tell(product, identify("ann", -1000, "initech"), *(track("ann", hours=n) for n in range(9)))
    tell(product, identify("ann", -1, "hooli"))


def join(product: Product) -> None:
    tell(product, identify("old", -30, "initech"), identify("new", -3.5, "hooli"))
    tell(product, *(track("old", f"event {n % 3}", n) for n in range(-8, 0)), track("new"))
    tell(product, alias("old", "new"))


def part(product: Product) -> None:
    join(product)
    finish()
    parting.part(product.pk, "old", NOON)


def forget(product: Product) -> None:
    users = [f"user {number}" for number in range(9)]
    tell(product, *(identify(user, -2, "initech") for user in users))
    tell(product, *(track(user, hours=-1) for user in users))
    tell(product, *(identify(user, 0, "hooli") for user in users[::2]), track("user 2", hours=1))
    forgetting.forget(SubjectRef(product.pk, SubjectScope.ACCOUNT, "initech"), NOON)
    forgetting.forget(SubjectRef(product.pk, SubjectScope.USER, "user 1"), NOON)


def delete(product: Product) -> None:
    join(product)
    deletion.request_deletion(product.pk, NOON)


def recorded(product: Product) -> Any:
    return comparable(state(product))


def rows_by_table(product: Product) -> Any:
    return rows_of(product.pk), Product.objects.filter(pk=product.pk).exists()


WORK = [
    Work(REATTRIBUTE, move_late, recorded),
    Work(MOVE_JOINED, join, recorded),
    Work(MOVE_PARTED, part, recorded),
    Work(ERASE_FORGOTTEN, forget, recorded),
    Work(DELETE_PRODUCT, delete, rows_by_table),
]


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reattribution, "MAX_EVENTS_PER_BATCH", 3)
    monkeypatch.setattr(reattribution, "EVENTS_PER_STEP", 2)
    monkeypatch.setattr(moving, "MAX_ROWS_PER_BATCH", 0)
    monkeypatch.setattr(moving, "ROWS_PER_STEP", 2)
    monkeypatch.setattr(parting, "ROWS_PER_STEP", 2)
    monkeypatch.setattr(forgetting, "USERS_PER_TRANSACTION", 2)
    monkeypatch.setattr(deletion, "ROWS_PER_TRANSACTION", 2)


@pytest.fixture(params=WORK, ids=lambda work: work.kind)
def work(request: pytest.FixtureRequest) -> Iterator[Work]:
    yield request.param
    assert not Job.objects.filter(kind=request.param.kind).exists()


def finish() -> None:
    is_over = False
    while not is_over:
        is_over = not any(map(keys_in, QUEUES))
        for queue in QUEUES:
            run_due(queue, lambda: NOON)
        assert not Job.objects.filter(failures__gt=0).exists()


@contextmanager
def killed_after(statements: int) -> Iterator[None]:
    """Have the server end the connection in the block, as it does when its client is killed."""
    countdown = count(statements, -1)

    def kill(run: Callable[..., Any]) -> Callable[..., Any]:
        def execute(*arguments: Any) -> Any:
            if not next(countdown):
                connection.ensure_connection()
                assert connection.connection is not None
                connection.connection.close()
            return run(*arguments)

        return execute

    with (
        pytest.MonkeyPatch.context() as patch,
        connection.execute_wrapper(lambda run, *arguments: kill(run)(*arguments)),
    ):
        for name in ("fetch", "execute"):
            patch.setattr(sql, name, kill(getattr(sql, name)))
        yield


def test_a_killed_worker_loses_and_repeats_nothing(
    work: Work, acme: Product, globex: Product
) -> None:
    for product in (globex, acme):
        work.prepare(product)
        if product == globex:
            finish()
    expected, kills = work.report(globex), 0
    for statements in count(STATEMENTS, STATEMENTS):
        try:
            with killed_after(statements):
                finish()
            break
        except Error:
            kills += 1
            connection.close()
    assert kills > 4
    assert work.report(acme) == expected


def test_another_worker_leaves_the_step_to_the_one_that_has_it(work: Work, acme: Product) -> None:
    work.prepare(acme)
    assert step_job(work.kind, NOON)
    before = work.report(acme)
    lock: LiteralString = "SELECT FROM core_job WHERE kind = %s FOR UPDATE"
    with somebody_else() as other, other.transaction():
        other.execute(lock, [work.kind])
        assert not step_job(work.kind, NOON)
        assert work.report(acme) == before
    assert step_job(work.kind, NOON)
    assert work.report(acme) != before
    finish()
