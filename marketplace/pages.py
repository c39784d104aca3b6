"""A page of licenses as the marketplace sends it, taken apart into records.

One record must not cost its neighbors. The quick decoder refuses a whole page for half of a
surrogate pair or for deep nesting in one of its records; such a page is split by its brackets.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import msgspec

# A page has some ten thousand brackets, commas and strings. Splitting more takes too long.
MAX_TOKENS: Final = 500_000


@dataclass(frozen=True)
class LicensePage:
    """Licenses as they came, each one's JSON not looked at yet; whether there are more."""

    records: list[msgspec.Raw]
    has_more: bool


class _Links(msgspec.Struct):
    next: Any = None


class _Envelope(msgspec.Struct):
    licenses: list[msgspec.Raw]
    links: _Links | None = msgspec.field(name="_links", default=None)


def decode_page(body: bytes) -> LicensePage:
    """The page; raises what msgspec raises where *body* is none."""
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
        records = envelope.licenses
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        if (split := _split(body)) is None:
            raise
        rest, records = split
        envelope = msgspec.json.decode(rest, type=_Envelope)
    # Where the link leads is not reliable; that there is one is.
    return LicensePage(records, bool(envelope.links and envelope.links.next))


_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{},]', re.DOTALL)


def _split(body: bytes) -> tuple[bytes, list[msgspec.Raw]] | None:
    """The page with an empty list of licenses, and the records of that list; None where there is
    no such list with an end."""
    depth, name = 0, b""
    # Where the list begins, and the commas between its records.
    start = 0
    cuts: list[int] = []
    for number, token in enumerate(_TOKEN.finditer(body)):
        found = token.group()
        if found == b'"' or number == MAX_TOKENS:
            return None
        if found in b"[{":
            depth += 1
            if depth == 2 and found == b"[" and name == b'"licenses"':
                start = token.end()
        elif found in b"]}":
            if depth == 2 and start:
                edges = [start - 1, *cuts, token.start()]
                return body[:start] + body[token.start() :], _between(body, edges)
            depth -= 1
        elif found != b",":
            name = found if depth == 1 else name
        elif depth == 2 and start:
            cuts.append(token.start())
    return None


def _between(body: bytes, edges: list[int]) -> list[msgspec.Raw]:
    """What stands between each edge and the next, edges excluded."""
    return [msgspec.Raw(body[begin + 1 : end]) for begin, end in pairwise(edges)]
