"""Workspaces: what a token may read about."""

from collections.abc import Sequence

from rest_framework.response import Response

from engagement.models import Workspace
from engagement.segments import counts
from engagement.segments.counts import SubjectTotals
from readapi import pagination, parameters, queries, serializers
from readapi.records import Workspace as Record
from readapi.views.base import ReadView


class WorkspaceView(ReadView):
    """Workspaces, each with its stats where asked for."""

    EXPANSIONS = ("stats",)

    def records(self, shown: Sequence[Workspace], expansions: Sequence[str]) -> list[Record]:
        records = [serializers.workspace(row, self.product.name, self.links) for row in shown]
        if "stats" in expansions:
            counted = counts.subject_totals(row.scores for row in shown if row.scores)
            for row, record in zip(shown, records, strict=True):
                record["stats"] = serializers.stats(
                    counted.get(row.scores_id or 0, SubjectTotals())
                )
        return records


class WorkspaceList(WorkspaceView):
    """The workspaces of the token's product, oldest first."""

    PARAMETERS = ("expand", *parameters.PAGING_PARAMETERS)

    def answer(self) -> Response:
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)
        asked = pagination.parse_page_request(
            self.parameters, "workspaces", queries.WORKSPACE_ORDER
        )
        found = queries.workspaces(self.product, tallied="stats" in expansions)
        page = pagination.paginate(found, queries.WORKSPACE_ORDER, asked)
        return self.page_response(page, self.records(page.rows, expansions), expansions)


class WorkspaceDetail(WorkspaceView):
    """One workspace."""

    PARAMETERS = ("expand",)

    def answer(self, workspace_id: int) -> Response:
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)
        counted = "stats" in expansions
        workspace = queries.workspace(self.product, workspace_id, tallied=counted)
        return self.record_response(self.records([workspace], expansions)[0], expansions)
