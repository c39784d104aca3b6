"""The durable inbox: a message is accepted once it is committed here."""

from collections.abc import Sequence
from datetime import datetime

from engagement.messages import Message


class Unavailable(Exception):
    """The messages could not be committed; the sender should try again in *retry_after* seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"try again in {retry_after} s")
        self.retry_after = retry_after


def accept(messages: Sequence[Message], key: str, received_at: datetime) -> None:
    """Commit the messages, together with a digest of the key that they came with.

    Returns once they are on disk; raises Unavailable if they are not.
    """
    raise NotImplementedError
