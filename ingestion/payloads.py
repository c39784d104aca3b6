"""What the inbox stores: a message, or a note about one that is invalid."""

from typing import ClassVar, TypeAlias

import msgspec

from engagement.messages import Message
from ingestion.models import DropReason


class UnusableMessage(msgspec.Struct, array_like=True, tag="u", frozen=True, gc=False):
    """A message that a door accepts only to have it listed as dropped.

    Its sender got a success response, because other messages of the request are valid or because
    the protocol has no other response. The note goes through the inbox like a message, so the door
    needs no database query. It keeps only what helps to find the message: its kind, the event name
    and the message id. ``detail`` is a sentence of ours, or "".
    """

    reason: DropReason
    kind: str
    detail: str = ""
    event: str | None = None
    message_id: str | None = None

    # It mentions nobody.
    user_id: ClassVar[None] = None
    group_id: ClassVar[None] = None


Payload: TypeAlias = Message | UnusableMessage

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Payload).decode
