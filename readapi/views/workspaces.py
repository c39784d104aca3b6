"""Workspaces of the token's product."""

from collections.abc import Sequence
from typing import ClassVar, cast

from django.utils import timezone
from rest_framework.response import Response

from engagement.activity import false_alarms as alarm_rates
from engagement.activity import product as product_alarms
from engagement.activity.reading import DIRECTIONS
from engagement.models import Workspace
from engagement.segments import counts
from engagement.segments.counts import SubjectTotals
from readapi import pagination, parameters, queries, records, serializers
from readapi.records import WorkspaceRecord
from readapi.views.base import ReadView


class WorkspaceView(ReadView):
    EXPANSIONS: ClassVar[tuple[str, ...]] = ("stats", "product_activity")
    READS = ()

    def records(self, workspaces: Sequence[Workspace]) -> list[WorkspaceRecord]:
        records = [serializers.workspace(row, self.product.name, self.links) for row in workspaces]
        if "stats" in self.expansions:
            totals = counts.subject_totals(row.scores for row in workspaces if row.scores)
            for row, record in zip(workspaces, records, strict=True):
                record["stats"] = serializers.stats(totals.get(row.scores_id or 0, SubjectTotals()))
        if "product_activity" in self.expansions:
            ids = [row.pk for row in workspaces]
            activities = product_alarms.activities(ids, timezone.now())
            for row, record in zip(workspaces, records, strict=True):
                record["product_activity"] = serializers.product_activity(activities.get(row.pk))
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
    EXPANSIONS = (*WorkspaceView.EXPANSIONS, "false_alarms")

    def build_response(self, workspace_id: int) -> Response:
        with_counts = "stats" in self.expansions
        workspace = queries.workspace(self.product, workspace_id, with_counts=with_counts)
        record = cast(records.ExpandedWorkspace, self.records([workspace])[0])
        if "false_alarms" in self.expansions:
            counts_by_signal = alarm_rates.false_alarms(workspace, timezone.now().date())
            falling, rising = (
                counts_by_signal[workspace.alarm_level, signal] for signal in DIRECTIONS
            )
            record["false_alarms"] = serializers.false_alarms(falling, rising)
        return self.record_response(record)
