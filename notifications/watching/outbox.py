"""Writes messages to the outbox, in the transaction that found what they tell."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import LiteralString
from uuid import uuid4

from django.db.models import F

from core.database import sql
from engagement.activity.reading import told_to_nobody
from engagement.scopes import get_kind
from engagement.segments import members
from notifications.delivery import collecting
from notifications.models import Destination, OutboxMessage, Subscription
from notifications.watching import payloads
from notifications.watching.changes import Changes
from notifications.watching.insights import SIGNALS
from notifications.watching.owners import by_destination
from notifications.watching.watches import WatchedSet, tells_entered

# More changes than this in one sweep become one message: for programs, and for people.
MAX_MESSAGES, MAX_MESSAGES_TO_PEOPLE = 1_000, 20
# The subjects that a message about many names.
NAMED_SUBJECTS = 20
# A destination with more waiting messages gets no further ones.
MAX_WAITING = 10_000
IDS_PER_QUERY = 20_000


def write_changes(
    subscription: Subscription, watched: WatchedSet, changes: Changes, now: datetime
) -> None:
    """Write the messages of the subscription about the changes."""
    ids: Sequence[int] = changes.entered if tells_entered(subscription) else changes.left
    ids = _recipients(subscription, watched, ids, now)
    if not ids:
        return
    facts = payloads.Facts(subscription, watched, now)
    for destination, own in by_destination(subscription, watched, ids, now):
        if len(own) > most_messages(destination):
            drafts = [facts.about_many(len(own), facts.load(own[:NAMED_SUBJECTS]))]
        else:
            drafts = [facts.about(subject) for subject in facts.load(own)]
        _write(subscription, destination, drafts, now)


def write_condition(
    subscription: Subscription,
    text: str,
    path: str,
    condition: payloads.Condition | None,
    now: datetime,
) -> None:
    """Write a message about a condition of the product. None means that it no longer holds."""
    if condition is not None:
        about = condition.subject_id or subscription.product_id
        if _told_since(subscription, [about], now):
            return
    draft = payloads.about_product(subscription, text, path, condition, now)
    _write(subscription, subscription.destination, [draft], now)


def write_news(
    subscription: Subscription, news: Sequence[payloads.Condition], now: datetime
) -> None:
    """Write messages about what happened. Each is told, also in a quiet period."""
    drafts = [
        payloads.about_product(subscription, each.text, each.path, each, now) for each in news
    ]
    _write(subscription, subscription.destination, drafts, now)


def most_messages(destination: Destination) -> int:
    return MAX_MESSAGES_TO_PEOPLE if destination.is_chat else MAX_MESSAGES


def draft_test(destination: Destination, now: datetime) -> OutboxMessage:
    """A test message for the destination. The caller sends and stores it."""
    draft = payloads.test_message(destination, now)
    return _message(destination, None, draft, now)


# --- Whom a message is about ------------------------------------------------------------------


def _recipients(
    subscription: Subscription, watched: WatchedSet, ids: Sequence[int], now: datetime
) -> list[int]:
    """The subjects that exist, are in the filter's segment, and had no message just before. Of
    alarms, those that are no old news."""
    recipients: list[int] = []
    for start in range(0, len(ids), IDS_PER_QUERY):
        chunk = list(ids[start : start + IDS_PER_QUERY])
        chunk = _existing(watched, chunk)
        if subscription.insight in SIGNALS and tells_entered(subscription):
            signal = SIGNALS[subscription.insight]
            old_news = told_to_nobody(watched.score_set, signal, chunk)
            chunk = [id for id in chunk if id not in old_news]
        if subscription.filter_segment is not None:
            chunk = _in_filter(subscription, watched, chunk)
        if subscription.quiet_hours:
            told_before = _told_since(subscription, chunk, now)
            chunk = [id for id in chunk if id not in told_before]
        recipients += chunk
    return recipients


def _existing(watched: WatchedSet, ids: list[int]) -> list[int]:
    """A user who was forgotten, or joined to another one, has left nothing."""
    subjects = watched.kind.model._default_manager.filter(product=watched.score_set.product_id)
    rows = subjects.filter(pk__in=ids, is_identified=True)
    return sorted(rows.values_list("pk", flat=True))


def _in_filter(subscription: Subscription, watched: WatchedSet, ids: list[int]) -> list[int]:
    segment = subscription.filter_segment
    assert segment is not None
    if segment.scope != watched.kind.scope:
        return ids
    kind = get_kind(segment.scope)
    filter_ = members.members_filter(watched.score_set, members.segment_rule(segment))
    rows = kind.engagement_rows(watched.score_set).filter(filter_)
    rows = rows.filter(**{f"{kind.id_column}__in": ids})
    return sorted(rows.values_list(kind.id_column, flat=True))


_TOLD: LiteralString = """
    SELECT DISTINCT subject_id FROM notifications_outboxmessage
    WHERE subscription_id = %(subscription)s AND subject_id = ANY(%(subjects)b::bigint[])
      AND created_at > %(since)s
"""


def _told_since(subscription: Subscription, ids: list[int], now: datetime) -> set[int]:
    """Those of the subjects that the subscription sent a message about within its quiet period."""
    if not subscription.quiet_hours:
        return set()
    parameters = {
        "subscription": subscription.pk,
        "subjects": ids,
        "since": now - timedelta(hours=subscription.quiet_hours),
    }
    return {subject_id for (subject_id,) in sql.fetch(_TOLD, parameters)}


# --- Writing --------------------------------------------------------------------------------


def _write(
    subscription: Subscription,
    destination: Destination,
    drafts: Sequence[payloads.Draft],
    now: datetime,
) -> None:
    waiting = OutboxMessage.objects.filter(
        destination=destination, state=OutboxMessage.State.WAITING
    )
    room = max(0, MAX_WAITING - waiting[:MAX_WAITING].count())
    written_drafts, lost = drafts[:room], len(drafts[room:])
    OutboxMessage.objects.bulk_create(
        (_message(destination, subscription, draft, now) for draft in written_drafts),
        batch_size=500,
    )
    if lost:
        Destination.objects.filter(pk=destination.pk).update(overflowed=F("overflowed") + lost)


def _message(
    destination: Destination,
    subscription: Subscription | None,
    draft: payloads.Draft,
    now: datetime,
) -> OutboxMessage:
    return OutboxMessage(
        message_id=f"msg_{uuid4().hex}",
        product_id=destination.product_id,
        destination_id=destination.pk,
        subscription_id=subscription.pk if subscription else None,
        scope=draft.scope,
        subject_id=draft.subject_id,
        external_id=draft.external_id,
        name=draft.name,
        title=draft.title,
        payload=draft.payload,
        created_at=now,
        next_attempt_at=collecting.first_attempt(destination, now),
    )
