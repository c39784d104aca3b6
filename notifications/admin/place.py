"""The product that a page for a new row is about."""

from urllib.parse import parse_qs

from django.http import HttpRequest

from engagement.core.ids import parse_id


def requested_product(request: HttpRequest) -> int | None:
    """The id of the product in the address, or in the filters of the list that led here."""
    filters = parse_qs(request.GET.get("_changelist_filters", ""))
    product_id = filters.get("product__id__exact", [""])[0]
    value = request.GET.get("product") or request.GET.get("product__id__exact") or product_id
    return parse_id(value)
