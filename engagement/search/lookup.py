"""Answers a search, best matches first."""

from collections.abc import Collection
from typing import LiteralString, NamedTuple

from engagement.database import sql
from engagement.metric_names import Scope
from engagement.search.entries import KINDS

# Shorter terms have no trigram: two characters match the beginnings of texts and of words, and one
# character those of texts.
GRAM_LENGTH = 3
# Candidates that are read to choose the best from.
CANDIDATES = 200
TIMEOUT_SECONDS = 1.0


class Match(NamedTuple):
    """A user or an account whose texts contain the term."""

    product_id: int
    subject_id: int
    text: str


# Every trigram of %(grams)s is in the text. The index ignores their order, LIKE does not.
MATCHES: LiteralString = """
    SELECT e.product_id, e.subject_id, e.text FROM engagement_searchentry e
    WHERE e.product_id = %(product)s AND e.kind = %(kind)s
      AND engagement_search_grams(e.product_id * 2 + e.kind, e.text)
          @> engagement_search_grams(%(product)s::bigint * 2 + %(kind)s, %(grams)s)
      AND e.text LIKE %(pattern)s
    LIMIT %(limit)s
"""


def find(
    product_ids: Collection[int], scope: Scope, term: str, limit: int = CANDIDATES
) -> list[Match]:
    """The products' users or accounts that match *term*: any part, in upper or lower case.

    At most *limit*, best first: texts that begin with the term, then words that do, then others. If
    more match, it is not determined which are found. Raises sql.StatementTimeout.
    """
    term = " ".join(term.replace("\0", "").lower().split())
    matches: dict[tuple[int, int], Match] = {}
    if not term:
        return []
    for product_id in product_ids:
        for grams in _spellings(term):
            parameters = {
                "product": product_id,
                "kind": KINDS[scope].value,
                "grams": grams,
                "pattern": f"%{_escape(grams)}%",
                "limit": limit,
            }
            with sql.statement_timeout(TIMEOUT_SECONDS):
                rows = [Match(*row) for row in sql.fetch(MATCHES, parameters)]
            matches |= {(match.product_id, match.subject_id): match for match in rows}
    return sorted(matches.values(), key=lambda match: _rank(match, term))[:limit]


def _spellings(term: str) -> list[str]:
    """The term with what must come before it in a text, each at least a trigram long."""
    if len(term) >= GRAM_LENGTH:
        return [term]
    beginning = f"\n\n{term}"
    return [beginning, f" {term}"] if len(term) == GRAM_LENGTH - 1 else [beginning]


def _escape(term: str) -> str:
    return term.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _rank(match: Match, term: str) -> tuple[bool, bool, str]:
    begins_text, begins_word = f"\n\n{term}" in match.text, f" {term}" in match.text
    return not begins_text, not begins_word, match.text
