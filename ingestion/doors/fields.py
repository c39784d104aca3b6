"""Checks of a message's fields, the same for every wire format.

Each check takes the field's name as the client spells it, and returns the value to store or raises
IngestionError. A valid value fits into PostgreSQL's ``text`` and ``jsonb`` and into MessagePack.
"""

import re
from typing import Any

from engagement.messages import Traits
from ingestion.errors import invalid_field, missing_field, out_of_range

MAX_ID_LENGTH = 512
MAX_EVENT_LENGTH = 256
MAX_MESSAGE_ID_LENGTH = 100

MAX_TRAITS = 256
MAX_TRAIT_NAME_LENGTH = 256
# The traits object itself is the first level.
MAX_TRAITS_DEPTH = 8

_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def required_id(value: str | None, field: str) -> str:
    """The identifier of a user or an account, verbatim."""
    return _required(value, field, MAX_ID_LENGTH)


def optional_id(value: str | None, field: str) -> str | None:
    return _optional(value, field, MAX_ID_LENGTH)


def event_name(value: str | None, field: str) -> str:
    return _required(value, field, MAX_EVENT_LENGTH)


def message_id(value: str | None, field: str) -> str | None:
    """The id that the sender gave the message."""
    return _optional(value, field, MAX_MESSAGE_ID_LENGTH)


def traits(value: Traits | None) -> Traits:
    """The traits in a form that the database can store.

    NUL (which also stands for a lone surrogate, see ``doors.decoding``) becomes U+FFFD. An integer
    beyond 64 bits becomes the nearest floating-point number, as in JavaScript.
    """
    if not value:
        return {}
    if len(value) > MAX_TRAITS:
        raise invalid_field("traits", f"traits must have at most {MAX_TRAITS} keys.")
    if max(map(len, value)) > MAX_TRAIT_NAME_LENGTH:
        raise invalid_field(
            "traits", f"A key in traits must be at most {MAX_TRAIT_NAME_LENGTH} characters."
        )
    return _clean_object(value, 1)


def _required(value: str | None, field: str, limit: int) -> str:
    if not value or value.isspace():
        raise missing_field(field)
    return _text(value, field, limit)


def _optional(value: str | None, field: str, limit: int) -> str | None:
    if value is None:
        return None
    if not value or value.isspace():
        raise invalid_field(field, f"{field} must be a non-empty string. Leave it out if unused.")
    return _text(value, field, limit)


def _text(value: str, field: str, limit: int) -> str:
    if len(value) > limit:
        raise invalid_field(field, f"{field} must be at most {limit} characters.")
    # Nearly all values are printable, which is cheaper to check.
    if not value.isprintable() and _CONTROL_CHARACTER.search(value):
        raise invalid_field(
            field, f"{field} must not contain control characters or lone surrogates."
        )
    return value


def _clean(value: Any, depth: int) -> Any:
    """*value* in the form to store. *depth* objects and arrays enclose it."""
    kind = type(value)
    if kind is str:
        return value.replace("\0", "\ufffd")
    if kind is int:
        return _number(value)
    if kind is dict:
        return _clean_object(value, depth + 1)
    if kind is list:
        _check_depth(depth + 1)
        return [_clean(item, depth + 1) for item in value]
    return value


def _clean_object(value: Traits, depth: int) -> Traits:
    _check_depth(depth)
    return {key.replace("\0", "\ufffd"): _clean(item, depth) for key, item in value.items()}


def _check_depth(depth: int) -> None:
    if depth > MAX_TRAITS_DEPTH:
        raise invalid_field(
            "traits", f"traits must be nested at most {MAX_TRAITS_DEPTH} levels deep."
        )


def _number(value: int) -> int | float:
    if -(2**63) <= value < 2**64:
        return value
    try:
        return float(value)
    except OverflowError:
        raise out_of_range("traits") from None
