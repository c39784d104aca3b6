"""What happened to an account."""

from collections.abc import Iterable
from typing import Any

from django.utils import timezone
from rest_framework.response import Response

from readapi import pagination, parameters, queries
from readapi.pagination import ComputedOrder
from readapi.records import TimelineEntry
from readapi.views.base import ReadView
from trends.timeline.entries import EntryKind
from trends.timeline.reading import timeline

_ORDER = ComputedOrder(("day", "rank"), descending=True)


class AccountTimeline(ReadView):
    """What happened to an account in the last year, the latest day first: alarms, moves of its
    score, license events, segments, people, kept traits, and changes of how the workspace scores.

    Entries are computed at each request: late data, withdrawn license events, and forgotten users
    change them. None names a user or a login.
    """

    PARAMETERS = ("workspace_id", "kinds", *parameters.PAGING_PARAMETERS)
    READS = ("account",)

    def build_response(self, account_id: int) -> Response:
        kinds = [EntryKind(kind) for kind in parameters.kinds(self.parameters, [*EntryKind])]
        request = pagination.parse_page_request(
            self.parameters, f"accounts/{account_id}/timeline", _ORDER
        )
        workspace_id = parameters.workspace_id(self.parameters)
        workspace = queries.workspace(self.product, workspace_id)
        row = queries.account(workspace, account_id)
        entries: Any = timeline(workspace, row, row.account, timezone.now().date(), kinds)
        page = pagination.paginate(entries, _ORDER, request)
        return self.page_response(page, list(_records(page.rows)))


def _records(entries: Iterable[Any]) -> Iterable[TimelineEntry]:
    for entry in entries:
        yield {
            "day": entry.day.isoformat(),
            "kind": entry.kind,
            "type": entry.type,
            "text": f"{entry.text}.",
        }
