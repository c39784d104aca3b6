"""Splits a page of a report, as the marketplace sends it, into records.

One bad record must not cost the others. The fast decoder rejects a whole page if one record has a
lone surrogate or is nested too deeply; such a page is split at its brackets.
"""

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final

import msgspec

# A page has about 10,000 brackets, commas, and strings. Splitting more takes too long.
MAX_TOKENS: Final = 500_000


@dataclass(frozen=True)
class ReportPage:
    """The JSON of each record, not decoded yet, and whether another page follows. *total* is the
    length of the list, if the marketplace says it."""

    records: list[msgspec.Raw]
    has_more: bool
    total: int | None = None


@cache
def _envelope(name: str) -> Any:
    """The type of a page whose records are in the list *name*."""
    # Licenses have their links in `_links`; by the description of the API, some reports have lists
    # of them at the top.
    fields = [
        ("records", list[msgspec.Raw], msgspec.field(name=name)),
        ("links", Any, msgspec.field(name="_links", default=None)),
        ("next", Any, None),
        ("total", Any, msgspec.field(name="totalCount", default=None)),
    ]
    return msgspec.defstruct("_Envelope", fields)


def decode_page(body: bytes, name: str = "licenses") -> ReportPage:
    """The page in *body*, whose records are in the list *name*. Raises what msgspec raises if it is
    not one."""
    try:
        envelope = msgspec.json.decode(body, type=_envelope(name))
        records = envelope.records
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        if (parts := _split(body, f'"{name}"'.encode())) is None:
            raise
        rest, records = parts
        envelope = msgspec.json.decode(rest, type=_envelope(name))
    links = envelope.links if isinstance(envelope.links, dict) else {}
    # The link's target is not reliable, only its presence.
    has_more = bool(links.get("next") or envelope.next)
    return ReportPage(records, has_more, _count(envelope.total))


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    return value if is_count else None


_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{},]', re.DOTALL)


def _split(body: bytes, list_name: bytes) -> tuple[bytes, list[msgspec.Raw]] | None:
    """The page without its records, and the records; None without a complete list of them."""
    depth, name = 0, b""
    # Where the list begins, and the commas between its records.
    start = 0
    cuts: list[int] = []
    for number, token in enumerate(_TOKEN.finditer(body)):
        text = token.group()
        if text == b'"' or number == MAX_TOKENS:
            return None
        if text in b"[{":
            depth += 1
            if depth == 2 and text == b"[" and name == list_name:
                start = token.end()
        elif text in b"]}":
            if depth == 2 and start:
                edges = [start - 1, *cuts, token.start()]
                return body[:start] + body[token.start() :], _between(body, edges)
            depth -= 1
        elif text != b",":
            name = text if depth == 1 else name
        elif depth == 2 and start:
            cuts.append(token.start())
    return None


def _between(body: bytes, edges: list[int]) -> list[msgspec.Raw]:
    """The text between each edge and the next, without the edges."""
    return [msgspec.Raw(body[begin + 1 : end]) for begin, end in pairwise(edges)]
