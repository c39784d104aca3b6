"""Workers are killed anywhere: every change is told, with one id, and nothing is invented."""

from collections import Counter
from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest

from access.trail import entries
from engagement.models import Product, ScoreSet
from notifications.delivery import deliver as delivering
from notifications.delivery import outcomes
from notifications.delivery.deliver import LEASE, deliver
from notifications.hooks import managing as hooks
from notifications.models import OutboxMessage
from notifications.watching import outbox, sweep
from tests.engagement.history import group, tell
from tests.forks import survives
from tests.notifications.receiver import Receiver
from tests.notifications.rows import (
    Clock,
    a_destination,
    a_segment,
    outbox_texts,
    settle,
    subscribe,
)
from tests.pipeline.test_workers_that_do_not_survive import kill_this_process
from tests.pipeline.waiting import Eventually, somebody_else, until_somebody_waits_for_a_lock

pytestmark = pytest.mark.django_db(transaction=True)

PAYS = {"kind": "trait", "trait": "plan", "operator": "is", "value": "pro"}
ACCOUNTS = [f"account {number}" for number in range(8)]


def kill(patch: pytest.MonkeyPatch, module: Any, name: str, *, after: bool) -> None:
    """Have the process die when it calls the function, before or after it does its work."""
    function: Callable[..., Any] = getattr(module, name)

    def deadly(*arguments: Any, **options: Any) -> Any:
        if after:
            function(*arguments, **options)
        kill_this_process()

    patch.setattr(module, name, deadly)


# In a sweep: before and after its first message, and before its commit. In a delivery: after the
# claim, after the response, inside the transaction that records it, and after that.
SWEEP_DEATHS = [(outbox, "_write", False), (outbox, "_write", True), (sweep, "_sweep_set", True)]
DELIVERY_DEATHS = [
    (delivering, "next_messages", False),
    (outcomes, "record", False),
    (outcomes, "log_attempt", True),
    (outcomes, "record", True),
]


@pytest.mark.slow
@pytest.mark.whole
def test_every_change_is_told_with_one_id_wherever_workers_die(
    acme: Product, receiver: Receiver, clock: Clock
) -> None:
    tell(acme, *[group(account) for account in ACCOUNTS])
    paying = a_segment(acme, PAYS)
    destination = a_destination(acme, receiver.url)
    subscribe(destination, "segment_entered", segment=paying)
    # A tool of automation hears of the others.
    only = hooks.HookParameters(segment_id=paying.pk, quiet_hours=0)
    hook = hooks.HookBody(receiver.url, "segment.left", paying.workspace_id, only)
    hooks.subscribe(acme, hook, None, "https://eds.example.com", entries.COMMAND_LINE, clock.now)
    settle(clock)
    changes: Counter[str] = Counter()
    deaths = 0
    sweep_deaths, delivery_deaths = cycle(SWEEP_DEATHS), cycle(DELIVERY_DEATHS)
    for round_number in range(8):
        account = ACCOUNTS[round_number % 3]
        plan = "pro" if round_number // 3 % 2 == 0 else "free"
        verb = "entered" if plan == "pro" else "left"
        changes[f"{account} {verb} Paying."] += 1
        message = group(account, plan=plan)
        tell(acme, type(message)(account, clock.step(), {"plan": plan}, None))
        deaths += die(next(sweep_deaths), lambda: settle(clock))
        settle(clock)
        deaths += die(next(delivery_deaths), lambda: deliver(clock))
        clock.step(LEASE.total_seconds() + 1)
    while deliver(clock):
        clock.step(LEASE.total_seconds() + 1)
    assert deaths == 16
    titles = OutboxMessage.objects.values_list("title", flat=True)
    assert Counter(titles) == changes
    ids = {message.message_id: message.title for message in OutboxMessage.objects.all()}
    assert {received.id: received.data["text"] for received in receiver.received} == ids
    # Some arrived twice, with the same id.
    assert len(receiver.received) > len(ids)
    assert not OutboxMessage.objects.exclude(state="delivered").exists()


def die(death: tuple[Any, str, bool], work: Callable[[], object]) -> bool:
    """Do the work in a process that dies there. Returns whether it did."""
    module, name, after = death
    with pytest.MonkeyPatch.context() as patch:
        kill(patch, module, name, after=after)
        return not survives(work)


def test_a_sweep_waits_for_scoring_that_is_under_way(acme: Product, clock: Clock) -> None:
    """Otherwise it would clear the mark of what it cannot see yet, and nothing would be told."""
    tell(acme, *[group(account) for account in ACCOUNTS])
    subscribe(a_destination(acme), segment=a_segment(acme, PAYS))
    settle(clock)
    ScoreSet.objects.update(watches_stale=True)
    with somebody_else() as scoring, scoring.transaction():
        scoring.execute("""UPDATE engagement_account SET traits = '{"plan": "pro"}'""")
        scoring.execute("UPDATE engagement_scoreset SET watches_stale = true")
        swept = Eventually(lambda: sweep.sweep(clock.step()))
        until_somebody_waits_for_a_lock()
    swept.result()
    assert len(outbox_texts()) == len(ACCOUNTS)
