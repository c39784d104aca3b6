"""The timeline of an account or a user, as its pages show it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import groupby

from django.http import QueryDict

from console.subjects.subject_pages import NotScored, engagement_row
from engagement.metric_names import Scope
from engagement.models import Account, User, Workspace
from trends.timeline.entries import LABELS, Entry, EntryKind
from trends.timeline.reading import kinds_of, timeline

KIND_PARAM, PAGE_PARAM = "kind", "page"
PER_PAGE = 50
# On the page of the account.
SHOWN_FIRST = 8


@dataclass(frozen=True)
class Link:
    label: str
    query: str
    is_current: bool = False


@dataclass(frozen=True)
class TimelinePage:
    """Some entries by day, the latest first; links to those of one kind, and to others. *reason*
    says why there are none."""

    reason: str = ""
    days: Sequence[tuple[date, Sequence[Entry]]] = ()
    tabs: Sequence[Link] = ()
    pages: Sequence[Link] = ()
    total: int = 0


def timeline_page(
    workspace: Workspace | None,
    subject: Account | User,
    query: QueryDict,
    now: datetime,
    *,
    is_brief: bool = False,
) -> TimelinePage:
    """The page that the *query* asks for, or a brief one. Unknown values ask for nothing."""
    if workspace is None:
        return TimelinePage("This product has no workspace, so there are no scores.")
    scope: Scope = "account" if isinstance(subject, Account) else "user"
    try:
        _, row = engagement_row(workspace, subject, scope)
    except NotScored as reason:
        return TimelinePage(str(reason))
    kinds = kinds_of(scope)
    own_kinds = [kind for kind in kinds if kind == query.get(KIND_PARAM)]
    entries = timeline(workspace, row, now.astimezone(UTC).date(), own_kinds)
    per_page = SHOWN_FIRST if is_brief else PER_PAGE
    last = max(0, (len(entries) - 1) // per_page)
    number = min(_number(query.get(PAGE_PARAM, "")), last)
    on_page = entries[number * per_page : (number + 1) * per_page]
    return TimelinePage(
        days=[(day, list(rows)) for day, rows in groupby(on_page, key=lambda entry: entry.day)],
        tabs=[
            Link("All", _query(query), not own_kinds),
            *(Link(LABELS[kind], _query(query, kind), [kind] == own_kinds) for kind in kinds),
        ],
        pages=[
            Link(label, _query(query, next(iter(own_kinds), None), other))
            for label, other in (("Newer", number - 1), ("Older", number + 1))
            if 0 <= other <= last
        ],
        total=len(entries),
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0


def _query(query: QueryDict, kind: EntryKind | None = None, page: int = 0) -> str:
    other = query.copy()
    for name, value in ((KIND_PARAM, kind), (PAGE_PARAM, page)):
        other.pop(name, None)
        if value:
            other[name] = str(value)
    return other.urlencode()
