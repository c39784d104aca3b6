"""Writes entries of the trail."""

import re
from typing import Any, NamedTuple

from django.contrib.auth.models import User as AdminUser
from django.core.exceptions import ValidationError
from django.core.validators import validate_ipv46_address
from django.http import HttpRequest

from access.logins.security_log import client_address
from access.models import TrailEntry

Action = TrailEntry.Action
# Field, then its value before and after.
Changes = dict[str, list[Any]]

# Of one entry. A workspace may have thousands of weights.
MAX_CHANGES = 200
_PORT = re.compile(r"^\[?([0-9a-fA-F:.]+?)\]?(?::\d+)?$")


class Actor(NamedTuple):
    """Who does something. A command has no login."""

    login_id: int | None
    name: str
    address: str | None = None


COMMAND_LINE = Actor(None, "command line")


def actor_of(request: HttpRequest, login: Any = None) -> Actor:
    """The request's login, or another one that it is about."""
    login = login or request.user
    address = storable_address(client_address(request))
    if not isinstance(login, AdminUser):
        return Actor(None, "", address)
    return Actor(login.pk, login.get_username(), address)


def record(
    actor: Actor,
    action: TrailEntry.Action,
    kind: str,
    *,
    product_id: int | None = None,
    object_id: object = "",
    name: str = "",
    note: str = "",
    changes: Changes | None = None,
) -> None:
    """Add an entry, in the caller's transaction."""
    TrailEntry.objects.create(
        product_id=product_id,
        login_id=actor.login_id,
        person=actor.name[:150],
        address=actor.address,
        action=action,
        kind=kind,
        object_id=str(object_id)[:40],
        object_name=name[:300],
        note=note,
        changes=_bounded(changes or {}),
    )


def record_command(
    action: TrailEntry.Action, kind: str, product_id: int, *, name: str = "", note: str = ""
) -> None:
    """Add an entry about what a command did to the product."""
    record(COMMAND_LINE, action, kind, product_id=product_id, name=name, note=note)


def record_forgotten(actor: Actor, scope: str, product_id: int) -> None:
    """Add an entry about a user or an account that was forgotten: without its id, which must not
    stay anywhere."""
    note = f"Forgot a {scope} on request."
    record(actor, Action.FORGOTTEN, scope, product_id=product_id, note=note)


def storable_address(text: str) -> str | None:
    """The address without a port, or None for anything else."""
    match = _PORT.match(text) if text.count(":") == 1 or text.startswith("[") else None
    address = match[1] if match else text
    try:
        validate_ipv46_address(address)
    except ValidationError:
        return None
    return address


def _bounded(changes: Changes) -> Changes:
    if len(changes) <= MAX_CHANGES:
        return changes
    first = dict(list(changes.items())[:MAX_CHANGES])
    return {**first, "…": ["", f"{len(changes) - MAX_CHANGES:,} more changes"]}
