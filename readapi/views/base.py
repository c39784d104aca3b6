"""The read API: workspaces, and their accounts and users, ranked."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn

from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from engagement.database import sql
from engagement.models import Product
from readapi import errors, pagination, parameters, replica
from readapi.authentication import BearerTokenAuthentication
from readapi.links import LinkBuilder
from readapi.models import ApiToken
from readapi.pagination import ResultPage
from readapi.parameters import Parameters
from readapi.throttling import TokenRateThrottle

# A reader whose statements take longer is answered 503.
READ_TIMEOUT_SECONDS = 10.0


class JsonView(APIView):
    """A view whose every answer is JSON, errors included, and is kept by no cache."""

    @property
    def default_response_headers(self) -> dict[str, str]:
        headers: dict[str, str] = super().default_response_headers
        # Answers hold names and email addresses, and are for the bearer of one token.
        return {**headers, "Cache-Control": "no-store", "Vary": "Authorization"}

    def perform_content_negotiation(
        self, request: Request, force: bool = False
    ) -> tuple[JSONRenderer, str]:
        """JSON, whatever the client says that it accepts."""
        return JSONRenderer(), JSONRenderer.media_type

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response]:
        return errors.exception_handler


class UnknownPathView(JsonView):
    """Whatever lies under /v1 or /v2 and is nothing."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:
        super().initial(request, *args, **kwargs)
        raise errors.NotFound("This address does not exist.")


class ReadView(JsonView):
    """A view for the bearer of a token, who sees the token's product and nothing else."""

    authentication_classes = [BearerTokenAuthentication]
    throttle_classes = [TokenRateThrottle]
    # The names of all query parameters that the endpoint accepts, and what it can expand.
    PARAMETERS: ClassVar[tuple[str, ...]]
    EXPANSIONS: ClassVar[tuple[str, ...]] = ()
    # What a request is answered with, given the ids of its path. It only reads.
    answer: Callable[..., Response]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        assert isinstance(request.auth, ApiToken)
        self.product: Product = request.auth.product
        self.parameters: Parameters = parameters.parse(request.META["QUERY_STRING"])
        self.links = LinkBuilder(request._request)

    def get(self, request: Request, **ids: int) -> Response:
        parameters.require_known(self.parameters, self.PARAMETERS)
        return replica.read_from_replica(partial(self._answer_in_time, **ids))

    def _answer_in_time(self, **ids: int) -> Response:
        with sql.cancel_after(READ_TIMEOUT_SECONDS):
            return self.answer(**ids)

    def record_response(self, record: Mapping[str, object], expansions: Sequence[str]) -> Response:
        return Response({"data": record, "_expansions": expansions})

    def page_response(
        self,
        page: ResultPage[Any],
        records: Sequence[Mapping[str, object]],
        expansions: Sequence[str],
    ) -> Response:
        links = {"self": self.links.request}
        if page.next is not None:
            links["next"] = self.links.page(self.parameters, page.next)
        if page.prev is not None:
            links["prev"] = self.links.page(self.parameters, page.prev)
        return Response(
            {
                "data": records,
                "pagination": pagination.pagination_record(page),
                "_expansions": expansions,
                "_links": links,
            }
        )
