"""Follows the traced messages of a batch from here on, for senders who trace their requests."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from django.db import Error, transaction

from core import trace_context
from engagement import traces
from engagement.messages import Alias, Group, Identify, Track
from ingestion.drain.claims import ClaimedMessage
from ingestion.drain.senders import SenderKey
from ingestion.payloads import decode

logger = logging.getLogger(__name__)


def follow(
    claimed: Sequence[ClaimedMessage],
    senders: Mapping[bytes, SenderKey],
    now: datetime,
    ended: datetime,
) -> None:
    """Report the recording of the traced messages, and remember the traces of their subjects.

    A failure costs the batch nothing.
    """
    sampled = (
        message
        for message in claimed
        if message.traceparent is not None and trace_context.is_sampled(message.traceparent)
    )
    followed = list(islice(sampled, traces.MAX_FOLLOWED))
    if not followed:
        return
    try:
        with transaction.atomic():
            traces.save(list(_recorded(followed, senders, now, ended)), now)
    except Error as error:
        logger.warning("Traces are not followed: %s", type(error).__name__)


def _recorded(
    followed: Sequence[ClaimedMessage],
    senders: Mapping[bytes, SenderKey],
    now: datetime,
    ended: datetime,
) -> Iterator[traces.TracedMessage]:
    for claimed in followed:
        sender = senders.get(claimed.key_digest)
        if sender is None or sender.product_id is None or claimed.traceparent is None:
            continue
        message = decode(claimed.payload)
        is_known = isinstance(message, Identify | Group | Track | Alias)
        if is_known and sender.may_send(claimed.received_at):
            next_trace = traces.report(
                "record", claimed.traceparent, now, ended, message=claimed.id
            )
            yield traces.TracedMessage(
                sender.product_id, message.user_id, message.group_id, next_trace
            )
