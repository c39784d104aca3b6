"""Answers a search, best matches first."""

from collections.abc import Collection
from typing import LiteralString, NamedTuple

from django.contrib.postgres.fields import ArrayField
from django.db.models import BigIntegerField, Exists, F, OuterRef, Q, QuerySet, Value

from core.database import sql
from engagement.metric_names import Scope
from engagement.models import SearchEntry, UserEngagement
from engagement.models.search import SearchGrams
from engagement.search.entries import KINDS

# Shorter terms have no trigram: two characters match the beginnings of texts and of words, and one
# character those of texts.
GRAM_LENGTH = 3
# Candidates that are read to choose the best from.
CANDIDATES = 200
# A term that most texts have matches that many of the first entries. The index would read all
# matches before the first one.
ENTRIES_READ_FIRST = 10_000
TIMEOUT_SECONDS = 1.0


class Match(NamedTuple):
    """A user or an account whose texts contain the term."""

    product_id: int
    subject_id: int
    text: str


def find(product_id: int, scope: Scope, term: str, audience_of: int | None = None) -> list[Match]:
    """The product's users or accounts that match *term*: any part, in upper or lower case.

    At most CANDIDATES, best first: texts that begin with the term, then those with a word that
    does, then others. If more match, it is not determined which are found. Of users, only those in
    the audience of the score set *audience_of*, if one is given. Raises sql.StatementTimeout.
    """
    normal = _normalize(term)
    score_set = audience_of if scope == "user" else None
    with sql.statement_timeout(TIMEOUT_SECONDS):
        matches = _first_matches(product_id, scope, normal, score_set)
        if len(matches) < CANDIDATES:
            rows = matching_entries([product_id], scope, term)
            if score_set is not None:
                rows = rows.filter(_in_audience(score_set))
            columns = rows.values_list("product_id", "subject_id", "text")[:CANDIDATES]
            matches = [Match(*row) for row in columns]
    return sorted(matches, key=lambda match: _rank(match, normal))


_FIRST_MATCHES: LiteralString = """
    SELECT product_id, subject_id, text FROM (
        SELECT product_id, subject_id, text FROM engagement_searchentry
        WHERE product_id = %(product)s AND kind = %(kind)s
        ORDER BY subject_id LIMIT %(entries)s) first
    WHERE EXISTS (
        SELECT FROM unnest(%(spellings)s::text[]) spelling WHERE strpos(text, spelling) > 0)
      AND (%(score_set)s::bigint IS NULL OR EXISTS (
        SELECT FROM engagement_userengagement e
        WHERE e.product_id = first.product_id AND e.score_set_id = %(score_set)s::bigint
          AND e.user_id = first.subject_id))
    LIMIT %(limit)s
"""


def _in_audience(score_set: int) -> Exists:
    rows = UserEngagement.objects.filter(
        product_id=OuterRef("product_id"), score_set=score_set, user_id=OuterRef("subject_id")
    )
    return Exists(rows)


def _first_matches(product_id: int, scope: Scope, term: str, score_set: int | None) -> list[Match]:
    """The matches among the product's first entries."""
    parameters = {
        "product": product_id,
        "kind": KINDS[scope].value,
        "entries": ENTRIES_READ_FIRST,
        "spellings": _spellings(term),
        "score_set": score_set,
        "limit": CANDIDATES,
    }
    return [Match(*row) for row in sql.fetch(_FIRST_MATCHES, parameters)]


def matching_entries(
    product_ids: Collection[int], scope: Scope, term: str
) -> QuerySet[SearchEntry]:
    """The entries of the products' users or accounts that match *term*."""
    grams = SearchGrams(F("product_id") * 2 + F("kind"), F("text"), output_field=_GRAMS)
    matches_any = Q(pk__in=[])
    for product_id in product_ids:
        for spelling in _spellings(_normalize(term)):
            # Every trigram is in the text. The text's condition also holds their order.
            seed = Value(product_id * 2 + KINDS[scope])
            spelled = SearchGrams(seed, Value(spelling), output_field=_GRAMS)
            matches_any |= Q(product=product_id, grams__contains=spelled, text__contains=spelling)
    return SearchEntry.objects.alias(grams=grams).filter(matches_any, kind=KINDS[scope])


_GRAMS = ArrayField(BigIntegerField())


def _normalize(term: str) -> str:
    return " ".join(term.replace("\0", "").lower().split())


def _spellings(term: str) -> list[str]:
    """The term with what must come before it in a text, each at least a trigram long."""
    if not term or len(term) >= GRAM_LENGTH:
        return [term] if term else []
    beginning = f"\n\n{term}"
    return [beginning, f" {term}"] if len(term) == GRAM_LENGTH - 1 else [beginning]


def _rank(match: Match, term: str) -> tuple[bool, bool, str]:
    begins_text, begins_word = f"\n\n{term}" in match.text, f" {term}" in match.text
    return not begins_text, not begins_word, match.text
