"""How many traits a user or an account has at most.

A message has a bounded number of traits, but messages may go on adding others for ever, and each
write of a subject rewrites all of its traits. So a new trait is kept only where there is room.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from engagement.tenure import parse_created_at
from engagement.traits import (
    MARKETPLACE_TRAITS,
    Source,
    Stamp,
    canonical_traits,
    merge_traits,
    read_stamp,
)

# What a subject may have, and how long all of that may be as JSON. Traits that a license wrote are
# few and short, and always find room.
MAX_TRAITS = 1_000
MAX_BYTES = 256 * 1024
# A present trait may change to a value this long whatever else there is.
ALWAYS_ALLOWED_BYTES = 256
# The stamps of so many removed traits are kept, the latest.
MAX_REMOVED_STAMPS = 1_000

TraitPatch = tuple[dict[str, Any], Stamp]

_LICENSE_TRAITS = frozenset(MARKETPLACE_TRAITS)


class MergedTraits(NamedTuple):
    """A subject's merged traits and stamps, as JSON, and what the traits say of its creation."""

    traits: str
    stamps: str
    created_at: Any


class MergeResult(NamedTuple):
    """``merged`` is None where nothing changed. ``refused`` has the names of the traits that found
    no room, by the arrival of their message."""

    merged: MergedTraits | None
    refused: dict[int, list[str]]


def merge_patches(traits: str, stamps: str, patches: Sequence[TraitPatch]) -> MergeResult:
    """Merge the patches into the traits and stamps, given as JSON, within the limits.

    What fits in the end is kept whatever came in between. Otherwise each new trait must fit when
    its message is merged.
    """
    values, written = msgspec.json.decode(traits), msgspec.json.decode(stamps)
    changes = [merge_traits(values, written, patch, stamp) for patch, stamp in patches]
    refused: dict[int, list[str]] = {}
    encoded = msgspec.json.encode(values)
    if len(values) > MAX_TRAITS or len(encoded) > MAX_BYTES:
        values, written = msgspec.json.decode(traits), msgspec.json.decode(stamps)
        changes, refused = _merge_what_fits(values, written, patches)
        encoded = msgspec.json.encode(values)
    if not any(changes):
        return MergeResult(None, refused)
    _let_go_of_removed(values, written)
    text = msgspec.json.encode(written).decode()
    return MergeResult(MergedTraits(encoded.decode(), text, parse_created_at(values)), refused)


def drop_new_traits(patches: Sequence[TraitPatch]) -> dict[int, list[str]]:
    """What is refused where all traits of the patches are new and there is no room."""
    refused: dict[int, list[str]] = {}
    for patch, stamp in patches:
        if new := [name for name, value in canonical_traits(patch).items() if value is not None]:
            refused[stamp[1]] = new
    return refused


def patched_names(patches: Sequence[TraitPatch]) -> list[str]:
    """The traits that the patches are about."""
    return list({name for patch, _ in patches for name in canonical_traits(patch)})


def has_license_patch(patches: Sequence[TraitPatch]) -> bool:
    """Whether some of the patches come from a license."""
    return any(read_stamp(stamp).source is Source.MARKETPLACE for _, stamp in patches)


def _merge_what_fits(
    values: dict[str, Any], written: dict[str, Any], patches: Sequence[TraitPatch]
) -> tuple[list[bool], dict[int, list[str]]]:
    """Merge in place what there is room for; whether each patch changed anything, and the rest."""
    room = _Room(values, written)
    changes: list[bool] = []
    refused: dict[int, list[str]] = {}
    for patch, stamp in patches:
        fitting: dict[str, Any] = {}
        for name, value in canonical_traits(patch).items():
            known = written.get(name)
            if known is not None and tuple(known) >= stamp:
                continue
            if room.take(name, value, stamp):
                fitting[name] = value
            else:
                refused.setdefault(stamp[1], []).append(name)
        changes.append(merge_traits(values, written, fitting, stamp))
    return changes, refused


class _Room:
    """What a subject has of traits that count, and so what else fits."""

    def __init__(self, values: dict[str, Any], written: dict[str, Any]) -> None:
        self._sizes = {
            name: _size(name, value)
            for name, value in values.items()
            if not (name in written and _is_of_license(name, written[name]))
        }
        # Two braces, and a comma less than there are traits.
        self._bytes = 1 + sum(self._sizes.values())

    def take(self, name: str, value: Any, stamp: Stamp) -> bool:
        """Whether the trait's new value, None for none, fits; it then has its room."""
        before = self._sizes.get(name)
        if value is None or _is_of_license(name, stamp):
            self._give_back(name)
            return True
        size = _size(name, value)
        if before is None:
            fits = len(self._sizes) < MAX_TRAITS and self._bytes + size <= MAX_BYTES
        else:
            is_small = size <= max(before, ALWAYS_ALLOWED_BYTES)
            fits = is_small or self._bytes - before + size <= MAX_BYTES
        if fits:
            self._give_back(name)
            self._sizes[name] = size
            self._bytes += size
        return fits

    def _give_back(self, name: str) -> None:
        self._bytes -= self._sizes.pop(name, 0)


def _is_of_license(name: str, stamp: Sequence[int]) -> bool:
    return name in _LICENSE_TRAITS and read_stamp(stamp).source is Source.MARKETPLACE


def _size(name: str, value: Any) -> int:
    # With the colon and the comma.
    return len(msgspec.json.encode(name)) + len(msgspec.json.encode(value)) + 2


def _let_go_of_removed(values: dict[str, Any], written: dict[str, Any]) -> None:
    """Keep the latest stamps of removed traits: the older one is, the less likely is a message
    from before it still to come."""
    if len(written) - len(values) <= MAX_REMOVED_STAMPS:
        return
    removed = [name for name in written if name not in values]
    removed.sort(key=lambda name: tuple(written[name]), reverse=True)
    for name in removed[MAX_REMOVED_STAMPS:]:
        del written[name]
