"""The read API: workspaces, and their accounts and users, ranked."""

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, NoReturn

from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from engagement import history
from engagement.models import Product, Workspace
from readapi import errors, pagination, parameters, queries, serializers
from readapi.authentication import BearerToken
from readapi.links import Links
from readapi.models import ApiToken
from readapi.pagination import Page
from readapi.parameters import Parameters
from readapi.serializers import Record


class JsonView(APIView):
    """A view whose every answer is JSON, errors included."""

    def perform_content_negotiation(
        self, request: Request, force: bool = False
    ) -> tuple[JSONRenderer, str]:
        """JSON, whatever the client says that it accepts."""
        return JSONRenderer(), JSONRenderer.media_type

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        return errors.respond


class UnknownPath(JsonView):
    """Whatever lies under /v1 or /v2 and is nothing."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:
        super().initial(request, *args, **kwargs)
        raise errors.NotFound("This address does not exist.")


class ReadView(JsonView):
    """A view for the bearer of a token, who sees the token's product and nothing else."""

    authentication_classes = [BearerToken]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        assert isinstance(request.auth, ApiToken)
        self.product: Product = request.auth.product
        self.parameters: Parameters = parameters.parse(request.META["QUERY_STRING"])
        self.links = Links(request._request)

    def one(self, record: Record, expansions: Sequence[str]) -> Response:
        return Response({"data": record, "_expansions": expansions})

    def many(self, page: Page[Any], records: list[Record], expansions: Sequence[str]) -> Response:
        links = {"self": self.links.request}
        if page.next is not None:
            links["next"] = self.links.page(self.parameters, page.next)
        if page.prev is not None:
            links["prev"] = self.links.page(self.parameters, page.prev)
        return Response(
            {
                "data": records,
                "pagination": pagination.as_json(page),
                "_expansions": expansions,
                "_links": links,
            }
        )


class WorkspaceView(ReadView):
    """Workspaces, each with its stats where asked for."""

    EXPANSIONS = ("stats",)

    def records(self, shown: Sequence[Workspace], expansions: Sequence[str]) -> list[Record]:
        records = [serializers.workspace(row, self.product.name, self.links) for row in shown]
        if "stats" in expansions:
            counted = queries.stats(self.product, shown)
            for record in records:
                record["stats"] = serializers.stats(counted[record["id"]])
        return records


class WorkspaceList(WorkspaceView):
    """The workspaces of the token's product, oldest first."""

    def get(self, request: Request) -> Response:
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)
        asked = pagination.asked(self.parameters, "workspaces", queries.WORKSPACE_ORDER)
        page = pagination.paginate(queries.workspaces(self.product), queries.WORKSPACE_ORDER, asked)
        return self.many(page, self.records(page.rows, expansions), expansions)


class WorkspaceDetail(WorkspaceView):
    """One workspace."""

    def get(self, request: Request, workspace_id: int) -> Response:
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)
        workspace = queries.workspace(self.product, workspace_id)
        return self.one(self.records([workspace], expansions)[0], expansions)


class AccountList(ReadView):
    """The accounts of a workspace, highest score first, or the one that a look-up finds."""

    def get(self, request: Request) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        match = parameters.match(self.parameters)
        expansions = parameters.expansions(self.parameters, allowed=())
        order = queries.ACCOUNT_RANKING
        asked = pagination.asked(self.parameters, f"accounts/{workspace_id}", order)

        workspace = queries.workspace(self.product, workspace_id)
        page = pagination.paginate(queries.ranked_accounts(workspace, match), order, asked)
        records = [serializers.lean_account(row, workspace, self.links) for row in page.rows]
        return self.many(page, records, expansions)


class AccountDetail(ReadView):
    """One account with all that is known of it."""

    EXPANSIONS = ("traits",)

    def get(self, request: Request, account_id: int) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)

        workspace = queries.workspace(self.product, workspace_id)
        row = queries.account(workspace, account_id)
        overall = history.overall(serializers.score_set(workspace), "account", account_id)
        record = serializers.full_account(row, workspace, overall, self.links, today())
        if "traits" in expansions:
            record["traits"] = serializers.traits(row.account)
        return self.one(record, expansions)


class UserList(ReadView):
    """The users of a workspace, highest score first, or the one that a look-up finds."""

    def get(self, request: Request) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        match = parameters.match(self.parameters)
        expansions = parameters.expansions(self.parameters, allowed=())
        order = queries.USER_RANKING
        asked = pagination.asked(self.parameters, f"users/{workspace_id}", order)

        workspace = queries.workspace(self.product, workspace_id)
        page = pagination.paginate(queries.ranked_users(workspace, match), order, asked)
        records = [serializers.lean_user(row, workspace, self.links) for row in page.rows]
        return self.many(page, records, expansions)


class UserDetail(ReadView):
    """One user with all that is known of them."""

    EXPANSIONS = ("traits",)

    def get(self, request: Request, user_id: int) -> Response:
        workspace_id = parameters.workspace_id(self.parameters)
        expansions = parameters.expansions(self.parameters, self.EXPANSIONS)
        trait_names = parameters.trait_names(self.parameters)

        workspace = queries.workspace(self.product, workspace_id)
        row = queries.user(workspace, user_id)
        overall = history.overall(serializers.score_set(workspace), "user", user_id)
        record = serializers.full_user(row, workspace, overall, self.links, today())
        if "traits" in expansions:
            record["traits"] = serializers.traits(row.user, trait_names)
        return self.one(record, expansions)


def today() -> date:
    """The UTC day; TIME_ZONE is UTC."""
    return timezone.now().date()
