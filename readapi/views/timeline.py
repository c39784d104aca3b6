"""What happened to an account, or to a user."""

from collections.abc import Iterable
from typing import Any

from django.utils import timezone
from rest_framework.response import Response

from engagement.metric_names import Scope
from readapi import pagination, parameters, queries
from readapi.pagination import ComputedOrder
from readapi.records import TimelineEntry
from readapi.views.base import ReadView
from trends.timeline.entries import EntryKind
from trends.timeline.reading import kinds_of, timeline

_ORDER = ComputedOrder(("day", "rank"), descending=True)
_PARAMETERS = ("workspace_id", "kinds", *parameters.PAGING_PARAMETERS)


class AccountTimeline(ReadView):
    """What happened to an account in the last year, the latest day first: alarms, moves of its
    score, license events, segments, people, kept traits, and changes of how the workspace scores.

    Entries are computed at each request: late data, withdrawn license events, and forgotten users
    change them. None names a user or a login.
    """

    PARAMETERS = _PARAMETERS
    READS = ("account",)

    def build_response(self, account_id: int) -> Response:
        return _response(self, "account", account_id)


class UserTimeline(ReadView):
    """What happened to a user in the last year, the latest day first: moves of the score, segments,
    the accounts that the user came to, and changes of how the workspace scores.

    Entries are computed at each request, and name accounts.
    """

    PARAMETERS = _PARAMETERS
    READS = ("account", "user")

    def build_response(self, user_id: int) -> Response:
        return _response(self, "user", user_id)


def _response(view: ReadView, scope: Scope, subject_id: int) -> Response:
    names = parameters.kinds(view.parameters, kinds_of(scope))
    request = pagination.parse_page_request(
        view.parameters, f"{scope}s/{subject_id}/timeline", _ORDER
    )
    workspace = queries.workspace(view.product, parameters.workspace_id(view.parameters))
    row: Any = getattr(queries, scope)(workspace, subject_id)
    kinds = [EntryKind(name) for name in names]
    today = timezone.now().date()
    entries: Any = timeline(workspace, row, today, kinds)
    page = pagination.paginate(entries, _ORDER, request)
    return view.page_response(page, list(_records(page.rows)))


def _records(entries: Iterable[Any]) -> Iterable[TimelineEntry]:
    for entry in entries:
        yield {
            "day": entry.day.isoformat(),
            "kind": entry.kind,
            "type": entry.type,
            "text": f"{entry.text}.",
        }
