"""Lists of what changed: the first page of all, and then only what is new.

A walk begins with ``changed_since``: ``start`` for all records, or the token with which the last
walk ended. It goes through the records in the order of their ids, and ends with a new token. The
walk shows scores by the benchmarks of its beginning, which the new token remembers. So a client
that stores what it gets has, at the end of each walk, what the list shows, but for changes that
happened meanwhile: the next walk has these.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
from django.db.models import QuerySet

from engagement import changes
from engagement.changes import Benchmarks
from engagement.metric_names import Scope
from engagement.models import Workspace
from engagement.scopes import get_kind
from readapi import codec, replica
from readapi.errors import InvalidRequest
from readapi.parameters import MAX_INTEGER, Parameters

START = "start"
# Any other would hide that a record no longer matches, or would ask for another order.
ACCEPTED_PARAMETERS = ("workspace_id", "changed_since", "cursor", "limit", "expand", "traits")
_VERSION = 1


_Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]
# The limits also exclude NaN.
_Benchmark = Annotated[float, msgspec.Meta(ge=0, le=1e15)] | None


class Token(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Where a walk ended: the latest stamp and the benchmarks that its scores show.

    ``stamp`` is None before the first walk, which returns everything.
    """

    list_name: str
    score_set: _Number
    stamp: _Number | None
    benchmarks: Annotated[tuple[_Benchmark, ...], msgspec.Meta(min_length=2, max_length=4)]


class Position(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A page within a walk, after the record with the ID ``after``; ``offset`` came before it."""

    since: Token
    until: Token
    after: _Number
    offset: _Number


_Packed = TypeVar("_Packed", Token, Position)


@dataclass(frozen=True)
class ChangePage:
    """The rows of a page in the order of their IDs, and the IDs of those that are gone."""

    rows: list[Any]
    deleted: list[int]
    offset: int
    next: str | None
    # The token of the next walk, at the end of this one.
    token: str | None


def position_of(query: Parameters, list_name: str, scope: Scope, workspace: Workspace) -> Position:
    """Where the requested page begins. Raises InvalidRequest for a token that is of no use."""
    require_accepted(query, ACCEPTED_PARAMETERS)
    if "cursor" in query:
        position = _unpack(query["cursor"], Position, "cursor")
        _require_current(position.since, list_name, workspace, "cursor")
        return position
    now = _now(list_name, scope, workspace)
    if query["changed_since"] == START:
        beginning = Token(list_name, now.score_set, None, now.benchmarks)
        return Position(beginning, now, 0, 0)
    since = _unpack(query["changed_since"], Token, "changed_since")
    _require_current(since, list_name, workspace, "changed_since")
    assert since.stamp is not None and now.stamp is not None
    if since.stamp > now.stamp and not replica.is_configured():
        # An older backup was restored. (A replica may only be behind.)
        raise _start_again("changed_since", "The database is older than this token.")
    return Position(since, now, 0, 0)


def require_accepted(query: Parameters, accepted: Sequence[str]) -> None:
    """Raise InvalidRequest for a parameter that does not go with ``changed_since``."""
    for name in query:
        if name not in accepted:
            others = [name for name in accepted if name not in ("workspace_id", "changed_since")]
            message = f"changed_since goes with {', '.join(others)} only."
            raise InvalidRequest("invalid_parameter", message, name)


def _now(list_name: str, scope: Scope, workspace: Workspace) -> Token:
    if workspace.scores is None:
        return Token(list_name, 0, 0, (None, None))
    benchmarks = Benchmarks.of(workspace.scores, scope)
    stamp = changes.latest_stamp(workspace.product_id)
    return Token(list_name, workspace.scores.pk, stamp, benchmarks)


def _require_current(token: Token, list_name: str, workspace: Workspace, field: str) -> None:
    if token.list_name != list_name:
        raise _start_again(field, "This token is not from this list.")
    if token.score_set != (workspace.scores_id or 0):
        raise _start_again(
            field, "The workspace was edited and rescored after this token was made."
        )


def _start_again(field: str, problem: str) -> InvalidRequest:
    message = f"{problem} Start again with changed_since={START}."
    return InvalidRequest("invalid_cursor", message, field)


# --- Pages ----------------------------------------------------------------------------------


def read_page(
    rows: QuerySet[Any], scope: Scope, workspace: Workspace, position: Position, limit: int
) -> ChangePage:
    """The page at the position. *rows* are all ranked rows of the workspace."""
    if workspace.scores is None:
        return ChangePage([], [], 0, None, _pack(position.until))
    # Read before the rows: what changes in between is in the next walk.
    Benchmarks(*position.until.benchmarks).put_into(workspace.scores, scope)
    id_column = get_kind(scope).id_column
    if position.since.stamp is None:
        after = {f"{id_column}__gt": position.after}
        page_rows = list(rows.filter(**after).order_by(id_column)[: limit + 1])
        ids = [getattr(row, id_column) for row in page_rows]
    else:
        ids = _candidates(scope, workspace, position, limit + 1)
        page_rows = list(rows.filter(**{f"{id_column}__in": ids[:limit]}).order_by(id_column))
    page_rows = page_rows[:limit]
    present = {getattr(row, id_column) for row in page_rows}
    deleted_ids = [id for id in ids[:limit] if id not in present]
    following = _following(position, ids[:limit]) if len(ids) > limit else None
    return ChangePage(
        page_rows,
        deleted_ids,
        position.offset,
        next=_pack(following) if following else None,
        token=None if following else _pack(position.until),
    )


def _candidates(scope: Scope, workspace: Workspace, position: Position, limit: int) -> list[int]:
    """The first IDs after the position that may have changed."""
    assert workspace.scores is not None and position.since.stamp is not None
    since, before = position.since.stamp, Benchmarks(*position.since.benchmarks)
    return changes.candidate_ids(workspace.scores, scope, since, before, position.after, limit)


def _following(position: Position, ids: Sequence[int]) -> Position:
    return Position(position.since, position.until, ids[-1], position.offset + len(ids))


# --- Tokens ---------------------------------------------------------------------------------


def _pack(value: Token | Position) -> str:
    return codec.pack(value, _VERSION)


def _unpack(text: str, cls: type[_Packed], field: str) -> _Packed:
    """The value that ``_pack`` turned into *text*."""
    value = codec.unpack(text, cls, _VERSION)
    if value is None:
        raise InvalidRequest(
            "invalid_cursor",
            f"{field} is not from a link of this list. Take it from _links, or start with "
            f"changed_since={START}.",
            field,
        )
    return value
