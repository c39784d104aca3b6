"""Message ids of any length, and those that a batch's idempotency key gives."""

from hashlib import sha256

from msgspec.structs import replace

from ingestion.doors import fields
from ingestion.doors.bodies import MAX_BATCH_MESSAGES
from ingestion.payloads import Payload, UnusableMessage


def short_message_id(value: str | None, field: str) -> str | None:
    """The id of a message. One that is too long becomes its digest, so that a repeat is known."""
    if value is not None and len(value) > fields.MAX_MESSAGE_ID_LENGTH:
        return digest(value)
    return fields.message_id(value, field)


def digest(text: str) -> str:
    """The SHA-256 of a text, as a valid message id."""
    return sha256(text.encode()).hexdigest()


def with_message_ids(messages: list[Payload], key: str) -> list[Payload]:
    """The messages of a batch, with ids made from its idempotency key for those without one.

    So a batch that is sent again counts once, as a single message does. Any key is accepted, even
    if it is not a valid message id.
    """
    room = fields.MAX_MESSAGE_ID_LENGTH - len(f"#{MAX_BATCH_MESSAGES}")
    own_ids = [message.message_id for message in messages if message.message_id is not None]
    is_taken = any(id.startswith(f"{key}#") for id in own_ids)
    if is_taken or len(key) > room or key.isspace() or not key.isprintable():
        # A digest always fits, and senders' own ids do not look like it.
        key = digest(key)
    return [
        message
        if message.message_id is not None or isinstance(message, UnusableMessage)
        else replace(message, message_id=f"{key}#{index}")
        for index, message in enumerate(messages)
    ]
