"""Lists of a workspace's users or accounts, highest score first."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.response import Response

from engagement.models import Workspace
from readapi import pagination, parameters, queries, serializers
from readapi.pagination import Order, PageRequest
from readapi.views.base import ReadView


@dataclass(frozen=True)
class Ranking:
    """Users or accounts by score: their rows, the order, and the record of a row."""

    resource: str
    rows: Callable[..., QuerySet[Any]]
    order: Order
    summary: Callable[..., Mapping[str, object]]


USERS = Ranking("users", queries.ranked_users, queries.USER_RANKING, serializers.user_summary)
ACCOUNTS = Ranking(
    "accounts", queries.ranked_accounts, queries.ACCOUNT_RANKING, serializers.account_summary
)


class RankingView(ReadView):
    def ranking_response(
        self, ranking: Ranking, workspace: Workspace, rows: QuerySet[Any], request: PageRequest
    ) -> Response:
        page = pagination.paginate(rows, ranking.order, request.with_score_set(workspace.scores_id))
        records = [ranking.summary(row, workspace, self.links) for row in page.rows]
        return self.page_response(page, records)


class RankedList(RankingView):
    """The users or accounts of a workspace, or the one that a look-up finds."""

    PARAMETERS = ("workspace_id", *parameters.LOOKUP_PARAMETERS, *parameters.PAGING_PARAMETERS)
    ranking: ClassVar[Ranking]

    def build_response(self) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        lookup = parameters.lookup(self.parameters)
        list_name = f"{self.ranking.resource}/{workspace_id}"
        request = pagination.parse_page_request(self.parameters, list_name, self.ranking.order)

        workspace = queries.workspace(self.product, workspace_id)
        rows = self.ranking.rows(workspace, lookup)
        return self.ranking_response(self.ranking, workspace, rows, request)
