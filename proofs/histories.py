"""What readers saw, and whether it contradicts what is promised.

Clients only add events, so of each user the number that a reader sees only grows. A history is in
order if

- nobody sees fewer of a user than before (*monotonic*), or more than were sent (*real*),
- of any two lists of one database, one has at least as many of everybody (*one order*): each is a
  state that the database had,
- a list that begins after another one ended has at least as many (*fresh*),
- a copy that followed ``changed_since`` to the end has at least what lists showed before its walk,
  and at most what they show after it (*a prefix*).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

# The number of events of each user, by its id.
Counts: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class Read:
    """A list that a reader got, or a copy after a walk. Times are seconds of one clock."""

    reader: str
    database: str
    began: float
    ended: float
    counts: Counts
    is_copy: bool = False

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class Contradiction(NamedTuple):
    """A promise, and the two reads that break it."""

    promise: str
    reader: str
    user: str
    had: int
    has: int
    at: float


def find_contradictions(
    reads: Iterable[Read], times: Mapping[str, Sequence[float]]
) -> list[Contradiction]:
    """What contradicts the promises. *times* has the sorted times at which events of each user were
    sent."""
    by_reader, by_database = defaultdict(list), defaultdict(list)
    for read in sorted(reads, key=lambda read: read.ended):
        by_reader[read.reader].append(read)
        by_database[read.database].append(read)
    contradictions: list[Contradiction] = []
    for own in by_reader.values():
        for before, after in pairwise(own):
            contradictions += _fewer("monotonic", before, after)
        for read in own:
            contradictions += _invented(read, times)
    for own in by_database.values():
        lists = [read for read in own if not read.is_copy]
        for before, after in pairwise(sorted(lists, key=lambda read: read.total)):
            contradictions += _fewer("one order", before, after)
        contradictions += _stale("fresh", lists, lists)
        copies = [read for read in own if read.is_copy]
        contradictions += _stale("a prefix", lists, copies)
        contradictions += _stale("a prefix", copies, lists)
    return contradictions


def _fewer(promise: str, before: Read, after: Read) -> Iterator[Contradiction]:
    """The first user of whom *after* has fewer."""
    for user, had in before.counts.items():
        if (has := after.counts.get(user, 0)) < had:
            yield Contradiction(promise, after.reader, user, had, has, after.began)
            return


def _invented(read: Read, times: Mapping[str, Sequence[float]]) -> Iterator[Contradiction]:
    for user, has in read.counts.items():
        if has > (number := bisect_right(times.get(user, ()), read.ended)):
            yield Contradiction("real", read.reader, user, number, has, read.began)
            return


def _stale(promise: str, earlier: Sequence[Read], later: Sequence[Read]) -> Iterator[Contradiction]:
    """What has fewer than the largest that ended before it began. *earlier* is sorted by its
    ends."""
    ends = [read.ended for read in earlier]
    largest = list(accumulate(earlier, _larger))
    for read in later:
        if before := bisect_right(ends, read.began):
            yield from _fewer(promise, largest[before - 1], read)


def _larger(first: Read, second: Read) -> Read:
    return second if second.total > first.total else first
