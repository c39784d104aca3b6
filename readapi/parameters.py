"""Query parameters: from a query string to checked values, or ``InvalidRequest``."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias
from urllib.parse import parse_qsl

from engagement.metric_names import Scope
from readapi.errors import InvalidRequest

Parameters: TypeAlias = Mapping[str, str]

MAX_INTEGER = 2**63 - 1
DEFAULT_LIMIT = 20
MAX_LIMIT = 100
# Of the lists of users and accounts. A million records are then 2,000 requests.
MAX_RANKED_LIMIT = 500
MAX_PARAMETERS = 100
MAX_TRAITS = 8

# The names that views accept.
PAGING_PARAMETERS = ("limit", "offset", "cursor")
LOOKUP_PARAMETERS = ("match_type", "match_value")
# They hold several values, separated by commas or given in repeated parameters.
LIST_PARAMETERS = ("expand", "traits", "kinds")
# They may be repeated, and each value may contain commas. No value contains the separator.
REPEATED_PARAMETERS = ("trait",)
SEPARATOR = "\0"
# A client that sends a parameter with this value asks for what it gets without it.
DEFAULTS = {
    "sort": "-score",
    "total": "false",
    "exclude_defaults": "false",
    "withdrawn": "false",
    "offset": "0",
}

# No sign, no space, no digits of other scripts, and no more digits than a bigint has.
_INTEGER = re.compile(r"[0-9]{1,19}", re.ASCII)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_SCORE = re.compile(r"[0-9]{1,3}(\.[0-9])?", re.ASCII)


@dataclass(frozen=True)
class Lookup:
    """A look-up of one subject. ``kind`` is ``email``, ``tracking_id``, … or a trait's name."""

    kind: str
    value: str


