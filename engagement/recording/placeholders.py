"""Ids that stand for nobody: what programs send where they do not know who it is.

Everybody who is "undefined" would be one user. So such an id joins nobody and identifies nobody.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec

from engagement.messages import Alias, Group, Identify, ReceivedMessage, Track

# In any case, and with white space and quotes around them.
PLACEHOLDERS = frozenset(
    {
        *("anonymous", "anon", "guest", "unknown", "test", "user", "id", "distinct_id"),
        *("null", "undefined", "none", "nil", "nan", "[object object]", "true", "false"),
        *("0", "-1", "00000000-0000-0000-0000-000000000000"),
    }
)
_AROUND = " \t'\"`\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
_USER_ID, _GROUP_ID = attrgetter("message.user_id"), attrgetter("message.group_id")


def is_placeholder(id: str | None) -> bool:
    return id is not None and id.strip(_AROUND).lower() in PLACEHOLDERS


class Split(NamedTuple):
    """``named`` are the messages to record, ``nobody`` those that are about nobody.

    ``left_out`` is, by the arrival of a message of ``named``, the id that it does not name any
    more: an account beside its user, or a user beside its account.
    """

    named: list[ReceivedMessage]
    nobody: list[ReceivedMessage]
    left_out: dict[int, str]


def split_placeholders(messages: Sequence[ReceivedMessage]) -> Split:
    """The messages without placeholders, and those that are about nobody without them."""
    ids = {*map(_USER_ID, messages), *map(_GROUP_ID, messages)}
    ids |= {each.message.previous_id for each in messages if type(each.message) is Alias}
    matches = {id for id in ids if is_placeholder(id)}
    split = Split([], [], {})
    if not matches:
        split.named.extend(messages)
        return split
    for received in messages:
        message = received.message
        is_user_found, is_group_found = message.user_id in matches, message.group_id in matches
        if isinstance(message, Group) and is_user_found and not is_group_found:
            split.left_out[received.arrival] = message.user_id or ""
            message = msgspec.structs.replace(message, user_id=None)
        elif isinstance(message, Identify | Track) and is_group_found and not is_user_found:
            split.left_out[received.arrival] = message.group_id or ""
            message = msgspec.structs.replace(message, group_id=None)
        elif is_user_found or is_group_found or getattr(message, "previous_id", None) in matches:
            split.nobody.append(received)
            continue
        if message is not received.message:
            received = msgspec.structs.replace(received, message=message)
        split.named.append(received)
    return split
