"""Prints every URL of the service as JSON: with values that exist, and with values that do not.

``python -m proofs.urls`` runs in the service's own environment, because only Django knows its URLs.
"""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import django
from django.urls import URLPattern, URLResolver, get_resolver

# Values of each parameter, by its type. Of one type in one path all get the same.
VALUES = {
    "int": ("1", "999999999"),
    "str": ("1", "nothing"),
    "slug": ("sending-data", "nothing"),
    "path": ("1", "nothing", "_2e_2e/x"),
    "uuid": ("00000000-0000-0000-0000-000000000000",),
}
# Of regular expressions: the keys of SDKs, the SDK's parts, and the paths of files.
GROUPS = {"key": "edk_x", "name": "x.js", "path": "x"}
_PARAMETER = re.compile(r"<(?:(\w+):)?\w+>")
_GROUP = re.compile(r"\(\?P<(\w+)>(?:[^()]|\([^()]*\))*\)")
_CHOICE = re.compile(r"\((?:\?:)?([^()]*)\)(\??)")
# What follows a path or a part of one: nothing of it exists.
BEYOND = ("/", "/nothing", "/nothing/else.js", "x", "/%00", "/..%2f", "//")
# Hundreds of pages of the admin are alike.
BEYOND_PAGES = ("/nothing", "/%00")


def patterns(resolver: Any, prefix: str = "") -> Iterator[str]:
    for pattern in resolver.url_patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from patterns(pattern, path)
        elif isinstance(pattern, URLPattern):
            yield path


def expand(pattern: str) -> Iterator[str]:
    """The paths of a route or a regular expression."""
    if "(" in pattern or "^" in pattern or "$" in pattern:
        yield from _expand_expression(pattern)
        return
    kinds = sorted({match[1] or "str" for match in _PARAMETER.finditer(pattern)})
    for values in itertools.product(*(VALUES[kind] for kind in kinds)):
        by_kind = dict(zip(kinds, values, strict=True))
        yield "/" + _PARAMETER.sub(lambda match, v=by_kind: v[match[1] or "str"], pattern)  # type: ignore[misc]


def _expand_expression(pattern: str) -> Iterator[str]:
    plain = _GROUP.sub(lambda match: GROUPS.get(match[1], "x"), pattern)
    plain = re.sub(r"[\^$]|\\Z", "", plain).replace("\\.", ".").replace("v\\d+", "v9")
    while match := _CHOICE.search(plain):
        choices = [*match[1].split("|"), *([""] if match[2] else [])]
        if len(choices) > 1 or match[2]:
            for choice in choices:
                yield from _expand_expression(
                    plain[: match.start()] + choice + plain[match.end() :]
                )
            return
        plain = plain[: match.start()] + choices[0] + plain[match.end() :]
    path = re.sub(r"/\?$", "", plain)
    yield "/" + path.replace("?", "").replace("[0-9a-f]{12}/", "")


def with_what_is_missing(paths: set[str]) -> set[str]:
    """The paths, and below each prefix of them what does not exist."""
    prefixes = {"/"}
    for path in paths:
        parts = path.strip("/").split("/")
        prefixes.update("/" + "/".join(parts[:number]) for number in range(1, len(parts) + 1))
    missing = {
        prefix.rstrip("/") + rest
        for prefix in prefixes
        for rest in (BEYOND_PAGES if prefix.startswith("/admin/") else BEYOND)
    }
    return paths | prefixes | missing


def main() -> None:
    django.setup()
    paths = {path for pattern in patterns(get_resolver()) for path in expand(pattern)}
    # Nothing else is said by URLs: the service's own files.
    paths |= {"/static/config/favicon.svg", "/analytics-next/bundles/queryString.js"}
    print(json.dumps(sorted(with_what_is_missing(paths))))


if __name__ == "__main__":
    main()
