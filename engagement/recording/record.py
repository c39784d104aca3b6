"""The one write path: everything that enters the domain enters through ``record()``.

The same messages in any order, in any batches, by any number of workers, give the same users,
accounts, memberships, and counts.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from core.database import distribution, product_statistics
from engagement.limits import trait_names
from engagement.limits.new_names import Excess, split_excess
from engagement.messages import ReceivedMessage
from engagement.recording.aliases import Rejection
from engagement.recording.batch import Batch, build_batch
from engagement.recording.joining import join_users
from engagement.recording.placeholders import split_placeholders
from engagement.recording.resolve import resolve
from engagement.recording.suppression import split_suppressed
from engagement.recording.write import write


class RecordResult(NamedTuple):
    """What was not recorded.

    ``suppressed`` are the messages that name a user or an account that was deleted on request.
    ``dropped_traits`` are the trait names that their user or account has no room for, by the
    arrival of their message, and ``new_traits`` those that would give the product too many names.
    The rest of such a message is recorded. ``rejected_aliases`` join nobody.
    ``excess`` would exceed a limit of the product. ``nobody`` are about a placeholder and no one
    else. ``left_out`` is, by arrival, a placeholder that the message names beside its subject; the
    rest of it is recorded.
    """

    suppressed: list[ReceivedMessage]
    dropped_traits: dict[int, list[str]]
    rejected_aliases: Sequence[tuple[ReceivedMessage, Rejection]] = ()
    excess: Sequence[tuple[ReceivedMessage, Excess]] = ()
    new_traits: Mapping[int, list[str]] = {}
    nobody: Sequence[ReceivedMessage] = ()
    left_out: Mapping[int, str] = {}


def record(messages: Sequence[ReceivedMessage]) -> RecordResult:
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
    result = _record_by_node(recordable)
    return result._replace(suppressed=suppressed, nobody=nobody, left_out=left_out)


def _record_by_node(recordable: Sequence[ReceivedMessage]) -> RecordResult:
    if not distribution.is_distributed() or not recordable:
        return _record(recordable)
    dropped_traits: dict[int, list[str]] = {}
    rejected: list[tuple[ReceivedMessage, Rejection]] = []
    excess: list[tuple[ReceivedMessage, Excess]] = []
    new_traits: dict[int, list[str]] = {}
    for product_id, own in _by_product(recordable):
        product_statistics.refresh(product_id)
        with distribution.on_node_of(product_id):
            result = _record(own)
        dropped_traits |= result.dropped_traits
        rejected += result.rejected_aliases
        excess += result.excess
        new_traits |= result.new_traits
    return RecordResult([], dropped_traits, tuple(rejected), tuple(excess), new_traits)


def _by_product(
    messages: Sequence[ReceivedMessage],
) -> list[tuple[int, list[ReceivedMessage]]]:
    """The messages of each product, in their order."""
    by_product: dict[int, list[ReceivedMessage]] = {}
    for message in messages:
        by_product.setdefault(message.product_id, []).append(message)
    # Sorted, so that two workers cannot deadlock.
    return sorted(by_product.items())


def _record(messages: Sequence[ReceivedMessage]) -> RecordResult:
    """Record the messages; on a cluster, they are of one product."""
    recordable, excess = split_excess(list(messages))
    if not recordable:
        return RecordResult([], {}, excess=tuple(excess))
    limited_messages = trait_names.limit_names(recordable)
    batch = build_batch(limited_messages.messages)
    dropped_traits, rejected = _join(batch)
    rows = resolve(batch)
    write(batch, rows)
    return RecordResult(
        [],
        dropped_traits | batch.dropped_traits(),
        [
            (message, rejected[message.arrival])
            for message in (recordable if rejected else ())
            if message.arrival in rejected
        ],
        tuple(excess),
        limited_messages.dropped,
    )


def _join(batch: Batch) -> tuple[dict[int, list[str]], dict[int, Rejection]]:
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
