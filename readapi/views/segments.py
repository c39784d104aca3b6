"""Segments, and the users or accounts that are in them."""

from collections.abc import Sequence

from rest_framework.response import Response

from engagement.models import Segment, Workspace
from engagement.segments import counts as tallies
from readapi import pagination, parameters, queries, serializers
from readapi.records import Segment as Record
from readapi.views.base import ReadView


class SegmentList(ReadView):
    """The segments of a workspace: those that it came with, then custom ones as they were made."""

    PARAMETERS = (
        "workspace_id",
        "scope",
        "exclude_defaults",
        "expand",
        *parameters.PAGING_PARAMETERS,
    )
    EXPANSIONS = ("counts",)

    def answer(self) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        scope = parameters.scope(self.parameters)
        custom_only = parameters.flag(self.parameters, "exclude_defaults")
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)
        list_name = f"segments/{workspace_id}/{scope}/{custom_only}"
        asked = pagination.parse_page_request(self.parameters, list_name, queries.SEGMENT_ORDER)

        workspace = queries.workspace(
            self.product, workspace_id, quantiles_of="both", tallied="counts" in expansions
        )
        shown = queries.segments(workspace, scope=scope, custom_only=custom_only)
        page = pagination.paginate(shown, queries.SEGMENT_ORDER, asked)
        records = [serializers.segment(row, self.links) for row in page.rows]
        if "counts" in expansions:
            _add_counts(records, workspace, page.rows)
        return self.page_response(page, records, expansions)


class SegmentDetail(ReadView):
    """One segment with the number of its members."""

    PARAMETERS = ("workspace_id",)

    def answer(self, segment_id: int) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)

        workspace = queries.workspace(self.product, workspace_id, quantiles_of="both", tallied=True)
        segment = queries.segment(workspace, segment_id)
        record = serializers.segment(segment, self.links)
        _add_counts([record], workspace, [segment])
        return self.record_response(record, expansions)


class SegmentMembers(ReadView):
    """The users or accounts in a segment, highest score first."""

    PARAMETERS = ("workspace_id", *parameters.PAGING_PARAMETERS)

    def answer(self, segment_id: int) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)

        workspace = queries.workspace(self.product, workspace_id, quantiles_of="both")
        segment = queries.segment(workspace, segment_id)
        if segment.scope == Segment.Scope.USER:
            return self._users(workspace, segment, expansions)
        return self._accounts(workspace, segment, expansions)

    def _users(self, workspace: Workspace, segment: Segment, expansions: Sequence[str]) -> Response:
        asked = pagination.parse_page_request(
            self.parameters, _list_name(segment), queries.USER_RANKING
        )
        found = queries.members(queries.ranked_users(workspace), workspace, segment)
        asked = asked.with_score_set(workspace.scores_id)
        page = pagination.paginate(found, queries.USER_RANKING, asked)
        records = [serializers.user_summary(row, workspace, self.links) for row in page.rows]
        return self.page_response(page, records, expansions)

    def _accounts(
        self, workspace: Workspace, segment: Segment, expansions: Sequence[str]
    ) -> Response:
        asked = pagination.parse_page_request(
            self.parameters, _list_name(segment), queries.ACCOUNT_RANKING
        )
        found = queries.members(queries.ranked_accounts(workspace), workspace, segment)
        asked = asked.with_score_set(workspace.scores_id)
        page = pagination.paginate(found, queries.ACCOUNT_RANKING, asked)
        records = [serializers.account_summary(row, workspace, self.links) for row in page.rows]
        return self.page_response(page, records, expansions)


def _list_name(segment: Segment) -> str:
    return f"segments/{segment.pk}/members"


def _add_counts(records: list[Record], workspace: Workspace, shown: Sequence[Segment]) -> None:
    # Without scores nobody is anybody's member.
    counts = tallies.segment_counts(workspace.scores, shown) if workspace.scores else {}
    for record in records:
        record["member_count"] = counts.get(record["id"], 0)
