"""Lists of a workspace's users or accounts, highest score first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.response import Response

from engagement.metric_names import Scope
from engagement.models import Workspace
from engagement.scopes import get_kind
from readapi import (
    changes,
    expansions,
    filters,
    pagination,
    parameters,
    queries,
    serializers,
    sorting,
    totals,
)
from readapi.filters import ListFilter
from readapi.pagination import Order, PageRequest, ResultPage
from readapi.sorting import Narrow, Sort
from readapi.views.base import ReadView


@dataclass(frozen=True)
class Ranking:
    """Users or accounts by score: their rows, and their order."""

    scope: Scope
    resource: str
    rows: Callable[..., QuerySet[Any]]
    highest_first: Order

    def order(self, sort: Sort) -> Order:
        """The order of the pages: of the index of the scores, or of any places."""
        if sort.is_by_score:
            return replace(self.highest_first, descending=sort.descending)
        return sorting.POSITION


USERS = Ranking("user", "users", queries.ranked_users, queries.USER_RANKING)
ACCOUNTS = Ranking("account", "accounts", queries.ranked_accounts, queries.ACCOUNT_RANKING)

EXPANSIONS: tuple[str, ...] = ("traits", "metrics")
_OF_ACCOUNTS = ("owner", "tag", "insight", "activity", "license_event", "license_event_days")
# All lists of users or accounts accept these.
COMMON_PARAMETERS = ("min_score", "trait", "sort", "expand", "traits", "total")


def list_parameters(scope: Scope) -> tuple[str, ...]:
    """The parameters of the list of all users or accounts of a workspace."""
    return (
        "workspace_id",
        *parameters.LOOKUP_PARAMETERS,
        *filters.LOOKUPS[scope],
        "segment_id",
        *(_OF_ACCOUNTS if scope == "account" else ()),
        *COMMON_PARAMETERS,
        "changed_since",
        *parameters.PAGING_PARAMETERS,
    )


class RankingView(ReadView):
    EXPANSIONS = EXPANSIONS
    MAX_LIMIT = parameters.MAX_RANKED_LIMIT

    def page_request(self, list_name: str, ranking: Ranking) -> PageRequest:
        sort = sorting.parse(self.parameters, ranking.scope)
        if not sort.is_by_score:
            list_name += f"/{self.parameters['sort']}"
        order = ranking.order(sort)
        return pagination.parse_page_request(self.parameters, list_name, order, self.MAX_LIMIT)

    def ranked_workspace(self, ranking: Ranking) -> Workspace:
        """The requested workspace, with what the response needs of its scores."""
        uses_quantiles = "metrics" in self.expansions or "segment_id" in self.parameters
        return queries.workspace(
            self.product,
            parameters.workspace_id(self.parameters),
            quantiles_of=ranking.scope if uses_quantiles else "none",
            with_counts=self.uses_counts,
        )

    @property
    def uses_counts(self) -> bool:
        return parameters.flag(self.parameters, "total") or "sort" in self.parameters

    def ranking_response(
        self,
        ranking: Ranking,
        workspace: Workspace,
        narrow: Narrow | None,
        request: PageRequest,
        total: pagination.Total | None = None,
    ) -> Response:
        """A page of the workspace's rows, or of those that *narrow* leaves."""
        sort = sorting.parse(self.parameters, ranking.scope)
        request = request.with_score_set(workspace.scores_id)
        rows = ranking.rows(workspace)
        if not sort.is_by_score:
            return self.sorted_response(ranking, workspace, narrow, request, sort, total)
        expanded_rows = self.expand(ranking, narrow(rows) if narrow else rows)
        page = pagination.paginate(expanded_rows, ranking.order(sort), request)
        return self.page_response(page, self.records(ranking, workspace, page.rows), total)

    def sorted_response(
        self,
        ranking: Ranking,
        workspace: Workspace,
        narrow: Narrow | None,
        request: PageRequest,
        sort: Sort,
        total: pagination.Total | None,
    ) -> Response:
        pagination.require_current(request)
        now, scores = timezone.now(), workspace.scores
        page = sorting.read_page(scores, ranking.scope, sort, request, now, narrow)
        id_column = get_kind(ranking.scope).id_column
        rows = self.expand(
            ranking, ranking.rows(workspace).filter(**{f"{id_column}__in": page.ids})
        )
        by_id = {getattr(row, id_column): row for row in rows}
        # A row may have gone since.
        present = [by_id[id] for id in page.ids if id in by_id]
        result = ResultPage(
            present,
            request.limit,
            page.offset,
            next={"cursor": page.next} if page.next else None,
            prev={"cursor": page.prev} if page.prev else None,
        )
        records = self.records(ranking, workspace, present)
        response = self.page_response(result, records, total)
        sorted_at = serializers.format_time(page.as_of) if page.as_of else None
        response.data["pagination"]["sorted_at"] = sorted_at
        return response

    def expand(self, ranking: Ranking, rows: QuerySet[Any]) -> QuerySet[Any]:
        names = parameters.trait_names(self.parameters)
        return queries.expand(rows, ranking.scope, self.expansions, names)

    def records(self, ranking: Ranking, workspace: Workspace, rows: Sequence[Any]) -> list[Any]:
        records: list[Any] = list(
            expansions.records(ranking.scope, workspace, rows, self.links, self.expansions)
        )
        if ranking.scope == "user":
            serializers.hide_user_traits(records, self.token.hides_user_traits)
        return records

    def total(
        self,
        ranking: Ranking,
        workspace: Workspace,
        narrow: Narrow,
        list_filter: ListFilter | None = None,
    ) -> pagination.Total | None:
        """The total of the rows that *narrow* leaves, if it is requested. They match *list_filter*
        and nothing else."""
        if not parameters.flag(self.parameters, "total"):
            return None
        rows = narrow(ranking.rows(workspace))
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
        request = self.page_request(f"{self.ranking.resource}/{workspace_id}", self.ranking)

        workspace = self.ranked_workspace(self.ranking)
        if segment_id is not None:
            list_filter = list_filter.within(queries.segment(workspace, segment_id))

        def narrow(rows: QuerySet[Any]) -> QuerySet[Any]:
            if lookup is not None:
                rows = queries.seen_last(rows, workspace, self.ranking.scope, lookup)
            return list_filter.apply(rows, workspace)

        list_to_count = None if lookup else list_filter
        total = self.total(self.ranking, workspace, narrow, list_to_count)
        is_narrowed = lookup is not None or bool(list_filter)
        return self.ranking_response(
            self.ranking, workspace, narrow if is_narrowed else None, request, total
        )

    def changes_response(self) -> Response:
        ranking, query = self.ranking, self.parameters
        workspace = self.ranked_workspace(ranking)
        list_name = f"{ranking.resource}/{workspace.pk}/changes"
        limit = parameters.limit(query, self.MAX_LIMIT)
        position = changes.position_of(query, list_name, ranking.scope, workspace)

        rows = self.expand(ranking, ranking.rows(workspace))
        page = changes.read_page(rows, ranking.scope, workspace, position, limit)
        records = self.records(ranking, workspace, page.rows)
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
