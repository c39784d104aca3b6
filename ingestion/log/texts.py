"""What is said of messages to the people who sent them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from engagement.core import charts
from engagement.messages import Track
from ingestion.models import DropReason
from ingestion.payloads import UnusableMessage, decode

REMEDIES = {
    DropReason.UNKNOWN_KEY: "Send an ingestion key of the product, as its page shows it.",
    DropReason.REVOKED_KEY: "Make a new ingestion key and send that one instead.",
    DropReason.MISSING_KEY: "Send the product's ingestion key with each request.",
    DropReason.DUPLICATE: "Nothing is lost if this was a retry. Otherwise give each message a "
    "message id of its own.",
    DropReason.FORGOTTEN: "Nothing: this is what was asked for. `python manage.py forget` with "
    "--allow-again lets later messages in again.",
    DropReason.DELETED_PRODUCT: "Stop sending with keys of the deleted product.",
    DropReason.ANONYMOUS: "Call identify before anything else, so that messages carry a userId.",
    DropReason.ALIAS: "Send the id that you keep as userId from the start.",
    DropReason.TOO_MANY_TRAITS: "Keep ids and dates out of the names of traits. Send null for "
    "traits that nobody needs; that makes room.",
    DropReason.UNUSABLE: "Compare what your application sends with the API's description.",
}


# The colours of what is no reason are those of reasons that no product has, or hardly ever.
RECORDED_TONE, QUARANTINED_TONE, WAITING_TONE = 3, 6, 5


def tone(reason: DropReason) -> int:
    """The colour that a reason has in every chart."""
    return list(DropReason).index(reason) % charts.TONE_COUNT + 1


@dataclass(frozen=True)
class MessageSummary:
    """What a stored message is about, without its traits."""

    kind: str
    user: str = ""
    account: str = ""
    event: str = ""
    message_id: str = ""
    timestamp: datetime | None = None

    def __str__(self) -> str:
        parts = [
            self.kind,
            self.event and f"“{self.event}”",
            self.user and f"user {self.user}",
            self.account and f"account {self.account}",
        ]
        return " · ".join(part for part in parts if part)

    def names(self, term: str) -> bool:
        """Whether *term* is one of the ids or names in it, as a whole."""
        return term in (self.user, self.account, self.event, self.message_id)


def summarize(payload: bytes) -> MessageSummary:
    """What the payload is about; what cannot be decoded is said to be undecodable."""
    try:
        message = decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return MessageSummary("undecodable")
    if isinstance(message, UnusableMessage):
        return MessageSummary(
            f"unusable {message.kind}",
            event=message.event or "",
            message_id=message.message_id or "",
        )
    return MessageSummary(
        kind=type(message).__name__.lower(),
        user=message.user_id or "",
        account=message.group_id or "",
        event=message.event if isinstance(message, Track) else "",
        message_id=message.message_id or "",
        timestamp=message.timestamp,
    )


def short_reason(reason: str, detail: str = "") -> str:
    """The reason in a few words, with what is wrong with this very message."""
    short = DropReason(reason).label.split(":", 1)[0]
    return f"{short}: {detail}" if detail else short


# A message has up to 256 traits; so many names tell which ones they are.
MAX_TRAITS_NAMED = 10
_LONGEST_NAME = 60


def describe_dropped_traits(names: Sequence[str]) -> str:
    """Which of a message's traits were not kept."""
    shown = [_shortened(name) for name in sorted(names)[:MAX_TRAITS_NAMED]]
    more = f" and {len(names) - MAX_TRAITS_NAMED} more" if len(names) > MAX_TRAITS_NAMED else ""
    return f"not kept: {', '.join(shown)}{more}"


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def format_age(seconds: float) -> str:
    """A waiting time in its largest whole unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
