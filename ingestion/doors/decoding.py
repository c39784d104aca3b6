"""Decodes JSON into typed structs, and says in people's words what is wrong with it."""

import re
from collections.abc import Callable
from typing import TypeVar

import msgspec

from ingestion import timestamps
from ingestion.errors import IngestionError, invalid_field, missing_field

T = TypeVar("T", bound=msgspec.Struct)

TYPE_NAMES = {
    "str": "a string",
    "int": "an integer",
    "object": "an object",
    "array": "an array",
}
TIMESTAMP_RULES = {"str": timestamps.ISO_RULE, "int": timestamps.MILLISECONDS_RULE}

# msgspec's messages read "Expected `str | null`, got `int` - at `$.context.groupId`". Names of
# fields are ours; a client's own keys appear as "[...]".
_EXPECTED = re.compile(r"Expected `(\w+)")
_FIELD = re.compile(r"at `\$\.([\w.]+)")
_MISSING = re.compile(r"missing required field `(\w+)`")

# A lone surrogate, or all that comes before the next one. Escapes are consumed whole, so that an
# escaped backslash before "ud800" is no surrogate; runs are long, so that hostile text is cheap.
_PIECE = re.compile(
    r"(?:[^\\]++|\\[^u]|\\u(?!(?i:d[89a-f]))|\\u(?i:d[89ab][0-9a-f]{2})\\u(?i:d[c-f][0-9a-f]{2}))++"
    r"|(?P<lone>\\u(?i:d[89a-f][0-9a-f]{2}))"
    r"|.",
    re.ASCII | re.DOTALL,
)

# Text up to a number that JSON does not know but Python's json writes, or up to the end. Strings,
# closed or not, are consumed whole: what they say is no number. Runs are long here as well.
_NON_FINITE = r"(?:NaN|-?Infinity)"
_UP_TO_NON_FINITE = re.compile(
    r'(?P<before>(?:"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[^"NI-]++'
    rf"|(?!(?<![\w.+-]){_NON_FINITE}(?![\w.]))[NI-])*+)(?P<number>{_NON_FINITE}|\Z)",
    re.ASCII | re.DOTALL,
)
# It is JSON, and refused where a number is wanted.
_OUT_OF_RANGE = "1e999"


def make_decoder(kind: type[T]) -> Callable[[str], T]:
    """A function that decodes a JSON object into a *kind*; it raises Refused and nothing else.

    Of a repeated key the last value counts. A lone surrogate is read as NUL: the two share their
    fate, being an error in an identifier and U+FFFD in a trait. NaN and Infinity are read as a
    number that is out of range: nothing where the value is ignored, an error elsewhere.
    """
    decode = msgspec.json.Decoder(kind).decode

    def decode_or_refuse(text: str) -> T:
        try:
            return decode(text)
        except msgspec.ValidationError as error:
            raise _wrong_type(str(error)) from None
        except msgspec.DecodeError:
            mended = _mended(text)
            if mended == text:
                raise _not_json("The body is not valid JSON.") from None
        except RecursionError:
            raise _not_json("The body is nested too deeply.") from None
        return decode_or_refuse(mended)

    return decode_or_refuse


def _mended(text: str) -> str:
    """The text without what JSON does not know but some writers put into it."""
    if "\\u" in text:
        text = _PIECE.sub(lambda piece: "\\u0000" if piece["lone"] else piece[0], text)
    if "NaN" in text or "Infinity" in text:
        text = _UP_TO_NON_FINITE.sub(
            lambda piece: piece["before"] + (_OUT_OF_RANGE if piece["number"] else ""), text
        )
    return text


def _wrong_type(problem: str) -> IngestionError:
    """The refusal for a value of a type that its place does not take."""
    if absent := _MISSING.search(problem):
        return missing_field(absent[1])
    place = _FIELD.search(problem)
    if place is None:
        return IngestionError(400, "not_an_object", "The body must be a JSON object.")
    field, expected = place[1], _EXPECTED.match(problem)
    if problem.startswith("Invalid "):
        return invalid_field(field, f"{field} is none of those that are understood here.")
    if expected is None:
        message = f"{field} holds a number that is out of range."
        return (
            timestamps.invalid_timestamp(message)
            if field == "timestamp"
            else invalid_field(field, message)
        )
    if field == "timestamp":
        return timestamps.invalid_timestamp(TIMESTAMP_RULES[expected[1]])
    return invalid_field(field, f"{field} must be {TYPE_NAMES[expected[1]]}.")


def _not_json(message: str) -> IngestionError:
    return IngestionError(400, "invalid_json", message)
