"""Answers a search, best matches first."""

from collections.abc import Collection, Sequence
from typing import LiteralString, NamedTuple

from django.contrib.postgres.fields import ArrayField
from django.db.models import BigIntegerField, Exists, F, OuterRef, Q, QuerySet, Value

from core.database import sql
from engagement.metric_names import Scope
from engagement.models import SearchEntry, UserEngagement
from engagement.models.search import SearchGrams
from engagement.search.entries import KINDS
from engagement.search.terms import MAX_WORDS, words_of

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
    """The product's users or accounts that match *term*, in upper or lower case: its parts are
    anywhere in their texts (``_Query``).

    At most CANDIDATES, best first: texts that begin with the term, then those with a word that
    does, then those that contain it, then those with all its words. If more match, it is not
    determined which are found. Of users, only those in the audience of the score set *audience_of*,
    if one is given. Raises sql.StatementTimeout.
    """
    query = _Query.of(term)
    score_set = audience_of if scope == "user" else None
    with sql.statement_timeout(TIMEOUT_SECONDS):
        matches = _first_matches(product_id, scope, query, score_set)
        if len(matches) < CANDIDATES:
            rows = matching_entries([product_id], scope, term)
            if score_set is not None:
                rows = rows.filter(_in_audience(score_set))
            columns = rows.values_list("product_id", "subject_id", "text")[:CANDIDATES]
            matches = [Match(*row) for row in columns]
    return sorted(matches, key=lambda match: _rank(match, query.phrase))


_FIRST_MATCHES: LiteralString = """
    SELECT product_id, subject_id, text FROM (
        SELECT product_id, subject_id, text FROM engagement_searchentry
        WHERE product_id = %(product)s AND kind = %(kind)s
        ORDER BY subject_id LIMIT %(entries)s) first
    WHERE (EXISTS (
            SELECT FROM unnest(%(spellings)s::text[]) spelling WHERE strpos(text, spelling) > 0)
        OR cardinality(%(words)s::text[]) > 0 AND NOT EXISTS (
            SELECT FROM unnest(%(words)s::text[]) word
            WHERE strpos(translate(text, E'\n', ' '), word) = 0))
      AND (%(score_set)s::bigint IS NULL OR EXISTS (
        SELECT FROM engagement_userengagement e
        WHERE e.product_id = %(product)s AND e.score_set_id = %(score_set)s::bigint
          AND e.user_id = first.subject_id))
    LIMIT %(limit)s
"""


def _in_audience(score_set: int) -> Exists:
    rows = UserEngagement.objects.filter(
        product_id=OuterRef("product_id"), score_set=score_set, user_id=OuterRef("subject_id")
    )
    return Exists(rows)


def _first_matches(
    product_id: int, scope: Scope, query: "_Query", score_set: int | None
) -> list[Match]:
    """The matches among the product's first entries."""
    parameters = {
        "product": product_id,
        "kind": KINDS[scope].value,
        "entries": ENTRIES_READ_FIRST,
        "spellings": query.spellings(),
        "words": query.words,
        "score_set": score_set,
        "limit": CANDIDATES,
    }
    return [Match(*row) for row in sql.fetch(_FIRST_MATCHES, parameters)]


def matching_entries(
    product_ids: Collection[int], scope: Scope, term: str
) -> QuerySet[SearchEntry]:
    """The entries of the products' users or accounts that match *term*."""
    grams = SearchGrams(F("product_id") * 2 + F("kind"), F("text"), output_field=_GRAMS)
    query = _Query.of(term)
    matches_any = Q(pk__in=[])
    for product_id in product_ids:
        seed = Value(product_id * 2 + KINDS[scope])
        for alternative in (*([each] for each in query.spellings()), query.words):
            if alternative:
                matches_any |= Q(product=product_id) & _contains_all(alternative, seed)
    return SearchEntry.objects.alias(grams=grams).filter(matches_any, kind=KINDS[scope])


def _contains_all(parts: Sequence[str], seed: Value) -> Q:
    """Keeps the entries whose texts contain all *parts*. Beside others, one that begins with a
    space also begins a text."""
    texts, grams = Q(), Q()
    for part in parts:
        if part.startswith(" ") and len(parts) > 1:
            texts &= Q(text__contains=part) | Q(text__contains=f"\n{part[1:]}")
        else:
            # Every trigram is in the text. The text's condition also holds their order.
            spelled = SearchGrams(seed, Value(part), output_field=_GRAMS)
            texts, grams = texts & Q(text__contains=part), grams & Q(grams__contains=spelled)
    # PostgreSQL compares in this order what the index did not find: computing a row's trigrams
    # takes longer than reading its text.
    return texts & grams


_GRAMS = ArrayField(BigIntegerField())


class _Query(NamedTuple):
    """A normal term: entries contain the *phrase*, or all the *words*.

    There are no words if they would match nothing but the phrase, or if all are so short that the
    index does not have them. A short one begins a word of the text.
    """

    phrase: str
    words: list[str]

    @classmethod
    def of(cls, term: str) -> "_Query":
        phrase = " ".join(term.replace("\0", "").lower().split())
        words = words_of(phrase)
        if len(words) == 1:
            return cls(words[0], [])
        parts = [word if len(word) >= GRAM_LENGTH else f" {word}" for word in words]
        has_long = any(not part.startswith(" ") for part in parts)
        return cls(phrase, parts if has_long and len(parts) <= MAX_WORDS else [])

    def spellings(self) -> list[str]:
        """The phrase with what must come before it in a text, each at least a trigram long."""
        phrase = self.phrase
        if not phrase or len(phrase) >= GRAM_LENGTH:
            return [phrase] if phrase else []
        beginning = f"\n\n{phrase}"
        return [beginning, f" {phrase}"] if len(phrase) == GRAM_LENGTH - 1 else [beginning]


def _rank(match: Match, phrase: str) -> tuple[bool, bool, bool, str]:
    text = match.text
    return f"\n\n{phrase}" not in text, f" {phrase}" not in text, phrase not in text, text
