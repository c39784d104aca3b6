"""Whether the score of a workspace predicted what became of its accounts."""

from typing import cast

import msgspec
from rest_framework.response import Response

from outcomes.backtests import storage, texts
from outcomes.models import StoredBacktest
from readapi import pagination, parameters, queries, serializers
from readapi.pagination import Order
from readapi.records import BacktestRecord
from readapi.views.base import ReadView

_ORDER = Order(("id",))


class BacktestList(ReadView):
    """Whether the workspace's score predicted: for each kind of outcome, the scores of 14, 30, 60,
    and 90 days before, against what happened.

    Backtests are computed in the background, at most once a night, or when somebody asks for it on
    the page of the workspace. Kinds of outcomes without one are missing.
    """

    PARAMETERS = parameters.PAGING_PARAMETERS
    READS = ("account",)

    def build_response(self, workspace_id: int) -> Response:
        workspace = queries.workspace(self.product, workspace_id)
        rows = StoredBacktest.objects.filter(product=self.product.pk, workspace=workspace)
        request = pagination.parse_page_request(self.parameters, "backtests", _ORDER)
        page = pagination.paginate(rows, _ORDER, request)
        return self.page_response(page, [_record(row) for row in page.rows])


def _record(row: StoredBacktest) -> BacktestRecord:
    backtest = storage.decode(row)
    record = msgspec.to_builtins(backtest)
    record["segment_id"] = record.pop("segment")
    record["texts"] = [texts.summary(backtest.kind, each) for each in backtest.horizons]
    record["computed_at"] = serializers.format_time(row.computed_at)
    return cast(BacktestRecord, record)
