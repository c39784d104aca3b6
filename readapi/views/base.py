"""The base of the read API's views."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.database import sql
from engagement.metric_names import Scope
from engagement.models import Product
from readapi import errors, pagination, parameters, replica, rights, transfer
from readapi.authentication import BearerTokenAuthentication
from readapi.links import LinkBuilder
from readapi.models import ApiToken
from readapi.pagination import ResultPage, Total
from readapi.parameters import Parameters
from readapi.throttling import TokenRateThrottle

# If its statements take longer, the request gets 503.
READ_TIMEOUT_SECONDS = 10.0
# For the suggestion at an unknown path.
MAX_COMPARED_PATH = 60
LEAST_SIMILARITY = 0.7


class JsonView(APIView):
    """A view that always responds with JSON, also to errors. No response is used again unasked."""

    @property
    def default_response_headers(self) -> dict[str, str]:
        headers: dict[str, str] = super().default_response_headers
        # Responses contain names and email addresses, for one token only.
        vary = "Authorization, Accept-Encoding"
        return {**headers, "Cache-Control": "no-store", "Vary": vary}

    def perform_content_negotiation(
        self, request: Request, force: bool = False
    ) -> tuple[JSONRenderer, str]:
        """JSON, whatever the Accept header says."""
        return JSONRenderer(), JSONRenderer.media_type

    def finalize_response(
        self, request: Request, response: Response, *args: Any, **kwargs: Any
    ) -> Response:
        response = super().finalize_response(request, response, *args, **kwargs)
        response.add_post_render_callback(partial(transfer.prepare, request.META))
        return response

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        return errors.exception_handler


class UnknownPathView(JsonView):
    """404 for any unknown path of the APIs, with what *suggestions* has for the nearest one."""

    suggestions: Mapping[str, str] = MappingProxyType({})

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:
        super().initial(request, *args, **kwargs)
        message = "This endpoint does not exist."
        # Comparing costs more the longer a path is.
        path = request.path_info[:MAX_COMPARED_PATH]
        if nearest := difflib.get_close_matches(path, self.suggestions, 1, LEAST_SIMILARITY):
            message += f" Did you mean {self.suggestions[nearest[0]]}?"
        raise errors.NotFound(message)


class ReadView(JsonView):
    """A view that requires a token and shows only the token's product."""

    authentication_classes = [BearerTokenAuthentication]
    throttle_classes = [TokenRateThrottle]
    # All query parameters and expansions that the endpoint accepts.
    PARAMETERS: ClassVar[tuple[str, ...]]
    EXPANSIONS: ClassVar[tuple[str, ...]] = ()
    # What the responses are about: a token must read all of these.
    READS: ClassVar[tuple[Scope, ...]]
    MAX_LIMIT: ClassVar[int] = parameters.MAX_LIMIT
    # Takes the IDs in the path. It must only read.
    build_response: Callable[..., Response]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        assert isinstance(request.auth, ApiToken)
        self.token = request.auth
        self.parameters: Parameters = parameters.parse(request.META["QUERY_STRING"])
        self.links = LinkBuilder(request._request)

    @property
    def product(self) -> Product:
        return self.token.product

    def get(self, request: Request, **ids: int) -> Response:
        self.check_parameters()
        self.check_rights(ids)
        return replica.read_from_replica(partial(self._build_response_in_time, **ids))

    def check_parameters(self) -> None:
        """Drops parameters that say nothing. Raises InvalidRequest for a parameter or an expansion
        that the endpoint does not have."""
        parameters.require_known(self.parameters, self.PARAMETERS)
        self.parameters = parameters.without_defaults(self.parameters)
        self.expansions = parameters.expansions(self.parameters, self.EXPANSIONS)

    def check_rights(self, ids: Mapping[str, int]) -> None:
        """Raises Forbidden for what the token may not read. *ids* are those in the path."""
        rights.require_kinds(self.token, self.READS)
        if "workspace_id" in self.PARAMETERS:
            rights.require_workspace(self.token, parameters.workspace_id(self.parameters))
        elif "workspace_id" in ids:
            rights.require_workspace(self.token, ids["workspace_id"])
        if "user" in self.READS:
            rights.check_user_parameters(self.token, self.parameters, self.expansions)

    @property
    def shows_users(self) -> bool:
        """Whether texts about accounts may name users."""
        return "user" in rights.readable_kinds(self.token) and not self.token.hides_user_traits

    def _build_response_in_time(self, **ids: int) -> Response:
        with sql.cancel_after(READ_TIMEOUT_SECONDS):
            return self.build_response(**ids)

    def record_response(self, record: Mapping[str, object]) -> Response:
        return Response({"data": record, "_expansions": self.expansions})

    def page_response(
        self,
        page: ResultPage[Any],
        records: Sequence[Mapping[str, object]],
        total: Total | None = None,
    ) -> Response:
        links = {"self": self.links.request}
        if page.next is not None:
            links["next"] = self.links.page(self.parameters, page.next)
        if page.prev is not None:
            links["prev"] = self.links.page(self.parameters, page.prev)
        return Response(
            {
                "data": records,
                "pagination": pagination.pagination_record(page, total),
                "_expansions": self.expansions,
                "_links": links,
            }
        )
