"""The one write path: everything that enters the domain enters through ``record()``.

The same messages in any order, in any batches, by any number of workers, give the same users,
accounts, memberships, and counts.
"""

from collections.abc import Sequence
from typing import NamedTuple

from core.database import distribution, statistics
from engagement.limits import trait_names
from engagement.limits.new_names import split_excess
from engagement.messages import ReceivedMessage, Rejection, RejectionReason
from engagement.recording.batch import Batch, build_batch
from engagement.recording.joining import join_users
from engagement.recording.placeholders import split_placeholders
from engagement.recording.rejection_details import (
    UNJOINED,
    describe_dropped_traits,
    describe_left_out,
)
from engagement.recording.resolve import resolve
from engagement.recording.stored_traits import follow_changes, store_changes
from engagement.recording.suppression import split_suppressed
from engagement.recording.write import write


class _Outcome(NamedTuple):
    """What was not recorded: messages, and traits by the arrival of their message, in words."""

    rejections: list[Rejection]
    dropped_traits: dict[int, str]


def record(messages: Sequence[ReceivedMessage]) -> list[Rejection]:
    """Record messages of any products, in the caller's transaction. Returns what was not recorded.

    The caller must have locked the messages' products in this transaction
    (``locks.share_lock_products``), and have dropped the messages of products that the lock did
    not return. Until the transaction ends, the lock keeps others from deleting these products and
    from forgetting their users and accounts.

    Creates and merges users and accounts, stores memberships, adds events and daily counts, and
    enqueues the subjects whose scores change. Raises what the database raises: the caller decides
    whether that is the fault of a message.
    """
    named, nobody, left_out = split_placeholders(messages)
    recordable, suppressed = split_suppressed(named)
    rejections, dropped_traits = _record_by_node(recordable)
    rejections += (Rejection(each, RejectionReason.PLACEHOLDER) for each in nobody)
    rejections += (Rejection(each, RejectionReason.FORGOTTEN) for each in suppressed)
    if dropped_traits or left_out:
        unrecorded = {each.message.arrival for each in rejections}
        for received in messages:
            if received.arrival in unrecorded:
                continue
            if detail := dropped_traits.get(received.arrival):
                rejections.append(Rejection(received, RejectionReason.TRAITS, detail))
            if placeholder := left_out.get(received.arrival):
                detail = describe_left_out(placeholder)
                rejections.append(Rejection(received, RejectionReason.LEFT_OUT, detail))
    return rejections


def _record_by_node(recordable: Sequence[ReceivedMessage]) -> _Outcome:
    if not distribution.is_distributed() or not recordable:
        return _record(recordable)
    outcome = _Outcome([], {})
    for product_id, own in _by_product(recordable):
        statistics.refresh_product(product_id)
        with distribution.on_node_of(product_id):
            rejections, dropped_traits = _record(own)
        outcome.rejections.extend(rejections)
        outcome.dropped_traits.update(dropped_traits)
    return outcome


def _by_product(
    messages: Sequence[ReceivedMessage],
) -> list[tuple[int, list[ReceivedMessage]]]:
    """The messages of each product, in their order."""
    by_product: dict[int, list[ReceivedMessage]] = {}
    for message in messages:
        by_product.setdefault(message.product_id, []).append(message)
    # Sorted, so that two workers cannot deadlock.
    return sorted(by_product.items())


def _record(messages: Sequence[ReceivedMessage]) -> _Outcome:
    """Record the messages; on a cluster, they are of one product."""
    recordable, rejections = split_excess(list(messages))
    if not recordable:
        return _Outcome(rejections, {})
    with_room, new_names = trait_names.limit_names(recordable)
    batch = build_batch(with_room)
    dropped, unjoined = _join(batch)
    follow_changes(batch)
    rows = resolve(batch)
    write(batch, rows)
    store_changes(batch, rows.account_ids)
    dropped |= batch.dropped_traits()
    if unjoined:
        rejections += (
            Rejection(message, reason, UNJOINED[reason])
            for message in recordable
            if (reason := unjoined.get(message.arrival))
        )
    return _Outcome(
        rejections,
        {
            arrival: describe_dropped_traits(dropped.get(arrival), new_names.get(arrival))
            for arrival in dropped.keys() | new_names.keys()
        },
    )


def _join(batch: Batch) -> tuple[dict[int, list[str]], dict[int, RejectionReason]]:
    """Join the users that the batch's aliases name, before anything else is recorded of them.

    Returns the dropped traits and the rejected aliases, by arrival.
    """
    if not batch.aliases:
        return {}, {}
    identified = [key for key, update in batch.users.items() if update.is_identified]
    joined = join_users(batch.aliases, identified)
    batch.name_aliased_users(joined.accepted)
    batch.entered_accounts = joined.entered_accounts
    return joined.dropped_traits, {alias.arrival: why for alias, why in joined.rejected}
