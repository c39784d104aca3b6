"""Delivers the messages of the outbox: each at least once, and in order for each subject.

A worker claims a destination by a lease, sends its messages one after the other, and records what
became of each in a transaction. If it dies, the lease runs out, and another worker sends the
message again, with the same id. Requests run in threads, so a slow receiver delays nobody else.
``outcomes.py`` says when a failed one is sent again, and when nobody tries any more.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import LiteralString
from uuid import UUID, uuid4

from django.db import transaction

from core.database import sql
from core.fields import DecryptionError
from core.outbound.addresses import Resolver
from core.outbound.requests import DEADLINE, Request, Result, timed_out
from engagement import traces
from notifications.delivery import formats, outcomes
from notifications.digests.content import is_digest
from notifications.models import Delivery, Destination, OutboxMessage

logger = logging.getLogger(__name__)

# Destinations that one worker serves at the same time.
MAX_AT_ONCE = 16
# A worker that records nothing for this long is dead. Longer than a request may take.
LEASE = timedelta(seconds=60)
# Seconds after which a destination with more messages gives others a turn.
TURN_SECONDS = 10.0

Clock = Callable[[], datetime]


@dataclass
class Turn:
    """A destination that this worker serves, and the messages on their way to it."""

    destination: Destination
    lease: UUID
    started: float
    messages: list[OutboxMessage]
    request: Request
    # The trace of the message that changed the first subject, if it was traced.
    traceparent: str | None
    sent_at: float = 0.0


class Dispatcher:
    """Serves destinations until none has anything due, or time runs out."""

    def __init__(
        self, clock: Clock, out_of_time: Callable[[], bool], resolve: Resolver | None = None
    ) -> None:
        self._clock, self._out_of_time, self._resolve = clock, out_of_time, resolve
        self._turns: dict[Future[Result], Turn] = {}
        self._executor = ThreadPoolExecutor(MAX_AT_ONCE, thread_name_prefix="notification")
        self._attempts: Counter[Delivery.Outcome] = Counter()

    def run(self) -> "Counter[Delivery.Outcome]":
        """Returns the number of attempts by outcome, message by message."""
        try:
            while self._fill() or self._turns:
                self._collect()
        finally:
            self._executor.shutdown(wait=False, cancel_futures=True)
        return self._attempts

    def _fill(self) -> bool:
        """Begin turns while there is room. Returns whether any began."""
        has_begun = False
        while len(self._turns) < MAX_AT_ONCE and not self._out_of_time():
            turn = self._begin_turn()
            if turn is None:
                break
            has_begun = True
            self._send(turn)
        return has_begun

    def _begin_turn(self) -> Turn | None:
        now, lease = self._clock(), uuid4()
        try:
            destination = claim(now, lease)
        except DecryptionError as error:
            # Its lease keeps it away for a while. The other destinations get their messages.
            logger.error("%s", error)
            return None
        if destination is None:
            return None
        messages = next_messages(destination, now)
        if not messages:
            # Somebody was forgotten at this moment.
            release(destination.pk, lease)
            return None
        traceparent = _trace_of(messages)
        request = formats.build_request(destination, messages, now, self._resolve, traceparent)
        return Turn(destination, lease, time.monotonic(), messages, request, traceparent)

    def _send(self, turn: Turn) -> None:
        turn.sent_at = time.monotonic()
        self._turns[self._executor.submit(turn.request.run)] = turn

    def _collect(self) -> None:
        """Wait for a request to end or to exceed its deadline, and record what became of it."""
        first_deadline = min(turn.sent_at for turn in self._turns.values()) + DEADLINE
        finished_turns, _ = wait(
            self._turns, max(0.0, first_deadline - time.monotonic()), FIRST_COMPLETED
        )
        for future in finished_turns:
            self._finish(self._turns.pop(future), future.result())
        for future, turn in list(self._turns.items()):
            if time.monotonic() >= turn.sent_at + DEADLINE:
                del self._turns[future]
                turn.request.cut_off()
                self._replace_executor()
                self._finish(turn, timed_out(DEADLINE))

    def _replace_executor(self) -> None:
        """The thread that was cut off may still wait for the name service: leave it behind."""
        self._executor.shutdown(wait=False)
        self._executor = ThreadPoolExecutor(MAX_AT_ONCE, thread_name_prefix="notification")

    def _finish(self, turn: Turn, result: Result) -> None:
        now = self._clock()
        if turn.traceparent:
            started = now - timedelta(seconds=result.seconds)
            outcome = str(result.outcome)
            traces.report("deliver", turn.traceparent, started, now, outcome=outcome)
        may_continue = outcomes.record(turn.destination, turn.lease, turn.messages, result, now)
        self._attempts[result.outcome] += len(turn.messages)
        is_over = self._out_of_time() or time.monotonic() > turn.started + TURN_SECONDS
        if may_continue and not is_over:
            turn.messages = next_messages(turn.destination, now)
            if turn.messages and renew(turn.destination.pk, turn.lease, now):
                turn.traceparent = _trace_of(turn.messages)
                turn.request = formats.build_request(
                    turn.destination, turn.messages, now, self._resolve, turn.traceparent
                )
                self._send(turn)
                return
        release(turn.destination.pk, turn.lease)


def _trace_of(messages: Sequence[OutboxMessage]) -> str | None:
    first = messages[0]
    return traces.of_subject(first.product_id, first.scope, first.subject_id)


def deliver(
    clock: Clock,
    *,
    out_of_time: Callable[[], bool] = lambda: False,
    resolve: Resolver | None = None,
) -> "Counter[Delivery.Outcome]":
    """Deliver what is due. Returns the number of attempts by outcome, message by message."""
    return Dispatcher(clock, out_of_time, resolve).run()


# --- Claims ---------------------------------------------------------------------------------

# Due messages whose subject has no earlier one waiting.
_SENDABLE: LiteralString = """
    FROM notifications_outboxmessage m
    WHERE m.destination_id = {destination} AND m.state = 'waiting'
      AND m.next_attempt_at <= %(now)s
      AND NOT EXISTS (
          SELECT FROM notifications_outboxmessage earlier
          WHERE earlier.destination_id = m.destination_id AND earlier.state = 'waiting'
            AND earlier.scope = m.scope AND earlier.subject_id = m.subject_id
            AND earlier.id < m.id)