def parse(query_string: str) -> Parameters:
    """The parameters of a query string as WSGI passes it: bytes decoded as Latin-1."""
    try:
        pairs = parse_qsl(
            query_string.encode("latin-1").decode(),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        raise InvalidRequest(
            "invalid_parameter",
            f"The query string must be UTF-8 and have at most {MAX_PARAMETERS} parameters.",
        ) from None
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if "\0" in name or "\0" in value:
            raise InvalidRequest(
                "invalid_parameter", "A parameter must not contain a NUL character."
            )
        if name not in parameters:
            parameters[name] = value
        elif name in LIST_PARAMETERS:
            parameters[name] += f",{value}"
        elif name in REPEATED_PARAMETERS:
            parameters[name] += f"{SEPARATOR}{value}"
        else:
            raise InvalidRequest(
                "invalid_parameter", "This parameter is given more than once. Give it once.", name
            )
    return parameters


def require_known(parameters: Parameters, accepted: Collection[str]) -> None:
    """Raise InvalidRequest if a parameter is not among the *accepted* ones.

    Ignoring it would answer another question: with a list that is not filtered, for example.
    """
    for name in parameters:
        # expansions() has its own message for an endpoint without expansions.
        if name not in accepted and name != "expand":
            message = f"Unknown parameter. This endpoint accepts: {', '.join(accepted)}."
            raise InvalidRequest("unknown_parameter", message, name)


def without_defaults(parameters: Parameters) -> Parameters:
    """The parameters that do not just repeat a default.

    Generated clients send every default that they know of, also beside ``cursor`` and
    ``changed_since``, where any other value would be wrong.
    """
    return {name: value for name, value in parameters.items() if DEFAULTS.get(name) != value}


def workspace_id(parameters: Parameters) -> int:
    text = parameters.get("workspace_id", "")
    if not text:
        raise _invalid("workspace_id", "workspace_id is required.", "missing_workspace_id")
    number = _integer(text)
    if number is None or number < 1:
        raise _invalid(
            "workspace_id", "workspace_id must be a positive integer.", "invalid_workspace_id"
        )
    return number


def limit(parameters: Parameters, largest: int) -> int:
    """The maximum number of records on a page, at most *largest*."""
    number = _integer(parameters.get("limit", str(DEFAULT_LIMIT)))
    if number is None or not 1 <= number <= largest:
        raise _invalid("limit", f"limit must be an integer from 1 to {largest}.", "invalid_limit")
    return number


def offset(parameters: Parameters) -> int:
    """The number of records before the page."""
    number = _integer(parameters.get("offset", DEFAULTS["offset"]))
    if number is None:
        raise _invalid("offset", "offset must be 0 or a positive integer.", "invalid_offset")
    return number


def expansions(parameters: Parameters, allowed: Sequence[str]) -> list[str]:
    """The expansions in the order of the request, without repetitions."""
    names = _split(parameters.get("expand", ""))
    if not set(names) <= set(allowed):
        raise _invalid("expand", invalid_expand_message(allowed), "invalid_expand")
    return names


def invalid_expand_message(allowed: Sequence[str]) -> str:
    if not allowed:
        return "This endpoint does not support expand."
    return f"expand accepts: {', '.join(allowed)}."


def kinds(parameters: Parameters, allowed: Sequence[str]) -> list[str]:
    """The kinds of entries that a request asks for; none for all."""
    names = _split(parameters.get("kinds", ""))
    if not set(names) <= set(allowed):
        raise _invalid("kinds", f"kinds accepts: {', '.join(allowed)}.")
    return names


def trait_names(parameters: Parameters) -> list[str] | None:
    """The traits that ``expand=traits`` shows; None for all."""
    if "traits" not in parameters:
        return None
    names = list(dict.fromkeys(name for name in parameters["traits"].split(",") if name))
    if not names:
        raise _invalid("traits", "traits must name at least one trait. Leave it out to get all.")
    if len(names) > MAX_TRAITS:
        raise _invalid("traits", f"traits accepts at most {MAX_TRAITS} names.", "too_many_traits")
    return names


def lookup(parameters: Parameters) -> Lookup | None:
    """The requested look-up, if any.

    An empty value counts as missing. It is how a client's unset variable arrives, and must not
    find a subject with an empty trait.
    """
    if "match_type" not in parameters and "match_value" not in parameters:
        return None
    for name in ("match_type", "match_value"):
        if not parameters.get(name):
            raise _invalid(
                name,
                f"Use match_type and match_value together. {name} is missing.",
                "missing_match_parameter",
            )
    if "cursor" in parameters:
        raise _invalid("cursor", "A look-up has only one page. Leave out cursor.", "invalid_cursor")
    return Lookup(parameters["match_type"], parameters["match_value"])


def traits_equal(parameters: Parameters) -> list[tuple[str, str]]:
    """The names and values of ``trait=name:value``."""
    if "trait" not in parameters:
        return []
    pairs = []
    for text in parameters["trait"].split(SEPARATOR):
        name, _, value = text.partition(":")
        if not name or not value:
            raise _invalid("trait", "trait must be a name and a value, such as trait=plan:pro.")
        pairs.append((name, value))
    if len(pairs) > MAX_TRAITS:
        raise _invalid("trait", f"trait may be given {MAX_TRAITS} times.", "too_many_traits")
    return pairs


def text(parameters: Parameters, name: str) -> str | None:
    """The parameter's value. An empty one is an error: it is how an unset variable arrives."""
    if parameters.get(name) == "":
        raise _invalid(name, f"{name} must not be empty. Leave it out for all records.")
    return parameters.get(name)


def id_number(parameters: Parameters, name: str) -> int | None:
    if name not in parameters:
        return None
    number = _integer(parameters[name])
    if not number:
        raise _invalid(name, f"{name} must be a positive integer.")
    return number


def score(parameters: Parameters, name: str) -> float | None:
    """A score from 0 to 100, with at most one decimal."""
    if name not in parameters:
        return None
    if not _SCORE.fullmatch(parameters[name]) or float(parameters[name]) > 100:
        raise _invalid(name, f"{name} must be a number from 0 to 100 with at most one decimal.")
    return float(parameters[name])


def choice(parameters: Parameters, name: str, choices: Sequence[str]) -> str | None:
    """The parameter's value, one of *choices*."""
    if name in parameters and parameters[name] not in choices:
        raise _invalid(name, f"{name} accepts: {', '.join(choices)}.")
    return parameters.get(name)


def day(parameters: Parameters, name: str) -> date | None:
    """A day such as 2026-09-23."""
    if name not in parameters:
        return None
    try:
        if _DAY.fullmatch(parameters[name]):
            return date.fromisoformat(parameters[name])
    except ValueError:
        pass
    raise _invalid(name, f"{name} must be a day, such as 2026-09-23.")


def scope(parameters: Parameters) -> Scope | None:
    """The scope of the requested segments; None for both scopes."""
    match parameters.get("scope"):
        case None:
            return None
        case "user":
            return "user"
        case "account":
            return "account"
    raise _invalid("scope", "scope must be user or account.")


def flag(parameters: Parameters, name: str) -> bool:
    text = parameters.get(name, "false")
    if text not in ("true", "false"):
        raise _invalid(name, f"{name} must be true or false.")
    return text == "true"


def id_or_lookup(parameters: Parameters) -> int | Lookup:
    """The requested account: either its ID or a look-up."""
    by_trait = lookup(parameters)
    if not parameters.get("id"):
        if by_trait is None:
            raise _invalid(
                "id",
                "Name an account: by id, or by match_type and match_value.",
                "missing_match_parameter",
            )
        return by_trait
    if by_trait is not None:
        raise _invalid("id", "Use either id or match_type, not both.")
    number = _integer(parameters["id"])
    if number is None:
        raise _invalid("id", "id must be a positive integer.")
    return number


def _invalid(field: str, message: str, code: str = "invalid_parameter") -> InvalidRequest:
    return InvalidRequest(code, message, field)


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number <= MAX_INTEGER else None


def _split(text: str) -> list[str]:
    names = (name.strip() for name in text.split(","))
    return list(dict.fromkeys(name for name in names if name))
