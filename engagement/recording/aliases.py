"""Decides which user ids are one person's, and which of them stands for the person.

Both depend on the aliases alone, and not on their order of arrival: the ids of a person are those
that aliases connect, in any direction and over any number of steps.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from engagement.messages import RejectionReason
from engagement.recording.batch import AliasMessage, ExternalKey

# A mistake of a sender could make all users one person.
MAX_IDS_PER_USER = 100

# The timestamp and the arrival of an alias. The greater one is later.
AliasStamp: TypeAlias = tuple[datetime, int]


class StoredAlias(NamedTuple):
    """The latest alias from one id to another, by the ids of one product."""

    previous_id: str
    new_id: str
    stamp: AliasStamp


def current_id(aliases: Iterable[StoredAlias]) -> str:
    """Which of a person's ids stands for the person.

    It is an id that no alias replaces; of several, the one that the latest alias names. If the
    aliases form a circle, it is the id whose replacement is the oldest: the latest aliases count.
    """
    replaced: dict[str, AliasStamp] = {}
    latest: dict[str, AliasStamp] = {}
    for previous_id, new_id, stamp in aliases:
        replaced[previous_id] = max(stamp, replaced.get(previous_id, stamp))
        latest[new_id] = max(stamp, latest.get(new_id, stamp))
    never_replaced = latest.keys() - replaced.keys()
    if never_replaced:
        return max(never_replaced, key=latest.__getitem__)
    return min(replaced, key=replaced.__getitem__)


class Grouping(NamedTuple):
    """The ids of the person of each id, and what became of the aliases.

    All ids of a person have the same set.
    """

    ids: dict[ExternalKey, set[ExternalKey]]
    accepted: list[AliasMessage]
    rejected: list[tuple[AliasMessage, RejectionReason]]


def group_ids(
    persons: Iterable[Collection[ExternalKey]],
    aliases: Sequence[AliasMessage],
    identified: Collection[ExternalKey] = (),
    previous_ids: Collection[ExternalKey] = (),
) -> Grouping:
    """Connect the ids that the aliases name.

    *persons* are the ids that are connected already, and *previous_ids* those that one of their
    aliases replaced. The persons of *identified* are identified.
    """
    ids: dict[ExternalKey, set[ExternalKey]] = {}
    for person in map(set, persons):
        ids |= dict.fromkeys(person, person)
    named = set(previous_ids)
    grouping = Grouping(ids, [], [])
    for alias in sorted(aliases, key=lambda alias: (alias.at, alias.arrival)):
        previous = ids.setdefault(alias.previous, {alias.previous})
        own = ids.setdefault(alias.user, {alias.user})
        if previous is not own:
            # What several people name as theirs, such as a device, stays with the first.
            if alias.previous in named and not previous.isdisjoint(identified):
                grouping.rejected.append((alias, RejectionReason.SHARED_ID))
                continue
            if len(previous) + len(own) > MAX_IDS_PER_USER:
                grouping.rejected.append((alias, RejectionReason.TOO_MANY_IDS))
                continue
            own |= previous
            ids |= dict.fromkeys(previous, own)
        named.add(alias.previous)
        grouping.accepted.append(alias)
    return grouping