"""
_CLAIM: LiteralString = f"""
    UPDATE notifications_destination SET
        lease = %(lease)s, leased_until = %(until)s, served_at = %(now)s
    WHERE id = (
        SELECT d.id FROM notifications_destination d
        JOIN engagement_product p ON p.id = d.product_id AND p.deletion_requested_at IS NULL
        WHERE d.state = 'active'
          AND (d.retry_at IS NULL OR d.retry_at <= %(now)s)
          AND (d.leased_until IS NULL OR d.leased_until <= %(now)s)
          AND EXISTS (SELECT {_SENDABLE.format(destination="d.id")})
        ORDER BY d.served_at NULLS FIRST, d.id
        LIMIT 1
        FOR NO KEY UPDATE OF d SKIP LOCKED)
    RETURNING id
"""
_RENEW: LiteralString = """
    UPDATE notifications_destination SET leased_until = %(until)s
    WHERE id = %(id)s AND lease = %(lease)s AND state = 'active'
"""
_RELEASE: LiteralString = """
    UPDATE notifications_destination SET lease = NULL, leased_until = NULL
    WHERE id = %(id)s AND lease = %(lease)s
"""


def claim(now: datetime, lease: UUID) -> Destination | None:
    """Claim the destination that has waited longest for its turn, if one has anything due."""
    with transaction.atomic():
        rows = sql.fetch(_CLAIM, {"lease": lease, "until": now + LEASE, "now": now})
    if not rows:
        return None
    everything = Destination.objects.defer(None).select_related("product")
    return everything.filter(pk=rows[0][0]).first()


def renew(destination_id: int, lease: UUID, now: datetime) -> bool:
    """Keep the claim. Returns False if another worker has it, or the destination was paused."""
    parameters = {"id": destination_id, "lease": lease, "until": now + LEASE}
    return bool(sql.execute(_RENEW, parameters))


def release(destination_id: int, lease: UUID) -> None:
    sql.execute(_RELEASE, {"id": destination_id, "lease": lease})


_NEXT: LiteralString = f"""
    SELECT m.id {_SENDABLE.format(destination="%(destination)s")}
    ORDER BY m.attempts > 0, m.id LIMIT %(size)s
"""


def next_messages(destination: Destination, now: datetime) -> list[OutboxMessage]:
    """The next messages to send in one request, those that have failed last.

    One about a subject waits for the one before. So a message that is always refused delays only
    those about the same subject. A digest is sent alone.
    """
    parameters = {
        "destination": destination.pk,
        "now": now,
        "size": formats.batch_size(destination),
    }
    ids = [id for (id,) in sql.fetch(_NEXT, parameters)]
    messages = list(OutboxMessage.objects.filter(pk__in=ids).order_by("pk"))
    if messages and is_digest(messages[0]):
        return messages[:1]
    return list(takewhile(lambda message: not is_digest(message), messages))
