"""Lists of a workspace's users or accounts, highest score first."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.response import Response

from engagement.metric_names import Scope
from engagement.models import Workspace
from readapi import changes, expansions, filters, pagination, parameters, queries, totals
from readapi.filters import ListFilter
from readapi.pagination import Order, PageRequest
from readapi.parameters import Parameters
from readapi.views.base import ReadView


@dataclass(frozen=True)
class Ranking:
    """Users or accounts by score: their rows, and their order."""

    scope: Scope
    resource: str
    rows: Callable[..., QuerySet[Any]]
    highest_first: Order

    def order(self, query: Parameters) -> Order:
        """The order that the request asks for."""
        sort = parameters.choice(query, "sort", SORTS)
        return replace(self.highest_first, descending=sort != "score")


SORTS = ("-score", "score")
USERS = Ranking("user", "users", queries.ranked_users, queries.USER_RANKING)
ACCOUNTS = Ranking("account", "accounts", queries.ranked_accounts, queries.ACCOUNT_RANKING)

EXPANSIONS = ("traits", "metrics")
# All lists of users or accounts accept these.
COMMON_PARAMETERS = ("min_score", "trait", "sort", "expand", "traits", "total")


def list_parameters(scope: Scope) -> tuple[str, ...]:
    """The parameters of the list of all users or accounts of a workspace."""
    return (
        "workspace_id",
        *parameters.LOOKUP_PARAMETERS,
        *filters.LOOKUPS[scope],
        "segment_id",
        *(("insight",) if scope == "account" else ()),
        *COMMON_PARAMETERS,
        "changed_since",
        *parameters.PAGING_PARAMETERS,
    )


class RankingView(ReadView):
    EXPANSIONS = EXPANSIONS
    MAX_LIMIT = parameters.MAX_RANKED_LIMIT

    def page_request(self, list_name: str, order: Order) -> PageRequest:
        return pagination.parse_page_request(self.parameters, list_name, order, self.MAX_LIMIT)

    def ranked_workspace(self, ranking: Ranking) -> Workspace:
        """The requested workspace, with what the response needs of its scores."""
        uses_quantiles = "metrics" in self.expansions or "segment_id" in self.parameters
        return queries.workspace(
            self.product,
            parameters.workspace_id(self.parameters),
            quantiles_of=ranking.scope if uses_quantiles else "none",
            with_counts=parameters.flag(self.parameters, "total"),
        )

    def ranking_response(
        self,
        ranking: Ranking,
        workspace: Workspace,
        rows: QuerySet[Any],
        request: PageRequest,
        total: pagination.Total | None = None,
    ) -> Response:
        names = parameters.trait_names(self.parameters)
        expanded = queries.expand(rows, ranking.scope, self.expansions, names)
        order = ranking.order(self.parameters)
        page = pagination.paginate(expanded, order, request.with_score_set(workspace.scores_id))
        records = expansions.records(
            ranking.scope, workspace, page.rows, self.links, self.expansions, names
        )
        return self.page_response(page, records, total)

    def total(
        self, workspace: Workspace, rows: QuerySet[Any], list_filter: ListFilter | None = None
    ) -> pagination.Total | None:
        """The total of *rows*, if it is requested. They match *list_filter* and nothing else."""
        if not parameters.flag(self.parameters, "total"):
            return None
        if list_filter is None:
            return totals.count_live(rows)
        return totals.count(workspace, list_filter, rows)


class RankedList(RankingView):
    """The users or accounts of a workspace, or the one that a look-up finds."""

    ranking: ClassVar[Ranking]

    def build_response(self) -> Response:
        if "changed_since" in self.parameters:
            return self.changes_response()
        workspace_id = parameters.workspace_id(self.parameters)
        lookup = parameters.lookup(self.parameters)
        list_filter = filters.parse(self.parameters, self.ranking.scope)
        segment_id = parameters.id_number(self.parameters, "segment_id")
        order = self.ranking.order(self.parameters)
        list_name = f"{self.ranking.resource}/{workspace_id}"
        request = self.page_request(list_name, order)

        workspace = self.ranked_workspace(self.ranking)
        if segment_id is not None:
            list_filter = list_filter.within(queries.segment(workspace, segment_id))
        rows = list_filter.apply(self.ranking.rows(workspace, lookup), workspace)
        total = self.total(workspace, rows, None if lookup else list_filter)
        return self.ranking_response(self.ranking, workspace, rows, request, total)

    def changes_response(self) -> Response:
        ranking, query = self.ranking, self.parameters
        workspace = self.ranked_workspace(ranking)
        list_name = f"{ranking.resource}/{workspace.pk}/changes"
        limit, names = parameters.limit(query, self.MAX_LIMIT), parameters.trait_names(query)
        position = changes.position_of(query, list_name, ranking.scope, workspace)

        rows = queries.expand(ranking.rows(workspace), ranking.scope, self.expansions, names)
        page = changes.read_page(rows, ranking.scope, workspace, position, limit)
        records = expansions.records(
            ranking.scope, workspace, page.rows, self.links, self.expansions, names
        )
        links = {"self": self.links.request}
        if page.next is not None:
            links["next"] = self.links.page(query, {"cursor": page.next})
        if page.token is not None:
            links["changes"] = self.links.page(query, {"changed_since": page.token})
        has_more = page.next is not None
        return Response(
            {
                "data": records,
                "deleted": page.deleted,
                "pagination": {"limit": limit, "offset": page.offset, "has_more": has_more},
                "_expansions": self.expansions,
                "_links": links,
            }
        )
