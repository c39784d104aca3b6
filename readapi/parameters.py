"""Query parameters: from the text of a query string to checked values, or ``Refused``."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import parse_qsl

from engagement.metric_names import Scope
from readapi.errors import InvalidRequest

Parameters: TypeAlias = Mapping[str, str]

MAX_INTEGER = 2**63 - 1
DEFAULT_LIMIT = 20
MAX_LIMIT = 100
MAX_PARAMETERS = 100
MAX_TRAITS = 8

# What the views take, by name.
PAGING_PARAMETERS = ("limit", "offset", "cursor")
LOOKUP_PARAMETERS = ("match_type", "match_value")
# They hold several values between commas. Generated clients repeat them instead.
LIST_PARAMETERS = ("expand", "traits")

# No sign, no space, no digits of other scripts, and nothing longer than a bigint.
_INTEGER = re.compile(r"[0-9]{1,19}", re.ASCII)


@dataclass(frozen=True)
class Lookup:
    """A look-up of one subject: ``kind`` is ``email``, ``tracking_id``, … or a trait's name."""

    kind: str
    value: str


def parse(query_string: str) -> Parameters:
    """The parameters of a query string as WSGI hands it over (its bytes as Latin-1)."""
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
            f"The query string must be UTF-8 and hold at most {MAX_PARAMETERS} parameters.",
        ) from None
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if "\0" in name or "\0" in value:
            raise InvalidRequest("invalid_parameter", "A parameter must not hold a NUL character.")
        if name not in parameters:
            parameters[name] = value
        elif name in LIST_PARAMETERS:
            parameters[name] += f",{value}"
        else:
            raise InvalidRequest("invalid_parameter", "A parameter is given more than once.", name)
    return parameters


def require_known(parameters: Parameters, known: Collection[str]) -> None:
    """Raise Refused where a parameter is not among the *known*.

    One that is ignored would answer another question than the one asked: a list that is not
    filtered after all.
    """
    for name in parameters:
        # An endpoint without expansions has an answer of its own to it.
        if name not in known and name != "expand":
            message = f"This endpoint has no such parameter. It accepts: {', '.join(known)}."
            raise InvalidRequest("unknown_parameter", message, name)


def workspace_id(parameters: Parameters) -> int:
    text = parameters.get("workspace_id", "")
    if not text:
        raise InvalidRequest("missing_workspace_id", "workspace_id is required.", "workspace_id")
    number = _integer(text)
    if number is None or number < 1:
        raise InvalidRequest(
            "invalid_workspace_id", "workspace_id must be a positive integer.", "workspace_id"
        )
    return number


def limit(parameters: Parameters) -> int:
    """How many records a page holds."""
    number = _integer(parameters.get("limit", str(DEFAULT_LIMIT)))
    if number is None or not 1 <= number <= MAX_LIMIT:
        raise InvalidRequest(
            "invalid_limit", f"limit must be an integer from 1 to {MAX_LIMIT}.", "limit"
        )
    return number


def offset(parameters: Parameters) -> int:
    """How many records come before the page."""
    number = _integer(parameters.get("offset", "0"))
    if number is None:
        raise InvalidRequest("invalid_offset", "offset must be an integer from 0.", "offset")
    return number


def expansions(parameters: Parameters, allowed: Sequence[str]) -> list[str]:
    """What to expand, in the order asked for, each once."""
    asked = _listed(parameters.get("expand", ""))
    if not set(asked) <= set(allowed):
        choice = f"may name: {', '.join(allowed)}" if allowed else "is not available here"
        raise InvalidRequest("invalid_expand", f"expand {choice}.", "expand")
    return asked


def trait_names(parameters: Parameters) -> list[str] | None:
    """The traits that ``expand=traits`` is to show; None for all of them."""
    if "traits" not in parameters:
        return None
    names = list(dict.fromkeys(name for name in parameters["traits"].split(",") if name))
    if not names:
        raise InvalidRequest(
            "invalid_parameter", "traits must name a trait, or be left out.", "traits"
        )
    if len(names) > MAX_TRAITS:
        raise InvalidRequest("too_many_traits", f"traits may hold {MAX_TRAITS} names.", "traits")
    return names


def lookup(parameters: Parameters) -> Lookup | None:
    """The look-up asked for, if any.

    An empty value counts as missing: it is how a client's unset variable arrives, and must not
    find whoever happens to have an empty trait.
    """
    if "match_type" not in parameters and "match_value" not in parameters:
        return None
    for name in ("match_type", "match_value"):
        if not parameters.get(name):
            raise InvalidRequest(
                "missing_match_parameter",
                f"match_type and match_value go together; {name} is missing.",
                name,
            )
    if "cursor" in parameters:
        raise InvalidRequest(
            "invalid_cursor", "A look-up has one page only. Leave cursor out.", "cursor"
        )
    return Lookup(parameters["match_type"], parameters["match_value"])


def scope(parameters: Parameters) -> Scope | None:
    """Whose segments are asked for; None for those of users and of accounts."""
    match parameters.get("scope"):
        case None:
            return None
        case "user":
            return "user"
        case "account":
            return "account"
    raise InvalidRequest("invalid_parameter", "scope must be user or account.", "scope")


def flag(parameters: Parameters, name: str) -> bool:
    text = parameters.get(name, "false")
    if text not in ("true", "false"):
        raise InvalidRequest("invalid_parameter", f"{name} must be true or false.", name)
    return text == "true"


def id_or_lookup(parameters: Parameters) -> int | Lookup:
    """Which account is looked up: by its id or by a match, and not by both."""
    wanted = lookup(parameters)
    if not parameters.get("id"):
        if wanted is None:
            raise InvalidRequest(
                "missing_match_parameter",
                "Say which account: by id, or by match_type and match_value.",
                "id",
            )
        return wanted
    if wanted is not None:
        raise InvalidRequest("invalid_parameter", "id and match_type exclude each other.", "id")
    number = _integer(parameters["id"])
    if number is None:
        raise InvalidRequest("invalid_parameter", "id must be a positive integer.", "id")
    return number


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number <= MAX_INTEGER else None


def _listed(text: str) -> list[str]:
    names = (name.strip() for name in text.split(","))
    return list(dict.fromkeys(name for name in names if name))
