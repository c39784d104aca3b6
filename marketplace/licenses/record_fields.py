"""Reads the imported fields of a license record: those of ``MARKETPLACE_TRAITS``, and no others.

Nearly all records have the documented form. ``decode_usual()`` decodes them into a struct, which
skips everything that is not imported. Any other record takes ``read_fields()``, which is slower.
Both return the same.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from engagement.license_traits import (
    FORMER_HOSTNAME_TRAIT,
    LICENSE_PREFIX,
    SEATS_TRAIT,
    TIER_LENDER_TRAIT,
    UNLISTED_SINCE_TRAIT,
)
from engagement.traits import MARKETPLACE_TRAITS

# Values by the path of the imported field, such as "tier" or "contactDetails.company".
Fields: TypeAlias = dict[str, Any]

# No imported field is longer; a longer value is something else.
MAX_VALUE_LENGTH: Final = 4096

_DERIVED: Final = {
    FORMER_HOSTNAME_TRAIT,
    SEATS_TRAIT,
    TIER_LENDER_TRAIT,
    UNLISTED_SINCE_TRAIT,
}
# The trait of each imported field, by the field's path.
TRAIT_NAMES: dict[str, str] = {
    name.removeprefix(LICENSE_PREFIX): name for name in MARKETPLACE_TRAITS if name not in _DERIVED
}
# In their order, the fields of an object are side by side.
_PATHS = tuple(sorted(TRAIT_NAMES))
_PLAIN = frozenset(path for path in _PATHS if "." not in path)
# The imported fields of each object in a record, with their paths.
_NESTED: dict[str, dict[str, str]] = {}
for _path in (path for path in _PATHS if path not in _PLAIN):
    _NESTED.setdefault(_path.partition(".")[0], {})[_path.partition(".")[2]] = _path

# Texts that mean no value; RTBF stands for the right to be forgotten.
ABSENT = frozenset({"", "null", "RTBF"})


def present(value: Any) -> Any:
    """The value; None if it is a text that means none."""
    return None if isinstance(value, str) and value.strip() in ABSENT else value


# --- Any record -----------------------------------------------------------------------------


def read_fields(record: dict[str, Any]) -> Fields:
    """The fields of a record in the order of their paths."""
    fields: Fields = {}
    for name, content in record.items():
        if name in _PLAIN:
            if (value := _value(content)) is not None:
                fields[name] = value
        elif name in _NESTED and isinstance(content, dict):
            for inner, path in _NESTED[name].items():
                if (value := _value(content.get(inner))) is not None:
                    fields[path] = value
    return dict(sorted(fields.items()))


def _value(value: Any) -> Any:
    """A field's value as received; None if it is absent or cannot be a trait."""
    if type(value) is str:
        if value.strip() in ABSENT or len(value) > MAX_VALUE_LENGTH:
            return None
        # PostgreSQL cannot store NUL.
        return value.replace("\0", "\ufffd") if "\0" in value else value
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    return None


# --- Records of the documented form ---------------------------------------------------------


def _optional(names: Iterable[str]) -> list[tuple[str, Any, Any]]:
    return [(name, Any, None) for name in names]


_NAMES = tuple(dict.fromkeys(path.partition(".")[0] for path in _PATHS))
_OBJECTS = {name: msgspec.defstruct(name, _optional(inner)) for name, inner in _NESTED.items()}
_Usual: Any = msgspec.defstruct(
    "_Usual", [(name, (_OBJECTS[name] | None) if name in _NESTED else Any, None) for name in _NAMES]
)
_DECODER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Usual)
# The places of the objects in such a struct, and as many values as each has, the last one first.
_PLACES = [
    (_NAMES.index(name), (None,) * len(_NESTED[name]))
    for name in reversed(_NAMES)
    if name in _NESTED
]


def _is_long(value: str) -> bool:
    return len(value) > MAX_VALUE_LENGTH


def decode_usual(raw: bytes | msgspec.Raw) -> Fields | None:
    """The fields of a record in the order of their paths; None if it is not of the documented form:
    its imported fields are texts without NUL and not too long.
    """
    body = bytes(raw)
    try:
        values = msgspec.structs.astuple(_DECODER.decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    for place, nothing in _PLACES:
        content = values[place]
        inner = nothing if content is None else msgspec.structs.astuple(content)
        values = (*values[:place], *inner, *values[place + 1 :])
    fields = {path: value for path, value in zip(_PATHS, values, strict=True) if value is not None}
    try:
        # All of them: a set would stop at the first match, before a value that is no text.
        has_absent = not ABSENT.isdisjoint([*map(str.strip, fields.values())])
    except TypeError:
        return None
    # One byte is found faster than six.
    if b"\\" in body and b"\\u0000" in body:
        return None
    if len(body) > MAX_VALUE_LENGTH and any(map(_is_long, fields.values())):
        return None
    if not has_absent:
        return fields
    return {path: value for path, value in fields.items() if value.strip() not in ABSENT}
