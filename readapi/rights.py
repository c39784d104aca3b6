"""What a read token may be used for. Each check raises Forbidden with a sentence.

A check looks at the request and at the token, and not at the data. So its answer is the same for
records that exist and for those that do not.
"""

from collections.abc import Collection, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from engagement.metric_names import Scope
from readapi.errors import Forbidden
from readapi.models import ApiToken
from readapi.parameters import Parameters

Reads = ApiToken.Reads

# Parameters that show, compare, or order by traits of users.
TRAIT_PARAMETERS = ("traits", "trait", "email", "name")

_KINDS = {
    Reads.ALL: frozenset[Scope]({"user", "account"}),
    Reads.ACCOUNTS: frozenset[Scope]({"account"}),
    Reads.USERS: frozenset[Scope]({"user"}),
    Reads.NOTHING: frozenset[Scope](),
}


def readable_kinds(token: ApiToken) -> frozenset[Scope]:
    """Whether the token reads users, accounts, both, or neither."""
    return _KINDS[Reads(token.reads)]


def require_address(token: ApiToken, address: str) -> None:
    """The address must be in the token's networks."""
    if token.networks and not is_within(address, token.networks):
        raise Forbidden("address_not_allowed", "This read token may not be used from your address.")


def require_use(token: ApiToken, for_hooks: bool) -> None:
    """A hook token may do nothing else, and no other one may use hooks."""
    if for_hooks and not token.manages_hooks:
        raise Forbidden(*_denied("manage hooks"))
    if token.manages_hooks and not for_hooks:
        raise Forbidden("insufficient_rights", "This is a hook token. It reads nothing.")


def require_kinds(token: ApiToken, kinds: Collection[Scope]) -> None:
    """The token must read all of these; any of both, if there are none."""
    readable = readable_kinds(token)
    if not readable:
        raise Forbidden(*_denied("read users or accounts"))
    for kind in sorted(set(kinds) - readable):
        raise Forbidden(*_denied(f"read {kind}s"))


def require_workspace(token: ApiToken, workspace_id: int) -> None:
    if token.workspace_ids is not None and workspace_id not in token.workspace_ids:
        raise Forbidden(*_denied(f"read workspace {workspace_id}"))


def require_mcp(token: ApiToken) -> None:
    if not token.may_use_mcp:
        raise Forbidden(*_denied("use MCP"))


def require_metrics(token: ApiToken) -> None:
    if not token.may_read_metrics:
        raise Forbidden(*_denied("read /metrics"))


def require_user_traits(token: ApiToken) -> None:
    if token.hides_user_traits:
        raise Forbidden(*_denied("read traits of users"))


def check_user_parameters(
    token: ApiToken, query: Parameters, expansions: Sequence[str] = ()
) -> None:
    """A request about users must not show, compare, or order by their traits, unless the token
    reads these."""
    uses_traits = (
        "traits" in expansions
        or any(name in query for name in TRAIT_PARAMETERS)
        or query.get("match_type", "tracking_id") != "tracking_id"
        or query.get("sort", "").removeprefix("-") == "name"
    )
    if uses_traits:
        require_user_traits(token)


def _denied(what: str) -> tuple[str, str]:
    return "insufficient_rights", denial(what)


def denial(what: str) -> str:
    return f"This read token may not {what}. A manager of the product can change its rights."


# --- Addresses --------------------------------------------------------------------------------


def is_within(address: str, networks: Sequence[str]) -> bool:
    """Whether the address is in one of the networks. What is no address is in none."""
    parsed = parse_address(address)
    return parsed is not None and any(parsed in ip_network(network) for network in networks)


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address, also with a port, which some proxies add; None for anything else."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    # An IPv4 client of a server that listens on IPv6.
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed
