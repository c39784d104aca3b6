"""What follows an attempt: the log, the next attempt, and the pause of a dead destination."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet

from core.jobs.backoff import Backoff
from core.outbound.requests import Result
from notifications.models import Delivery, Destination, OutboxMessage

# The pauses of a destination. They vary, so that not all are tried again at the same moment.
BACKOFF = Backoff(timedelta(seconds=5), 3, timedelta(hours=1), jitter=0.2)
# A message waits less: its destination may be back.
MESSAGE_BACKOFF = replace(BACKOFF, longest=timedelta(minutes=15))
# After failing for this long, a message is given up and a destination is paused.
GIVE_UP_AFTER = timedelta(hours=24)
# A receiver that answers at once may refuse this many messages in a row before it is put off.
MAX_REFUSALS = 3
# The receiver says that it will never take a webhook again.
GONE = 410

State = OutboxMessage.State


def record(
    destination: Destination,
    lease: UUID,
    messages: Sequence[OutboxMessage],
    result: Result,
    now: datetime,
) -> bool:
    """Record what became of an attempt, in one transaction. Returns whether to continue with the
    destination's next message at once."""
    with transaction.atomic():
        own = Destination.objects.select_for_update(no_key=True)
        locked_destination = own.filter(pk=destination.pk, lease=lease).first()
        log_attempt(messages, result, now)
        has_given_up = False
        if result.is_delivered:
            _set_delivered(messages, now)
        else:
            has_given_up = _schedule_retry(messages, locked_destination, now)
        if locked_destination is None:
            # Another worker took over, because this one seemed to be dead.
            return False
        if result.is_delivered or (has_given_up and result.status != GONE):
            # Of a destination that works, only these messages failed.
            _clear_failures(locked_destination)
        else:
            _note_failure(locked_destination, result, now)
        if result.status == GONE and locked_destination.is_hook:
            # The tool that added it can never remove it any more.
            locked_destination.delete()
            return False
    return locked_destination.retry_at is None


def log_attempt(messages: Sequence[OutboxMessage], result: Result, now: datetime) -> None:
    """Write the attempt into the delivery log."""
    Delivery.objects.bulk_create(
        Delivery(
            product_id=message.product_id,
            message_id=message.pk,
            attempted_at=now,
            outcome=result.outcome,
            status=result.status,
            seconds=result.seconds,
            error=result.error,
            response=result.response,
        )
        for message in messages
    )


def _set_delivered(messages: Sequence[OutboxMessage], now: datetime) -> None:
    _waiting(messages).update(state=State.DELIVERED, finished_at=now, attempts=F("attempts") + 1)


def _waiting(messages: Sequence[OutboxMessage]) -> QuerySet[OutboxMessage]:
    pks = [message.pk for message in messages]
    return OutboxMessage.objects.filter(pk__in=pks, state=State.WAITING)


def _schedule_retry(
    messages: Sequence[OutboxMessage],
    destination: Destination | None,
    now: datetime,
) -> bool:
    """Have the messages tried again later, or give them up after a day in which the destination
    accepted others. Returns whether any were given up."""
    has_given_up = False
    for message in messages:
        first = message.first_attempt_at or now
        fields = {
            "attempts": message.attempts + 1,
            "first_attempt_at": first,
            "next_attempt_at": now + MESSAGE_BACKOFF.delay(message.attempts + 1),
        }
        works_otherwise = destination is not None and (
            destination.failing_since is None or destination.failing_since > first
        )
        if now >= first + GIVE_UP_AFTER and works_otherwise:
            fields |= {"state": State.FAILED, "finished_at": now}
            has_given_up = True
        _waiting([message]).update(**fields)
    return has_given_up


def _clear_failures(destination: Destination) -> None:
    if destination.failures:
        destination.failures = 0
        destination.failing_since = destination.retry_at = None
        destination.save(update_fields=["failures", "failing_since", "retry_at"])


def _note_failure(destination: Destination, result: Result, now: datetime) -> None:
    destination.failures += 1
    destination.failing_since = destination.failing_since or now
    if _is_put_off(destination, result):
        requested_pause = timedelta(seconds=result.retry_after or 0)
        destination.retry_at = now + max(
            BACKOFF.delay(destination.failures), min(requested_pause, BACKOFF.longest)
        )
    if result.status == GONE:
        _pause(destination, "The receiver answered 410: it no longer wants these messages.")
    elif now >= destination.failing_since + GIVE_UP_AFTER:
        _pause(destination, f"Every attempt has failed for 24 hours. {describe(result)}")
    fields = ["failures", "failing_since", "retry_at", "state", "pause_reason"]
    destination.save(update_fields=fields)


def _is_put_off(destination: Destination, result: Result) -> bool:
    """Whether all messages of the destination wait, and not only those that failed."""
    has_answered = result.status not in (None, GONE) and result.retry_after is None
    return not has_answered or destination.failures >= MAX_REFUSALS


def _pause(destination: Destination, reason: str) -> None:
    if destination.state == Destination.State.ACTIVE:
        destination.state, destination.pause_reason = Destination.State.PAUSED, reason


def describe(result: Result) -> str:
    """What was wrong with an attempt, as a sentence."""
    if result.status is None:
        return result.error
    return f"The receiver answered {result.status}. {result.error}".strip()
