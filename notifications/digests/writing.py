"""Writes the digests that are due to the outbox, each once for its period."""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import LiteralString
from uuid import uuid4

from django.contrib.auth.models import User as AdminUser
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from core.database import sql
from engagement.models import ProductMember
from notifications.digests import content, schedule
from notifications.digests.schedule import Schedule, Slot
from notifications.models import Destination, Digest, DigestIssue, OutboxMessage
from trends.changes.whose import NoChanges

logger = logging.getLogger(__name__)

# A segment of a million accounts takes seconds.
STATEMENT_TIMEOUT_SECONDS = 30.0

_ISSUE: LiteralString = """
    INSERT INTO notifications_digestissue (digest_id, cadence, day, message_id, issued_at)
    VALUES (%(digest)s, %(cadence)s, %(day)s, %(message)s, %(now)s)
    ON CONFLICT DO NOTHING
"""


def write_due(now: datetime, out_of_time: Callable[[], bool] = lambda: False) -> int:
    """Write each digest that is due, in a transaction of its own. Returns how many. One whose
    scores are missing, or take too long, is tried again as long as its time is recent."""
    number = 0
    for pk in due(now):
        if out_of_time():
            break
        try:
            number += write(pk, now)
        except (NoChanges, sql.StatementTimeout):
            logger.warning("Digest %s cannot be written now.", pk)
    return number


def due(now: datetime) -> list[int]:
    """The digests whose time came not long ago, and that have nothing for its period."""
    slots: dict[int, Slot] = {}
    cadences: dict[int, str] = {}
    for pk, *values in readable().values_list("pk", *Schedule._fields):
        own = Schedule(*values)
        slot = schedule.last_slot(own, now)
        if schedule.is_recent(own, slot):
            slots[pk], cadences[pk] = slot, own.cadence
    rows = DigestIssue.objects.filter(digest__in=slots)
    issued = set(rows.values_list("digest_id", "cadence", "day"))
    return [pk for pk, slot in slots.items() if (pk, cadences[pk], slot.day) not in issued]


def readable() -> QuerySet[Digest]:
    """Those with somebody to read them: who has a digest of their own must still see the
    product."""
    members = ProductMember.objects.filter(product=OuterRef("product"), user=OuterRef("owner"))
    superusers = AdminUser.objects.filter(pk=OuterRef("owner"), is_superuser=True)
    may_see = Exists(members) | Exists(superusers)
    is_person = AdminUser.objects.filter(pk=OuterRef("owner"), is_active=True)
    return Digest.objects.filter(
        Q(destination__owner=None) | (Exists(is_person) & may_see),
        is_enabled=True,
        destination__state=Destination.State.ACTIVE,
        product__deletion_requested_at=None,
    ).order_by("pk")


def write(pk: int, now: datetime) -> bool:
    """Write the digest for its present period. Returns False if it has one, or is no longer due.
    Raises NoChanges."""
    with transaction.atomic(durable=True):
        locked = readable().select_for_update(no_key=True, of=("self",))
        digest = locked.select_related(*content.RELATED).filter(pk=pk).first()
        if digest is None:
            return False
        own = Schedule.of(digest)
        slot = schedule.last_slot(own, now)
        message_id = f"msg_{uuid4().hex}"
        if not schedule.is_recent(own, slot) or not _issue(digest, slot, message_id, now):
            return False
        with sql.statement_timeout(STATEMENT_TIMEOUT_SECONDS):
            text = content.build(digest)
        _replace_waiting(digest, now)
        OutboxMessage.objects.create(
            message_id=message_id,
            product_id=digest.product_id,
            destination_id=digest.destination_id,
            title=text.text,
            payload=content.payload(text, now),
            created_at=now,
            next_attempt_at=now,
        )
    return True


def skip_present(digest: Digest, now: datetime) -> None:
    """Have a new digest begin with the next period."""
    slot = schedule.last_slot(Schedule.of(digest), now)
    _issue(digest, slot, "", now)


def _issue(digest: Digest, slot: Slot, message_id: str, now: datetime) -> bool:
    """Whether nobody has written the period before: the database decides."""
    parameters = {
        "digest": digest.pk,
        "cadence": digest.cadence,
        "day": slot.day,
        "message": message_id,
        "now": now,
    }
    return bool(sql.execute(_ISSUE, parameters))


def _replace_waiting(digest: Digest, now: datetime) -> None:
    """A digest that its receiver did not take is old news when the next one comes."""
    OutboxMessage.objects.filter(
        destination=digest.destination_id,
        state=OutboxMessage.State.WAITING,
        payload__data__digest_id=digest.pk,
    ).update(state=OutboxMessage.State.FAILED, finished_at=now)
