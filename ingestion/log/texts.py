"""Texts about messages, for the people who sent them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from core import charts
from engagement.messages import Alias, RejectionReason, Track
from ingestion.models import DropReason
from ingestion.payloads import UnusableMessage, decode

REMEDIES = {
    DropReason.UNKNOWN_KEY: "Send one of the product's ingestion keys.",
    DropReason.REVOKED_KEY: "Create a new ingestion key and send that one instead.",
    DropReason.EXPIRED_KEY: "Extend the key's date in the admin, or rotate it and send the new "
    "one.",
    DropReason.TOO_FAST: "Send fewer messages at once, or ask a superuser for a higher limit.",
    DropReason.DAILY_LIMIT: "Wait for the next UTC day, or ask a superuser for a higher limit.",
    DropReason.TOO_MANY_NAMES: "Keep ids and dates out of event names, or ask a superuser for a "
    "higher limit.",
    DropReason.TOO_MANY_SUBJECTS: "Check that your applications send no random ids, or ask a "
    "superuser for a higher limit.",
    DropReason.READ_TOKEN: "Send an ingestion key instead. It starts with edk_. A read token, "
    "which starts with eds_, only reads.",
    DropReason.MISSING_KEY: "Send the product's ingestion key with each request.",
    DropReason.DUPLICATE: "If this was a retry, nothing is lost. Otherwise give each message its "
    "own message id.",
    DropReason.FORGOTTEN: "This data was deleted on request. To accept new messages again, run "
    "`python manage.py forget` with --allow-again.",
    DropReason.DELETED_PRODUCT: "Stop sending with keys of the deleted product.",
    DropReason.ANONYMOUS: "Call identify first so that every message has a userId.",
    DropReason.ALIAS: "Check that no id in your aliases is shared by many people.",
    DropReason.TOO_MANY_TRAITS: "Keep ids and dates out of trait names. To make room in a user or "
    "an account, send null for unused traits. For more names in the product, ask a superuser for a "
    "higher limit.",
    DropReason.PLACEHOLDER: "Send no message while your application does not know the user, and "
    "leave out an unknown account. Many people would share this id.",
    DropReason.INVALID: "Compare the request with the API documentation.",
}


DROP_REASONS = {
    RejectionReason.FORGOTTEN: DropReason.FORGOTTEN,
    RejectionReason.PLACEHOLDER: DropReason.PLACEHOLDER,
    RejectionReason.EVENT_NAMES: DropReason.TOO_MANY_NAMES,
    RejectionReason.SUBJECTS: DropReason.TOO_MANY_SUBJECTS,
    RejectionReason.TOO_MANY_IDS: DropReason.ALIAS,
    RejectionReason.SHARED_ID: DropReason.ALIAS,
    RejectionReason.TRAITS: DropReason.TOO_MANY_TRAITS,
    RejectionReason.LEFT_OUT: DropReason.PLACEHOLDER,
}

# These share their colors with reasons that no product has, or hardly ever.
RECORDED_TONE, QUARANTINED_TONE, WAITING_TONE = 3, 6, 5


def tone(reason: DropReason) -> int:
    """The reason's color in every chart."""
    # Those of the later ones would be the colors of what is recorded or waits.
    reason = _SAME_TONE.get(reason, reason)
    return list(DropReason).index(reason) % charts.TONE_COUNT + 1


_SAME_TONE = {
    DropReason.READ_TOKEN: DropReason.UNKNOWN_KEY,
    DropReason.EXPIRED_KEY: DropReason.REVOKED_KEY,
    **dict.fromkeys(
        (
            DropReason.TOO_FAST,
            DropReason.DAILY_LIMIT,
            DropReason.TOO_MANY_NAMES,
            DropReason.TOO_MANY_SUBJECTS,
        ),
        DropReason.TOO_MANY_TRAITS,
    ),
    DropReason.PLACEHOLDER: DropReason.ANONYMOUS,
}


@dataclass(frozen=True)
class MessageSummary:
    """A stored message without its traits."""

    kind: str
    user: str = ""
    account: str = ""
    event: str = ""
    message_id: str = ""
    timestamp: datetime | None = None
    previous_user: str = ""

    def __str__(self) -> str:
        parts = [
            self.kind,
            self.event and f"“{self.event}”",
            self.user and f"user {self.user}",
            self.previous_user and f"previously {self.previous_user}",
            self.account and f"account {self.account}",
        ]
        return " · ".join(part for part in parts if part)

    def is_meant(self, readings: Sequence[tuple[str, ...]]) -> bool:
        """Whether all terms of one of the readings are among its ids and names."""
        names = {self.user, self.account, self.event, self.message_id, self.previous_user}
        return any(names.issuperset(reading) for reading in readings)


def summarize(payload: bytes) -> MessageSummary:
    """The payload's summary. Its kind is "undecodable" if the payload cannot be decoded."""
    try:
        message = decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return MessageSummary("undecodable")
    if isinstance(message, UnusableMessage):
        return MessageSummary(
            f"invalid {message.kind}",
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
        previous_user=message.previous_id if isinstance(message, Alias) else "",
    )


def short_reason(reason: str, detail: str = "") -> str:
    """The reason in a few words, with the message's own detail."""
    short = DropReason(reason).label.split(":", 1)[0]
    return f"{short}: {detail}" if detail else short


def format_age(seconds: float) -> str:
    """A waiting time in its largest whole unit."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
