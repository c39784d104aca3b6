"""Decodes JSON into typed structs, with errors in plain words."""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from ingestion import timestamps
from ingestion.errors import IngestionError, invalid_field, missing_field, out_of_range

T = TypeVar("T", bound=msgspec.Struct)

TYPE_NAMES = {
    "str": "a string",
    "bool": "true or false",
    "int": "an integer",
    "object": "an object",
    "array": "an array",
}
TIMESTAMP_RULES = {"str": timestamps.ISO_RULE, "int": timestamps.MILLISECONDS_RULE}

# msgspec's messages read "Expected `str | null`, got `int` - at `$.context.groupId`". The field
# names are ours; a client's own keys appear as "[...]".
_EXPECTED = re.compile(r"Expected `(\w+)")
_FIELD = re.compile(r"at `\$\.([\w.]+)")
_MISSING = re.compile(r"missing required field `(\w+)`")

_POSITION = re.compile(r"\(byte (\d+)\)")
# Longer names are not another spelling of ours.
MAX_SPELLING = 20
_decode_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

# A lone surrogate, or all the text before the next one. Each match consumes whole escapes, so an
# escaped backslash before "ud800" is not a surrogate. Matches are long, so hostile text is cheap.
_PIECE = re.compile(
    r"(?:[^\\]++|\\[^u]|\\u(?!(?i:d[89a-f]))|\\u(?i:d[89ab][0-9a-f]{2})\\u(?i:d[c-f][0-9a-f]{2}))++"
    r"|(?P<lone>\\u(?i:d[89a-f][0-9a-f]{2}))"
    r"|.",
    re.ASCII | re.DOTALL,
)

# Text up to a number that is not JSON but that Python's json module writes, or up to the end. A
# match consumes whole strings, closed or not: their content is not a number. Matches are long.
_NON_FINITE = r"(?:NaN|-?Infinity)"
_UP_TO_NON_FINITE = re.compile(
    r'(?P<before>(?:"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[^"NI-]++'
    rf"|(?!(?<![\w.+-]){_NON_FINITE}(?![\w.]))[NI-])*+)(?P<number>{_NON_FINITE}|\Z)",
    re.ASCII | re.DOTALL,
)
# Valid JSON, but an error wherever a number is expected.
_OUT_OF_RANGE = "1e999"


def make_decoder(kind: type[T]) -> Callable[[str], T]:
    """A function that decodes a JSON object into a *kind*. It raises only IngestionError.

    If a key is repeated, its last value counts. A lone surrogate is read as NUL: both are an error
    in an identifier and U+FFFD in a trait. NaN and Infinity are read as a number out of range: an
    error, unless the value is ignored.
    """
    decode = msgspec.json.Decoder(kind).decode

    def decode_or_raise(text: str) -> T:
        try:
            return decode(text)
        except msgspec.ValidationError as error:
            raise _wrong_type(str(error)) from None
        except msgspec.DecodeError as error:
            repaired = _repaired(text)
            if repaired == text:
                raise _not_json(f"The body is not valid JSON{_position(error)}.") from None
        except RecursionError:
            raise _not_json("The body is nested too deeply. Use fewer levels.") from None
        return decode_or_raise(repaired)

    return decode_or_raise


def _repaired(text: str) -> str:
    """The text without what some JSON writers produce although it is not JSON."""
    if "\\u" in text:
        text = _PIECE.sub(lambda piece: "\\u0000" if piece["lone"] else piece[0], text)
    if "NaN" in text or "Infinity" in text:
        text = _UP_TO_NON_FINITE.sub(
            lambda piece: piece["before"] + (_OUT_OF_RANGE if piece["number"] else ""), text
        )
    return text


def _wrong_type(problem: str) -> IngestionError:
    """The error for msgspec's description of a value with the wrong type."""
    if missing := _MISSING.search(problem):
        return missing_field(missing[1])
    place = _FIELD.search(problem)
    if place is None:
        return IngestionError(400, "not_an_object", "The body must be a JSON object.")
    field, expected = place[1], _EXPECTED.match(problem)
    if problem.startswith("Invalid "):
        return invalid_field(field, f"{field} has an unknown value. Check its spelling.")
    if expected is None:
        error = out_of_range(field)
        return timestamps.invalid_timestamp(error.message) if field == "timestamp" else error
    if field == "timestamp":
        return timestamps.invalid_timestamp(TIMESTAMP_RULES[expected[1]])
    # Only the empty array that stands for an object has a limited length.
    name = "object" if " of length " in problem else expected[1]
    return invalid_field(field, f"{field} must be {TYPE_NAMES[name]}.")


def _position(error: msgspec.DecodeError) -> str:
    """Where the JSON is broken, as far as it is known."""
    position = _POSITION.search(str(error))
    return f" at byte {position[1]}" if position else ""


def spelling_hint(error: IngestionError, text: str) -> IngestionError:
    """The error, which says so if the body has the missing field in another spelling.

    The body's name differs only in capitals, hyphens and underscores, so it is no secret.
    """
    if error.code != "missing_field" or error.field is None:
        return error
    try:
        names = _decode_names(text)
    except (msgspec.MsgspecError, RecursionError):
        return error
    required_name = error.field.rpartition(".")[2]
    for name in names:
        if (
            name != required_name
            and len(name) < MAX_SPELLING
            and _plain(name) == _plain(required_name)
        ):
            message = f"{error.message} You sent {name}; this endpoint expects {required_name}."
            return IngestionError(error.status, error.code, message, error.field)
    return error


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _not_json(message: str) -> IngestionError:
    return IngestionError(400, "invalid_json", message)
