"""An entry of a timeline."""

import hashlib
from dataclasses import dataclass
from datetime import date
from enum import StrEnum


class EntryKind(StrEnum):
    """What an entry is about. Entries of one day are in this order."""

    ALARM = "alarm"
    SCORE = "score"
    LICENSE = "license"
    OUTCOME = "outcome"
    SEGMENT = "segment"
    PEOPLE = "people"
    TRAIT = "trait"
    WORK = "work"
    SCORING = "scoring"


LABELS = {
    EntryKind.ALARM: "Alarms",
    EntryKind.SCORE: "Score",
    EntryKind.LICENSE: "License",
    EntryKind.OUTCOME: "Outcomes",
    EntryKind.SEGMENT: "Segments",
    EntryKind.PEOPLE: "People",
    EntryKind.TRAIT: "Traits",
    EntryKind.WORK: "Work",
    EntryKind.SCORING: "Scoring",
}
_PLACES = {kind: place for place, kind in enumerate(reversed(EntryKind))}


@dataclass(frozen=True)
class Entry:
    """What happened on a UTC day. ``type`` says it to programs, ``text`` to people.

    ``key`` tells entries of one day and type apart. ``who`` names users or logins, for readers who
    may see them. ``is_good`` is None for what is neither good nor bad.
    """

    day: date
    kind: EntryKind
    type: str
    text: str
    key: str = ""
    who: str = ""
    is_good: bool | None = None

    @property
    def position(self) -> tuple[int, int]:
        """Its place in the order of all entries, which a corrected text does not move."""
        return self.day.toordinal(), self.place

    @property
    def place(self) -> int:
        """Its place among those of its day: 0 to 2**63."""
        name = f"{self.type} {self.key}".encode()
        digest = int.from_bytes(hashlib.sha256(name).digest()[:7])
        return _PLACES[self.kind] << 56 | digest
