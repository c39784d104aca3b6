"""What the inbox stores: a message, or the note that one of a batch could not be used."""

from typing import ClassVar, TypeAlias

import msgspec

from engagement.messages import Message
from ingestion.models import DropReason


class UnusableMessage(msgspec.Struct, array_like=True, tag="u", frozen=True, gc=False):
    """A message that a door took in only to have it listed as dropped.

    Its sender was told that it arrived, because others in the same request did or because the
    protocol has no other answer. It travels with them, so that the door needs no look at the
    database, and the drain lists it. Of what it said nothing is kept but what helps to find it:
    its kind, the event's name and the message id. ``detail`` is a sentence of ours, or "".
    """

    reason: DropReason
    kind: str
    detail: str = ""
    event: str | None = None
    message_id: str | None = None

    # It names nobody.
    user_id: ClassVar[None] = None
    group_id: ClassVar[None] = None


Payload: TypeAlias = Message | UnusableMessage

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Payload).decode
