"""What is missing of a message, in words for its sender."""

from collections.abc import Collection

from engagement.messages import RejectionReason
from engagement.recording.aliases import MAX_IDS_PER_USER

UNJOINED = {
    RejectionReason.TOO_MANY_IDS: f"a user has at most {MAX_IDS_PER_USER} ids",
    RejectionReason.SHARED_ID: "another user has the previous id already",
}
# Of up to 256 traits in a message.
MAX_TRAITS_NAMED = 10
_MAX_NAME_LENGTH = 60


def describe_left_out(placeholder: str) -> str:
    """The placeholder that a message names beside its user or account."""
    return f"{_truncate(placeholder)} was left out; the rest was recorded"


def describe_dropped_traits(
    without_room: Collection[str] | None, new_names: Collection[str] | None = None
) -> str:
    """The message's traits that its user or account, or its product, has no room for."""
    texts = []
    if without_room:
        texts.append(f"not kept: {name_traits(without_room)}")
    if new_names:
        texts.append(f"new names that the product has no room for: {name_traits(new_names)}")
    return "; ".join(texts)


def name_traits(names: Collection[str]) -> str:
    """The names, or the first of them."""
    shown_names = [_truncate(name) for name in sorted(names)[:MAX_TRAITS_NAMED]]
    more = f" and {len(names) - MAX_TRAITS_NAMED} more" if len(names) > MAX_TRAITS_NAMED else ""
    return f"{', '.join(shown_names)}{more}"


def _truncate(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[:_MAX_NAME_LENGTH]}…"
