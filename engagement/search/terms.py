"""What people enter into a search box: words, all of which must match, and phrases in quotes."""

import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import NamedTuple

# Of more words than these, only the whole text is looked for.
MAX_WORDS = 8
# A message has four names: of its user, its account, its event, and itself.
MAX_TERMS = 4

_WORD = re.compile(r'"([^"]+)"(?!\S)|\S+')


class _Word(NamedTuple):
    text: str
    start: int
    end: int
    is_quoted: bool


def words_of(text: str) -> list[str]:
    """The words of the text, each once. Words in quotes are one."""
    return list(dict.fromkeys(word.text for word in _words(text)))


def readings_of(text: str) -> list[tuple[str, ...]]:
    """The ways to read the text as at most MAX_TERMS terms, the whole text first. Of an empty text,
    the way to read it is no term.

    Ids and names may contain spaces, so "u1 Report Shared" is also "u1" and "Report Shared". A
    phrase in quotes is a term of its own.
    """
    words = _words(text)
    readings: dict[tuple[str, ...], None] = {(text,) if text else (): None}
    if words and len(words) <= MAX_WORDS:
        for count in range(0 if words[0].is_quoted else 1, min(len(words), MAX_TERMS)):
            for cuts in combinations(range(1, len(words)), count):
                readings |= dict.fromkeys(_terms(text, words, cuts))
    return list(readings)


def _words(text: str) -> list[_Word]:
    return [
        _Word(match[1] or match[0], match.start(), match.end(), match[1] is not None)
        for match in _WORD.finditer(text)
    ]


def _terms(text: str, words: list[_Word], cuts: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
    """The terms between the cuts, unless a phrase in quotes would be joined to others."""
    bounds = (0, *cuts, len(words))
    groups = [words[start:end] for start, end in pairwise(bounds)]
    if any(len(group) > 1 and any(word.is_quoted for word in group) for group in groups):
        return
    terms = [
        group[0].text if len(group) == 1 else text[group[0].start : group[-1].end]
        for group in groups
    ]
    yield tuple(dict.fromkeys(terms))
