"""The search of the guides: their sections that have all words of a query."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from django.utils.html import format_html
from django.utils.safestring import SafeString

MAX_RESULTS, MAX_QUERY_LENGTH = 20, 100
# Of an excerpt, before and after its first word.
BEFORE, AFTER = 80, 160
_HEADING = re.compile(r"(#{1,4}) (.+)")
_NOT_IN_ANCHOR = re.compile(r"[^\w\- ]")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_EMPHASIS = re.compile(r"[`*]+")
_MARKUP = re.compile(r"[|]|-{3,}|^\s*(?:[-#>]|[0-9]+\.|:?-+:?)\s+", re.MULTILINE)


class Section(NamedTuple):
    """A part of a guide below a heading; *lower* is its text for comparing."""

    guide: str
    heading: str
    url: str
    text: str
    lower: str


class Result(NamedTuple):
    """A section with all words of the query. *excerpt* marks them."""

    guide: str
    heading: str
    url: str
    excerpt: SafeString


def search(query: str, sections: Iterable[Section]) -> list[Result]:
    """The sections that have all words of the query: first those whose heading has them, then those
    that have them most often."""
    words = sorted(set(query.lower()[:MAX_QUERY_LENGTH].split()), key=len, reverse=True)
    if not words:
        return []
    ranked = []
    for number, section in enumerate(sections):
        title = f"{section.guide} {section.heading}".lower()
        if all(word in section.lower or word in title for word in words):
            in_title = sum(word in title for word in words)
            often = sum(section.lower.count(word) for word in words)
            ranked.append((-in_title, -often / (200 + len(section.text)), number, section))
    return [
        Result(section.guide, section.heading, section.url, _excerpt(section, words))
        for *_, section in sorted(ranked)[:MAX_RESULTS]
    ]


def sections(guide: str, url: str, markdown: str) -> Iterator[Section]:
    """The parts of the guide of this title below its headings."""
    anchors = set[str]()
    heading, anchor, lines, is_code = "", "", list[str](), False
    for line in [*markdown.splitlines(), "# end"]:
        is_code ^= line.lstrip().startswith("```")
        match = None if is_code else _HEADING.fullmatch(line)
        if match is None:
            lines.append(line)
            continue
        text = _plain("\n".join(each for each in lines if "```" not in each))
        if text:
            address = f"{url}#{anchor}" if anchor else url
            yield Section(guide, heading, address, text, text.lower())
        lines = []
        if len(match[1]) > 1:
            heading = _plain(match[2])
            anchor = unique_anchor(heading, anchors)


def unique_anchor(text: str, anchors: set[str]) -> str:
    """The anchor of a heading, as GitHub makes it, which is added to *anchors* of the page."""
    anchor = _NOT_IN_ANCHOR.sub("", text.lower()).replace(" ", "-")
    unique, number = anchor, 0
    while unique in anchors:
        number += 1
        unique = f"{anchor}-{number}"
    anchors.add(unique)
    return unique


def _plain(markdown: str) -> str:
    """The text without links, emphasis, and the marks of lists and tables."""
    return " ".join(_EMPHASIS.sub("", _MARKUP.sub(" ", _LINK.sub(r"\1", markdown))).split())


def _excerpt(section: Section, words: Sequence[str]) -> SafeString:
    places = [section.lower.find(word) for word in words]
    first = min((place for place in places if place >= 0), default=0)
    begin = max(0, first - BEFORE)
    end = min(len(section.text), first + AFTER)
    # Whole words.
    begin = section.text.find(" ", begin) + 1 if begin else 0
    end = end if end == len(section.text) else max(section.text.rfind(" ", 0, end), first)
    text = section.text[begin:end]
    text = f"{'… ' if begin else ''}{text}{' …' if end < len(section.text) else ''}"
    # Each second part is one of the words.
    parts = re.split(f"({'|'.join(map(re.escape, words))})", text, flags=re.IGNORECASE)
    return SafeString(
        "".join(
            format_html("<mark>{}</mark>" if number % 2 else "{}", part)
            for number, part in enumerate(parts)
        )
    )
