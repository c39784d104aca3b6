"""The names and tags, and the values of traits, that forms suggest."""

from dataclasses import dataclass, field
from typing import Any, LiteralString, NamedTuple

from django.db.models import QuerySet

from access.work import accounts, owners
from core.database import sql
from engagement.metric_names import Scope
from engagement.models import Activation, EventName, Feature
from engagement.scopes import get_kind
from engagement.traits import canonical_name

# Of each kind. Other names can be typed.
MAX_SUGGESTIONS = 500
# Trait names come from at most this many users, accounts, and traits.
SUBJECTS_SAMPLED = 500
TRAITS_SAMPLED = 10_000

# The order of an index makes a large table as cheap as a small one. Traits of more than a megabyte
# are older than the limits.
_TRAITS: LiteralString = """
    SELECT DISTINCT name FROM (
        SELECT jsonb_object_keys(first.traits) AS name FROM (
            SELECT traits FROM {table} WHERE product_id = %(product)s
            ORDER BY external_id LIMIT %(subjects)s) first
        WHERE pg_column_size(first.traits) < 1024 * 1024
        LIMIT %(traits)s) names
    ORDER BY name
    LIMIT %(limit)s
"""
# The values of one trait come from at most this many subjects, and are counted in this time.
SUBJECTS_COUNTED = 50_000
VALUES_SUGGESTED, MAX_VALUE_LENGTH = 12, 60
VALUES_TIMEOUT_SECONDS = 2.0

# A value of a list counts for each of its entries, as "contains" finds it.
_VALUES: LiteralString = """
    WITH subject AS MATERIALIZED (
        SELECT traits -> %(name)s::text AS value FROM {table}
        WHERE product_id = %(product)s AND is_identified
        ORDER BY external_id LIMIT %(subjects)s)
    SELECT entry #>> '{{}}', count(*), (SELECT count(*) FROM subject)
    FROM subject
    CROSS JOIN LATERAL jsonb_array_elements(
        CASE jsonb_typeof(subject.value) WHEN 'array' THEN subject.value
            ELSE jsonb_build_array(subject.value) END) AS elements(entry)
    WHERE subject.value IS NOT NULL
      AND jsonb_typeof(entry) IN ('string', 'number', 'boolean')
      AND length(entry #>> '{{}}') BETWEEN 1 AND %(length)s
    GROUP BY 1 ORDER BY 2 DESC, 1
    LIMIT %(limit)s
"""


@dataclass(frozen=True)
class Suggestions:
    """Names of a product's user traits, account traits, events, features, possible owners of
    accounts, tags, and steps of activation."""

    product_id: int
    user_traits: list[str]
    account_traits: list[str]
    events: list[str]
    features: list[str]
    owners: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)


def load_suggestions(product_id: int) -> Suggestions:
    events = EventName.objects.filter(product_id=product_id).values_list("name", flat=True)
    return Suggestions(
        product_id,
        trait_names(product_id, "user"),
        trait_names(product_id, "account"),
        list(events[:MAX_SUGGESTIONS]),
        list(Feature.objects.filter(product=product_id).values_list("name", flat=True)),
        list(owners.names(product_id)),
        accounts.known_tags(product_id),
        list(dict.fromkeys(step["name"] for steps in _steps(product_id) for step in steps)),
    )


def _steps(product_id: int) -> QuerySet[Activation, Any]:
    rows = Activation.objects.filter(product=product_id, state=Activation.State.CURRENT)
    return rows.values_list("steps", flat=True)


def trait_names(product_id: int, scope: Scope, limit: int = MAX_SUGGESTIONS) -> list[str]:
    """The names of some traits of the product's users or accounts."""
    parameters = {
        "product": product_id,
        "subjects": SUBJECTS_SAMPLED,
        "traits": TRAITS_SAMPLED,
        "limit": limit,
    }
    return [name for (name,) in sql.fetch(_TRAITS.format(table=get_kind(scope).table), parameters)]


class ValueCount(NamedTuple):
    """A value of a trait, and the number of subjects that have it."""

    text: str
    subjects: int


@dataclass(frozen=True)
class TraitValues:
    """The most frequent values of a trait. ``sample_size`` is the number of subjects that were
    read, if that is not all of them."""

    values: list[ValueCount]
    sample_size: int | None = None


def load_trait_values(product_id: int, scope: Scope, trait: str) -> TraitValues:
    """The most frequent values of the trait; none if counting them takes too long."""
    parameters = {
        "product": product_id,
        "name": canonical_name(trait),
        "subjects": SUBJECTS_COUNTED,
        "length": MAX_VALUE_LENGTH,
        "limit": VALUES_SUGGESTED,
    }
    try:
        with sql.statement_timeout(VALUES_TIMEOUT_SECONDS):
            rows = sql.fetch(_VALUES.format(table=get_kind(scope).table), parameters)
    except sql.StatementTimeout:
        rows = []
    subjects = rows[0][2] if rows else 0
    return TraitValues(
        [ValueCount(text, count) for text, count, _ in rows],
        subjects if subjects == SUBJECTS_COUNTED else None,
    )
