"""Workers that are killed while they compute events: the next one goes on, events and outcomes are
those of a worker that lived, and each event is told once."""

import os
import random
import signal
from collections.abc import Callable
from datetime import timedelta
from itertools import count, islice
from typing import Any

import pytest

from core.database import sql
from engagement.models import Product
from harness.marketplace.lives import Life, generate_lives
from harness.marketplace.server import Simulator
from marketplace.ledger import recomputation
from marketplace.models import LedgerLicense, LicenseEvent, Observation
from notifications.models import OutboxMessage
from notifications.triggers import LICENSE_EVENTS, Trigger
from notifications.watching.sweep import sweep
from outcomes.models import LicenseOutcome
from outcomes.sources.licenses import OutcomeRow
from tests.cases import FACTOR
from tests.forks import fork
from tests.jobs import run_job
from tests.marketplace import connections
from tests.marketplace.connections import DAY, NOON, Kind, RunState, sync_now, work
from tests.marketplace.vendor_reports import show
from tests.notifications.rows import a_destination, subscribe

pytestmark = pytest.mark.django_db(transaction=True)

LIVES = 120
# The first import, and syncs later on.
DAYS = [NOON - 14 * DAY, NOON - 7 * DAY, NOON]


def die_after(statements: int) -> None:
    """Have this process be killed before it runs another statement."""
    numbers = count(1)

    def counted(run: Callable[..., Any]) -> Callable[..., Any]:
        def run_or_die(*arguments: Any, **options: Any) -> Any:
            if next(numbers) > statements:
                os.kill(os.getpid(), signal.SIGKILL)
            return run(*arguments, **options)

        return run_or_die

    for name in ("fetch", "execute"):
        setattr(sql, name, counted(getattr(sql, name)))


def is_killed(statements: int, task: Callable[[], object]) -> bool:
    """Run the task in a process of its own, which is killed after so many statements."""

    def limited() -> None:
        die_after(statements)
        task()

    _, status = os.waitpid(fork(limited), 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def rows_of(product: Product) -> list[tuple[Any, ...]]:
    names = ["license", "type", "anchor", "date", "known_on", "cloud_id", "details", "sources"]
    names += ["recorded_at", "withdrawn_at", "is_announced"]
    rows = LicenseEvent.objects.filter(product=product).order_by("license", "type", "anchor")
    return list(rows.values_list(*names))


def outcomes_of(product: Product) -> list[tuple[Any, ...]]:
    rows = LicenseOutcome.objects.filter(product=product).order_by("license", "kind", "day")
    return list(rows.values_list(*OutcomeRow._fields))


def messages_of(product: Product) -> list[str]:
    messages = OutboxMessage.objects.filter(product=product)
    texts = messages.values_list("title", flat=True)
    return sorted(text.removeprefix(f"{product.name}: ") for text in texts)


def play(
    simulator: Simulator, product: Product, lives: list[Life], compute: Callable[[Any], object]
) -> None:
    """Have the product's syncs read these lives, and compute their events after each."""
    destination = a_destination(product)
    for trigger in (*LICENSE_EVENTS, Trigger.LICENSE_EVENT_WITHDRAWN):
        subscribe(destination, trigger)
    for now in DAYS:
        show(simulator, lives, now.date())
        if now == DAYS[0]:
            connection = connections.connect(product, simulator, now)
            run = work(connection, now)
        else:
            run = sync_now(connection, now, Kind.FULL)
        assert run.state == RunState.SUCCEEDED
        compute(now)
        for minutes in (1, 3):
            sweep(now + timedelta(minutes=minutes))


@pytest.mark.parametrize("seed", range(max(1, round(2 * FACTOR))))
def test_killed_workers_leave_the_events_of_one_that_lived(
    acme: Product,
    globex: Product,
    simulator: Simulator,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(recomputation, "BATCH_SIZE", 20)
    lives = list(islice(generate_lives(seed, NOON.date()), LIVES))
    kills = []

    def compute_with_kills(now: Any) -> None:
        while recomputation._products_with_work():
            statements = chance.randrange(4, 60)
            if is_killed(statements, lambda: run_job(recomputation.KIND, now)):
                kills.append(statements)
                # What it had told by then is told.
                sweep(now + timedelta(seconds=len(kills)))

    play(simulator, globex, lives, lambda now: run_job(recomputation.KIND, now))
    play(simulator, acme, lives, compute_with_kills)
    assert len(kills) >= 5
    assert rows_of(acme) == rows_of(globex)
    assert outcomes_of(acme) == outcomes_of(globex) != []
    assert LedgerLicense.objects.filter(stale__gt=0).count() == 0
    assert Observation.objects.filter(product=acme).count() == (
        Observation.objects.filter(product=globex).count()
    )
    assert messages_of(acme) == messages_of(globex) != []
    assert len(messages_of(acme)) == len(set(messages_of(acme)))
