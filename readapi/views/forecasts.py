"""What is expected to renew in the months ahead, and how past forecasts were."""

from typing import cast

import msgspec
from rest_framework.response import Response

from outcomes.forecasts import storage, texts
from outcomes.forecasts.results import Measure
from outcomes.models import StoredForecast
from readapi import pagination, parameters, queries, serializers
from readapi.pagination import Order
from readapi.records import ForecastRecord
from readapi.views.base import ReadView

_ORDER = Order(("id",))


class ForecastList(ReadView):
    """What is expected to renew in the present month and in the three after it: a record for annual
    terms, and one for monthly licenses, each with past forecasts beside what happened.

    Forecasts are made in the background after each look at the chances of terms.
    """

    PARAMETERS = parameters.PAGING_PARAMETERS
    READS = ("account",)

    def build_response(self, workspace_id: int) -> Response:
        workspace = queries.workspace(self.product, workspace_id)
        request = pagination.parse_page_request(self.parameters, "forecasts", _ORDER)
        page = pagination.paginate(storage.latest_rows([workspace.pk]), _ORDER, request)
        return self.page_response(page, [_record(row) for row in page.rows])


def _record(row: StoredForecast) -> ForecastRecord:
    forecast = storage.decode(row)
    record = msgspec.to_builtins(forecast, str_keys=True)
    record["texts"] = {
        str(measure): f"{texts.summary(forecast, measure)} "
        f"{texts.coverage_sentence(forecast, measure)}"
        for measure in Measure
    }
    # Places in a stored forecast mean nothing to others.
    del record["decisive"]
    record["versions"] = row.versions
    record["computed_at"] = serializers.format_time(row.looked_at)
    return cast(ForecastRecord, record)
