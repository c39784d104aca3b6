"""Workspaces of the token's product."""

from collections.abc import Sequence

from rest_framework.response import Response

from engagement.models import Workspace
from engagement.segments import counts
from engagement.segments.counts import SubjectTotals
from readapi import pagination, parameters, queries, serializers
from readapi.records import WorkspaceRecord
from readapi.views.base import ReadView


class WorkspaceView(ReadView):
    EXPANSIONS = ("stats",)
    READS = ()

    def records(self, workspaces: Sequence[Workspace]) -> list[WorkspaceRecord]:
        records = [serializers.workspace(row, self.product.name, self.links) for row in workspaces]
        if "stats" in self.expansions:
            totals = counts.subject_totals(row.scores for row in workspaces if row.scores)
            for row, record in zip(workspaces, records, strict=True):
                record["stats"] = serializers.stats(totals.get(row.scores_id or 0, SubjectTotals()))
        return records


class WorkspaceList(WorkspaceView):
    """The workspaces of the token's product, oldest first."""

    PARAMETERS = ("expand", *parameters.PAGING_PARAMETERS)

    def build_response(self) -> Response:
        request = pagination.parse_page_request(
            self.parameters, "workspaces", queries.WORKSPACE_ORDER
        )
        rows = queries.workspaces(self.product, with_counts="stats" in self.expansions)
        if self.token.workspace_ids is not None:
            rows = rows.filter(pk__in=self.token.workspace_ids)
        page = pagination.paginate(rows, queries.WORKSPACE_ORDER, request)
        return self.page_response(page, self.records(page.rows))


class WorkspaceDetail(WorkspaceView):
    """One workspace."""

    PARAMETERS = ("expand",)

    def build_response(self, workspace_id: int) -> Response:
        with_counts = "stats" in self.expansions
        workspace = queries.workspace(self.product, workspace_id, with_counts=with_counts)
        return self.record_response(self.records([workspace])[0])
