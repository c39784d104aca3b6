"""The features of a product, and how many accounts use each."""

from datetime import timedelta

from rest_framework.response import Response

from engagement.models import EventName, Feature
from readapi import pagination, parameters, queries
from readapi.pagination import Order
from readapi.records import ProductFeatureRecord
from readapi.views.base import ReadView
from trends.usage import reading
from trends.usage.reading import Sums

_ORDER = Order(("id",))


class FeatureList(ReadView):
    """The features of the workspace's product: named groups of its events, with the accounts that
    used each in the 28 days of the last night, started to, and stopped.

    All identified users count, whatever the workspace scores. Numbers are null until a night has
    counted them.
    """

    PARAMETERS = parameters.PAGING_PARAMETERS
    READS = ("account",)

    def build_response(self, workspace_id: int) -> Response:
        workspace = queries.workspace(self.product, workspace_id)
        request = pagination.parse_page_request(self.parameters, "features", _ORDER)
        rows = Feature.objects.filter(product=workspace.product_id)
        page = pagination.paginate(rows, _ORDER, request)
        return self.page_response(page, _records(self.product.pk, page.rows))


def _records(product_id: int, features: list[Feature]) -> list[ProductFeatureRecord]:
    today, sums = reading.last_night(product_id), reading.all_sums(product_id)
    through = (today - timedelta(days=1)).isoformat() if today else None
    events: dict[int, list[str]] = {feature.pk: [] for feature in features}
    for event in EventName.objects.filter(product=product_id, feature__in=events):
        events[event.feature_id or 0].append(event.name)
    return [
        _record(feature, events[feature.pk], through, sums.get((feature.pk, 0)))
        for feature in features
    ]


def _record(
    feature: Feature, events: list[str], through: str | None, sums: Sums | None
) -> ProductFeatureRecord:
    return {
        "id": feature.pk,
        "name": feature.name,
        "events": events,
        "through": through,
        "used_accounts": sums and sums.used,
        "active_accounts": sums and sums.active,
        "started_accounts": sums and sums.started,
        "stopped_accounts": sums and sums.stopped,
    }
