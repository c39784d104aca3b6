"""Segments and their members."""

from collections.abc import Sequence
from functools import partial

from rest_framework.response import Response

from engagement.models import Segment, Workspace
from engagement.segments import counts
from readapi import filters, pagination, parameters, queries, rights, serializers
from readapi.records import SegmentRecord
from readapi.views import rankings
from readapi.views.base import ReadView


class SegmentList(ReadView):
    """The segments of a workspace: the default ones, then custom ones, oldest first."""

    PARAMETERS = (
        "workspace_id",
        "scope",
        "exclude_defaults",
        "expand",
        *parameters.PAGING_PARAMETERS,
    )
    EXPANSIONS = ("counts",)
    READS = ()

    def build_response(self) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        scope = parameters.scope(self.parameters)
        custom_only = parameters.flag(self.parameters, "exclude_defaults")
        list_name = f"segments/{workspace_id}/{scope}/{custom_only}"
        request = pagination.parse_page_request(self.parameters, list_name, queries.SEGMENT_ORDER)

        workspace = queries.workspace(
            self.product, workspace_id, quantiles_of="both", with_counts="counts" in self.expansions
        )
        rows = queries.segments(workspace, scope=scope, custom_only=custom_only)
        page = pagination.paginate(rows, queries.SEGMENT_ORDER, request)
        records = [serializers.segment(row, self.links) for row in page.rows]
        if "counts" in self.expansions:
            _add_counts(records, workspace, page.rows)
        return self.page_response(page, records)


class SegmentDetail(ReadView):
    """One segment with the number of its members."""

    PARAMETERS = ("workspace_id",)
    READS = ()

    def build_response(self, segment_id: int) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)

        workspace = queries.workspace(
            self.product, workspace_id, quantiles_of="both", with_counts=True
        )
        segment = queries.segment(workspace, segment_id)
        record = serializers.segment(segment, self.links)
        _add_counts([record], workspace, [segment])
        return self.record_response(record)


class SegmentMembers(rankings.RankingView):
    """The users or accounts in a segment, highest score first."""

    PARAMETERS = ("workspace_id", *rankings.COMMON_PARAMETERS, *parameters.PAGING_PARAMETERS)
    # Which of both only the segment says.
    READS = ()

    def build_response(self, segment_id: int) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)

        workspace = queries.workspace(
            self.product, workspace_id, quantiles_of="both", with_counts=self.uses_counts
        )
        segment = queries.segment(workspace, segment_id)
        is_user_segment = segment.scope == Segment.Scope.USER
        ranking = rankings.USERS if is_user_segment else rankings.ACCOUNTS
        rights.require_kinds(self.token, [ranking.scope])
        if is_user_segment:
            rights.check_user_parameters(self.token, self.parameters, self.expansions)
        list_filter = filters.parse(self.parameters, ranking.scope).within(segment)
        request = self.page_request(f"segments/{segment.pk}/members", ranking)
        narrow = partial(list_filter.apply, workspace=workspace)
        total = self.total(ranking, workspace, narrow, list_filter)
        return self.ranking_response(ranking, workspace, narrow, request, total)


def _add_counts(
    records: list[SegmentRecord], workspace: Workspace, segments: Sequence[Segment]
) -> None:
    # Without scores, segments have no members.
    member_counts = counts.segment_counts(workspace.scores, segments) if workspace.scores else {}
    for record in records:
        record["member_count"] = member_counts.get(record["id"], 0)
