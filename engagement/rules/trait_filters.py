"""What traits must be, as conditions of queries. None of them raises, whatever the traits hold."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
from django.db.models import (
    BooleanField,
    Case,
    DateTimeField,
    DecimalField,
    F,
    Func,
    JSONField,
    Q,
    TextField,
    Value,
    When,
)
from django.db.models.lookups import GreaterThanOrEqual, IsNull, LessThan, LessThanOrEqual

from engagement.rules.rules import TraitCondition, parse_day
from engagement.traits import canonical_name

_JSON_SCALAR = re.compile(
    r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false", flags=re.ASCII
)


def trait_filter(condition: TraitCondition, traits: str) -> Q:
    """What the condition asks of the column that *traits* leads to, which may be NULL."""
    name, value = condition.trait, condition.value
    match condition.operator:
        case "is":
            return trait_equals(traits, name, str(value))
        case "is_not":
            return null_safe_not(trait_equals(traits, name, str(value)))
        case "contains":
            return Q(_Contains(traits, name, str(value)))
        case "is_set":
            return Q(IsNull(_Text(traits, name), False))
        case "is_not_set":
            return Q(IsNull(_Text(traits, name), True))
        case "at_least":
            return Q(GreaterThanOrEqual(TraitNumber(traits, name), _number(value)))
        case "at_most":
            return Q(LessThanOrEqual(TraitNumber(traits, name), _number(value)))
        case "before":
            return Q(LessThan(_Time(traits, name), start_of_day(_day(value))))
        case "after":
            return Q(GreaterThanOrEqual(_Time(traits, name), start_of_day(_day(value), 1)))


def trait_equals(traits: str, name: str, value: str) -> Q:
    """The trait is the text *value*, or the JSON number or boolean that is written like it.

    Containment is what the GIN indexes user_traits and account_traits answer.
    """
    name = canonical_name(name)
    found = Q(**{f"{traits}__contains": {name: value}})
    if _JSON_SCALAR.fullmatch(value):
        # A number that cannot be decoded is larger than any trait may hold.
        with suppress(msgspec.DecodeError):
            found |= Q(**{f"{traits}__contains": {name: msgspec.json.decode(value)}})
    return found


def null_safe_not(met: Q) -> Q:
    """What is met exactly where *met* is not, also where it is NULL."""
    return Q(Case(When(met, then=Value(False)), default=Value(True)))


def start_of_day(day: date, days_later: int = 0) -> datetime:
    """The beginning of the UTC day so many days after *day*."""
    return datetime.combine(day + timedelta(days=days_later), time(), UTC)


def _number(value: Any) -> Value:
    # As it is written, so that 0.1 is the trait 0.1.
    return Value(Decimal(repr(value)), DecimalField())


def _day(value: Any) -> date:
    day = parse_day(value)
    assert day is not None, "A rule that was parsed has a date here."
    return day


# --- Expressions ----------------------------------------------------------------------------


class _OfTrait(Func):
    """What is made of a trait's text, which is NULL where the trait is absent.

    Spelled as a function, because Django's key look-ups take a name like ``5`` for a place in a
    list.
    """

    function = "jsonb_object_field_text"

    def __init__(self, traits: str, name: str) -> None:
        super().__init__(F(traits), Value(canonical_name(name)))


class _Text(_OfTrait):
    output_field = TextField()


class TraitNumber(_OfTrait):
    """A trait that is a number, or a text that is a plain decimal one; else NULL.

    CASE decides first, where a list of conditions may be worked off in any order.
    """

    template = (
        "(SELECT CASE WHEN length(v) <= 700 AND v ~ '^[-+]?[0-9]+([.][0-9]+)?$' "
        "THEN v::numeric END FROM (SELECT %(function)s(%(expressions)s) AS v) AS trait)"
    )
    output_field = DecimalField()


class _Time(_OfTrait):
    """A trait that is an ISO 8601 date or time, to the second, UTC without a zone; else NULL.

    PostgreSQL reads much else as a time, such as ``now`` and ``infinity``, and refuses some of what
    looks right, such as the 30th of February.
    """

    template = (
        "(SELECT CASE WHEN v ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]([01][0-9]|2[0-3]):[0-5][0-9]"
        "(:[0-5][0-9])?(Z|[-+][0-9]{2}(:?[0-9]{2})?)?)?$' "
        "AND pg_input_is_valid(v, 'timestamptz') THEN v::timestamptz END "
        "FROM (SELECT regexp_replace(%(function)s(%(expressions)s), "
        "'(:[0-9]{2}:[0-9]{2})[.,][0-9]{1,9}', '\\1') AS v) AS trait)"
    )
    output_field = DateTimeField()


class TraitType(Func):
    """What kind of JSON value a trait is, such as ``number``; NULL where it is absent."""

    function = "jsonb_typeof"
    output_field = TextField()

    def __init__(self, traits: str, name: str) -> None:
        super().__init__(_trait(traits, name))


class _Contains(Func):
    """Whether a trait is a text that has the other in it, or a list that has it as an entry."""

    template = (
        "(SELECT CASE jsonb_typeof(v) WHEN 'string' THEN strpos(lower(v #>> '{}'), lower(x)) > 0 "
        "WHEN 'array' THEN EXISTS (SELECT FROM jsonb_array_elements(v) AS entry "
        "WHERE jsonb_typeof(entry) IN ('string', 'number') "
        "AND lower(entry #>> '{}') = lower(x)) END "
        "FROM (VALUES (%(expressions)s)) AS trait(v, x))"
    )
    output_field = BooleanField()

    def __init__(self, traits: str, name: str, part: str) -> None:
        super().__init__(_trait(traits, name), Value(part))


def _trait(traits: str, name: str) -> Func:
    known = Value(canonical_name(name))
    return Func(F(traits), known, function="jsonb_object_field", output_field=JSONField())
