"""The four messages that every wire format is translated into, and why some are rejected.

The inbox stores them, and ``recording.record()`` records them. A door has checked each message: its
strings are within their limits, and its ``timestamp`` is in UTC and no later than the time of
receipt plus the tolerance for wrong clocks.
"""

from datetime import datetime
from enum import Enum, auto
from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec

from engagement.traits import Source

Traits: TypeAlias = dict[str, Any]


class Identify(msgspec.Struct, array_like=True, tag="i", frozen=True, gc=False):
    """A user and their traits; with ``group_id`` also a membership in that account."""

    user_id: str
    timestamp: datetime
    traits: Traits = {}
    group_id: str | None = None
    message_id: str | None = None


class Group(msgspec.Struct, array_like=True, tag="g", frozen=True, gc=False):
    """An account and its traits; with ``user_id`` also that user's membership in it."""

    group_id: str
    timestamp: datetime
    traits: Traits = {}
    user_id: str | None = None
    message_id: str | None = None


class Track(msgspec.Struct, array_like=True, tag="t", frozen=True, gc=False):
    """A user did something; with ``group_id`` also a membership in that account at that time."""

    user_id: str
    event: str
    timestamp: datetime
    group_id: str | None = None
    message_id: str | None = None


class Alias(msgspec.Struct, array_like=True, tag="a", frozen=True, gc=False):
    """Two user ids are one person's, and ``user_id`` is the one to keep."""

    user_id: str
    previous_id: str
    timestamp: datetime
    message_id: str | None = None

    group_id: ClassVar[None] = None


Message: TypeAlias = Identify | Group | Track | Alias


# --- What else an export says ---------------------------------------------------------------


class SubjectStatement(msgspec.Struct, frozen=True, gc=False):
    """When messages named a user or an account first and last. It has exactly one of the ids.

    ``is_identified`` is whether any of the messages introduced the subject.
    """

    first_at: datetime
    last_at: datetime
    is_identified: bool
    user_id: str | None = None
    group_id: str | None = None
    message_id: str | None = None


class MembershipStatement(msgspec.Struct, frozen=True, gc=False):
    """A user is in an account. It says nothing else about either."""

    user_id: str
    group_id: str
    timestamp: datetime
    message_id: str | None = None


class CountStatement(msgspec.Struct, frozen=True, gc=False):
    """How often a user did an event on the UTC day of ``last_at``, in the account or in none.

    Does not include the events that are still stored.
    """

    user_id: str
    event: str
    last_at: datetime
    count: int
    group_id: str | None = None
    message_id: str | None = None


Statement: TypeAlias = Message | SubjectStatement | MembershipStatement | CountStatement


class ReceivedMessage(msgspec.Struct, frozen=True, gc=False):
    """A statement, its product, and how it arrived.

    ``arrival`` is its place in the order of arrival, unique over all products forever. Of two
    messages with the same timestamp the later arrival wins. ``source`` is who says it.
    """

    product_id: int
    arrival: int
    received_at: datetime
    message: Statement
    source: Source = Source.MESSAGE


class RejectionReason(Enum):
    """Why a message is not recorded, or not as a whole."""

    FORGOTTEN = auto()
    """It names a user or an account that was deleted on request."""
    PLACEHOLDER = auto()
    """It is about an id that stands for nobody, and about no one else."""
    EVENT_NAMES = auto()
    """It would give its product too many event names."""
    SUBJECTS = auto()
    """It would give its product too many users and accounts."""
    TOO_MANY_IDS = auto()
    """It is an alias, and would give a person too many ids."""
    SHARED_ID = auto()
    """It is an alias, and its previous id is that of another person already."""
    TRAITS = auto()
    """Its user, its account, or its product has no room for some of its traits."""
    LEFT_OUT = auto()
    """It names an id that stands for nobody beside its subject."""


_IN_PART = {RejectionReason.TRAITS, RejectionReason.LEFT_OUT}


class Rejection(NamedTuple):
    """What of a message is not recorded. ``detail`` says it in words for its sender, or is ""."""

    message: ReceivedMessage
    reason: RejectionReason
    detail: str = ""

    @property
    def is_partial(self) -> bool:
        """Whether the rest of the message is recorded."""
        return self.reason in _IN_PART
