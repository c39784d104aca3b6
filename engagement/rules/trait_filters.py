"""Filters on traits. They never raise, whatever the traits contain."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
from django.db.models import (
    BooleanField,
    Case,
    DateField,
    DateTimeField,
    DecimalField,
    F,
    FloatField,
    Func,
    JSONField,
    Q,
    TextField,
    Value,
    When,
)
from django.db.models.lookups import GreaterThanOrEqual, IsNull, LessThan, LessThanOrEqual

from engagement.rules.rules import TraitCondition, parse_day
from engagement.trait_days import ISO_TIME, MAX_TEXT_LENGTH, UNIX_TIME
from engagement.traits import canonical_name

_JSON_SCALAR = re.compile(
    r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false", flags=re.ASCII
)


def trait_filter(condition: TraitCondition, traits: str) -> Q:
    """The filter for a condition on the column *traits*. It may be NULL."""
    name, value = condition.trait, condition.value
    match condition.operator:
        case "is":
            return trait_equals(traits, name, str(value))
        case "is_not":
            return null_safe_not(trait_equals(traits, name, str(value)))
        case "is_ignoring_case":
            return _equals_ignoring_case(traits, name, str(value))
        case "is_not_ignoring_case":
            return null_safe_not(_equals_ignoring_case(traits, name, str(value)))
        case "contains":
            return Q(_Contains(traits, name, str(value)))
        case "is_set":
            return Q(IsNull(TraitText(traits, name), False))
        case "is_not_set":
            return Q(IsNull(TraitText(traits, name), True))
        case "at_least":
            return Q(GreaterThanOrEqual(TraitNumber(traits, name), _number(value)))
        case "at_most":
            return Q(LessThanOrEqual(TraitNumber(traits, name), _number(value)))
        case "before":
            return Q(LessThan(_Time(traits, name), start_of_day(_day(value))))
        case "after":
            return Q(GreaterThanOrEqual(_Time(traits, name), start_of_day(_day(value), 1)))


def trait_equals(traits: str, name: str, value: str) -> Q:
    """The trait is the text *value*, or a JSON number or boolean that is written like it.

    The filter is a containment, which the GIN indexes user_traits and account_traits support.
    """
    name = canonical_name(name)
    equals = Q(**{f"{traits}__contains": {name: value}})
    if _JSON_SCALAR.fullmatch(value):
        # A number that cannot be decoded is larger than any trait.
        with suppress(msgspec.DecodeError):
            equals |= Q(**{f"{traits}__contains": {name: msgspec.json.decode(value)}})
    return equals


def _equals_ignoring_case(traits: str, name: str, value: str) -> Q:
    """As ``trait_equals``, in any case. No index supports it. It may be NULL."""
    # JSON writes its booleans in lower case.
    return Q(_SameText(traits, name, value)) | trait_equals(traits, name, value.lower())


def null_safe_not(condition: Q) -> Q:
    """True where *condition* is false or NULL."""
    return Q(Case(When(condition, then=Value(False)), default=Value(True)))


def start_of_day(day: date, days_later: int = 0) -> datetime:
    """The start of the UTC day that is *days_later* after *day*."""
    return datetime.combine(day + timedelta(days=days_later), time(), UTC)


def _number(value: Any) -> Value:
    # By its digits, so that 0.1 equals the trait 0.1.
    return Value(Decimal(repr(value)), DecimalField())


def _day(value: Any) -> date:
    day = parse_day(value)
    assert day is not None, "parse_rule() has checked the date."
    return day


# --- Expressions ----------------------------------------------------------------------------


class TraitText(Func):
    """A trait as text; NULL where it is missing.

    A function, because Django's key lookups treat a name like ``5`` as a list index.
    """

    function = "jsonb_object_field_text"
    output_field: Any = TextField()

    def __init__(self, traits: str, name: str) -> None:
        super().__init__(F(traits), Value(canonical_name(name)))


class TraitNumber(TraitText):
    """A trait that is a number, or a text that is a plain decimal number; else NULL.

    Uses CASE, because PostgreSQL may evaluate the operands of AND in any order.
    """

    template = (
        "(SELECT CASE WHEN length(v) <= 700 AND v ~ '^[-+]?[0-9]+([.][0-9]+)?$' "
        "THEN v::numeric END FROM (SELECT %(function)s(%(expressions)s) AS v) AS trait)"
    )
    output_field = DecimalField()


class _Time(TraitText):
    """A trait that is an ISO 8601 date or time, to the second; else NULL. Without a zone it is UTC.

    PostgreSQL also accepts ``now`` and ``infinity`` as times, and raises an error for a date such
    as the 30th of February.
    """

    template = (
        "(SELECT CASE WHEN v ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]([01][0-9]|2[0-3]):[0-5][0-9]"
        "(:[0-5][0-9])?(Z|[-+][0-9]{2}(:?[0-9]{2})?)?)?$' "
        "AND pg_input_is_valid(v, 'timestamptz') THEN v::timestamptz END "
        "FROM (SELECT regexp_replace(%(function)s(%(expressions)s), "
        "'(:[0-9]{2}:[0-9]{2})[.,][0-9]{1,9}', '\\1') AS v) AS trait)"
    )
    output_field = DateTimeField()


class TraitInRange(Func):
    """A trait that is a JSON number from *low* to *high*, as a float; else NULL."""

    function = "jsonb_object_field"
    # OFFSET keeps the planner from reading the trait again for each mention of it.
    template = (
        "(SELECT CASE WHEN jsonb_typeof(v) = 'number' THEN "
        "CASE WHEN v::numeric BETWEEN %(low)s AND %(high)s THEN v::double precision END END "
        "FROM (SELECT %(function)s(%(expressions)s) AS v OFFSET 0) AS trait)"
    )
    output_field = FloatField()

    def __init__(self, traits: str, name: str, low: int, high: int) -> None:
        super().__init__(F(traits), Value(canonical_name(name)), low=low, high=high)


class TraitDay(TraitText):
    """The UTC day of a trait as ``parse_trait_day()`` reads it; else NULL.

    Nearly all dates of licenses are as ``2025-01-31``, which needs no regular expression. A Unix
    time is in milliseconds from 100,000,000,000 on, and beyond the year 9999 it is no time. A
    fraction is cut off, because PostgreSQL would round it, maybe to the next day.
    """

    template = (
        "(SELECT CASE WHEN v IS NULL THEN NULL "
        "WHEN v LIKE '2___-__-__' AND translate(v, '123456789', '000000000') = '0000-00-00' "
        "THEN CASE WHEN pg_input_is_valid(v, 'date') THEN v::date END "
        "WHEN jsonb_typeof(jsonb_object_field(%(expressions)s)) = 'number' "
        f"OR (length(v) <= {MAX_TEXT_LENGTH} AND v ~ '{UNIX_TIME}') THEN "
        "(SELECT CASE WHEN s > 0 AND s < 253402300800 "
        "THEN '1970-01-01'::date + floor(round(s, 6) / 86400)::integer END "
        "FROM (SELECT CASE WHEN n >= 100000000000 THEN n / 1000 ELSE n END AS s "
        "FROM (SELECT v::numeric AS n OFFSET 0) AS number OFFSET 0) AS seconds) "
        f"WHEN length(v) <= {MAX_TEXT_LENGTH} AND v ~ '{ISO_TIME}' THEN "
        "(SELECT CASE WHEN pg_input_is_valid(t, 'timestamptz') "
        "THEN (t::timestamptz AT TIME ZONE 'UTC')::date END "
        "FROM (SELECT regexp_replace(v, '[.,][0-9]+', '') AS t OFFSET 0) AS whole) "
        "END FROM (SELECT %(function)s(%(expressions)s) AS v OFFSET 0) AS trait)"
    )
    output_field = DateField()

    def as_sql(self, *args: Any, **kwargs: Any) -> tuple[str, Any]:
        # The template mentions the trait twice.
        sql, parameters = super().as_sql(*args, **kwargs)
        return sql, [*parameters, *parameters]


class DayWithin(Func):
    """Whether a day is *first* or at most *days* later. A range takes the day once, where two
    comparisons would compute it twice."""

    template = "%(expressions)s"
    arg_joiner = " <@ "
    output_field = BooleanField()

    def __init__(self, day: Any, first: date, days: int) -> None:
        last = first + timedelta(days=days)
        bounds = Value(first, DateField()), Value(last, DateField()), Value("[]")
        super().__init__(day, Func(*bounds, function="daterange", output_field=TextField()))


class DaysBelow(Func):
    """Whether a day is fewer than *days* after a *start*; false if one of them is unknown."""

    arg_joiner = " - "
    output_field = BooleanField()

    def __init__(self, day: Any, start: Any, days: int) -> None:
        super().__init__(day, start, template=f"COALESCE((%(expressions)s) < {days:d}, FALSE)")


class TraitKeyword(TraitText):
    """A trait in lower case, or an empty text where it is missing. Only ASCII letters change."""

    template = "lower(COALESCE(%(function)s(%(expressions)s), '') COLLATE \"C\")"


class TraitType(Func):
    """The JSON type of a trait, such as ``number``; NULL where it is missing."""

    function = "jsonb_typeof"
    output_field = TextField()

    def __init__(self, traits: str, name: str) -> None:
        super().__init__(_trait(traits, name))


class _SameText(Func):
    """Whether a trait is the text *text*, ignoring case."""

    template = (
        "(SELECT CASE jsonb_typeof(v) WHEN 'string' THEN lower(v #>> '{}') = lower(x) END "
        "FROM (VALUES (%(expressions)s)) AS trait(v, x))"
    )
    output_field = BooleanField()

    def __init__(self, traits: str, name: str, text: str) -> None:
        super().__init__(_trait(traits, name), Value(text))


class _Contains(Func):
    """Whether a trait is a text that contains *part*, or a list with *part* as an entry."""

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
    key = Value(canonical_name(name))
    return Func(F(traits), key, function="jsonb_object_field", output_field=JSONField())
