"""Limits how many traits a user or an account may have.

A message has a bounded number of traits, but messages may add more forever, and each write of a
subject rewrites all of its traits. So a subject gets a new trait only if there is room for it.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from engagement.tenure import parse_created_at
from engagement.traits import (
    MARKETPLACE_TRAITS,
    Source,
    Stamp,
    canonical_traits,
    merge_traits,
    source_of,
)

# A subject's number of traits, and their length as JSON. Traits from a license are few and short,
# and do not count.
MAX_TRAITS = 1_000
MAX_BYTES = 256 * 1024
# An existing trait may always change to a value of this length.
ALWAYS_ALLOWED_BYTES = 256
# The number of removed traits whose stamps are kept, latest first.
MAX_REMOVED_STAMPS = 1_000

TraitPatch = tuple[dict[str, Any], Stamp]

_LICENSE_TRAITS = frozenset(MARKETPLACE_TRAITS)


class MergedTraits(NamedTuple):
    """A subject's merged traits and stamps, as JSON, and when its traits say it was created.

    ``has_new_values`` is False if only stamps changed."""

    traits: str
    stamps: str
    created_at: Any
    has_new_values: bool
    has_new_name: bool


class TraitChange(NamedTuple):
    """A trait that took or lost a value. None is no value."""

    name: str
    value: Any
    stamp: Stamp
    previous: Any


class MergeResult(NamedTuple):
    """``merged`` is None if nothing changed. ``dropped_traits`` are the trait names that had no
    room, by the arrival of their message."""

    merged: MergedTraits | None
    dropped_traits: dict[int, list[str]]


def merge_patches(traits: str, stamps: str, patches: Sequence[TraitPatch]) -> MergeResult:
    """Merge the patches into the traits and stamps, given as JSON, within the limits.

    If the result fits, the sizes in between do not matter. Otherwise each new trait must fit when
    its message is merged.
    """
    values, value_stamps = msgspec.json.decode(traits), msgspec.json.decode(stamps)
    before = dict(values)
    changes = [merge_traits(values, value_stamps, patch, stamp) for patch, stamp in patches]
    dropped: dict[int, list[str]] = {}
    encoded = msgspec.json.encode(values)
    if len(values) > MAX_TRAITS or len(encoded) > MAX_BYTES:
        values, value_stamps = msgspec.json.decode(traits), msgspec.json.decode(stamps)
        changes, dropped = _merge_what_fits(values, value_stamps, patches)
        encoded = msgspec.json.encode(values)
    if not any(changes):
        return MergeResult(None, dropped)
    _drop_old_stamps(values, value_stamps)
    encoded_stamps = msgspec.json.encode(value_stamps).decode()
    merged = MergedTraits(
        encoded.decode(),
        encoded_stamps,
        parse_created_at(values),
        has_new_values=values != before,
        has_new_name=values.get("name") != before.get("name"),
    )
    return MergeResult(merged, dropped)


def find_changes(
    traits: str,
    stamps: str,
    patches: Sequence[TraitPatch],
    followed: frozenset[str],
    dropped: dict[int, list[str]],
) -> list[TraitChange]:
    """The changes of the *followed* traits by merging the patches, except what was *dropped*, one
    after the other: it must not matter which messages are in one batch."""
    values, value_stamps = msgspec.json.decode(traits), msgspec.json.decode(stamps)
    changes: list[TraitChange] = []
    for patch, stamp in patches:
        left_out = dropped.get(stamp[1], ())
        for name, value in canonical_traits(patch).items():
            if name not in followed or name in left_out:
                continue
            before = values.get(name)
            if merge_traits(values, value_stamps, {name: value}, stamp) and before != value:
                changes.append(TraitChange(name, value, stamp, before))
    return changes


def merge_new(patches: Sequence[TraitPatch]) -> MergeResult:
    """As ``merge_patches`` for a subject without traits, of which there is nearly always one."""
    if len(patches) == 1:
        ((patch, stamp),) = patches
        incoming = canonical_traits(patch)
        values = incoming
        if None in values.values():
            values = {name: value for name, value in values.items() if value is not None}
        encoded = msgspec.json.encode(values)
        if incoming and len(incoming) <= MAX_TRAITS and len(encoded) <= MAX_BYTES:
            stamps = _encode_stamps(incoming, stamp)
            created_at = parse_created_at(values)
            has_name = values.get("name") is not None
            merged = MergedTraits(encoded.decode(), stamps, created_at, bool(values), has_name)
            return MergeResult(merged, {})
    return merge_patches("{}", "{}", patches)


def _encode_stamps(names: Iterable[str], stamp: Stamp) -> str:
    """The JSON of this stamp for each of the names."""
    if source_of(stamp) is Source.MARKETPLACE:
        return _encode_shared_stamps(tuple(names), stamp)
    return msgspec.json.encode(dict.fromkeys(names, stamp)).decode()


# Many licenses that arrive together have the same fields. Their stamps are one string.
@lru_cache(maxsize=64)
def _encode_shared_stamps(names: tuple[str, ...], stamp: Stamp) -> str:
    return msgspec.json.encode(dict.fromkeys(names, stamp)).decode()


def drop_new_traits(patches: Sequence[TraitPatch]) -> dict[int, list[str]]:
    """The dropped traits if all traits of the patches are new and there is no room."""
    dropped: dict[int, list[str]] = {}
    for patch, stamp in patches:
        if new := [name for name, value in canonical_traits(patch).items() if value is not None]:
            dropped[stamp[1]] = new
    return dropped


def patched_names(patches: Sequence[TraitPatch]) -> list[str]:
    """The names of all traits in the patches."""
    return list({name for patch, _ in patches for name in canonical_traits(patch)})


def has_license_patch(patches: Sequence[TraitPatch]) -> bool:
    """Whether any of the patches comes from a license."""
    return any(source_of(stamp) is Source.MARKETPLACE for _, stamp in patches)


def _merge_what_fits(
    values: dict[str, Any], stamps: dict[str, Any], patches: Sequence[TraitPatch]
) -> tuple[list[bool], dict[int, list[str]]]:
    """Merge in place what there is room for. Returns whether each patch changed anything, and the
    dropped traits."""
    room = _Room(values, stamps)
    changes: list[bool] = []
    dropped: dict[int, list[str]] = {}
    for patch, stamp in patches:
        fitting: dict[str, Any] = {}
        for name, value in canonical_traits(patch).items():
            previous = stamps.get(name)
            if previous is not None and tuple(previous) >= stamp:
                continue
            if room.take(name, value, stamp):
                fitting[name] = value
            else:
                dropped.setdefault(stamp[1], []).append(name)
        changes.append(merge_traits(values, stamps, fitting, stamp))
    return changes, dropped


class _Room:
    """The sizes of a subject's traits, and so what else fits. Traits of a license do not count."""

    def __init__(self, values: dict[str, Any], stamps: dict[str, Any]) -> None:
        self._sizes = {
            name: _size(name, value)
            for name, value in values.items()
            if not (name in stamps and _is_of_license(name, stamps[name]))
        }
        # Two braces, and one comma less than there are traits.
        self._bytes = 1 + sum(self._sizes.values())

    def take(self, name: str, value: Any, stamp: Stamp) -> bool:
        """Take room for the trait's new value; None removes the trait. Returns whether it fits."""
        before = self._sizes.get(name)
        if value is None or _is_of_license(name, stamp):
            self._release(name)
            return True
        size = _size(name, value)
        if before is None:
            fits = len(self._sizes) < MAX_TRAITS and self._bytes + size <= MAX_BYTES
        else:
            is_small = size <= max(before, ALWAYS_ALLOWED_BYTES)
            fits = is_small or self._bytes - before + size <= MAX_BYTES
        if fits:
            self._release(name)
            self._sizes[name] = size
            self._bytes += size
        return fits

    def _release(self, name: str) -> None:
        self._bytes -= self._sizes.pop(name, 0)


def _is_of_license(name: str, stamp: Sequence[int]) -> bool:
    return name in _LICENSE_TRAITS and source_of(stamp) is Source.MARKETPLACE


def _size(name: str, value: Any) -> int:
    # Includes the colon and the comma.
    return len(msgspec.json.encode(name)) + len(msgspec.json.encode(value)) + 2


def _drop_old_stamps(values: dict[str, Any], stamps: dict[str, Any]) -> None:
    """Keep only the latest stamps of removed traits.

    The older a stamp is, the less likely is an even older message.
    """
    if len(stamps) - len(values) <= MAX_REMOVED_STAMPS:
        return
    removed_names = [name for name in stamps if name not in values]
    removed_names.sort(key=lambda name: tuple(stamps[name]), reverse=True)
    for name in removed_names[MAX_REMOVED_STAMPS:]:
        del stamps[name]
