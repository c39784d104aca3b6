"""The product that a page for a new row is about."""

from urllib.parse import parse_qs

from django.http import HttpRequest

# A larger number is no id.
MAX_DIGITS = 18


def requested_product(request: HttpRequest) -> int | None:
    """The id of the product in the address, or in the filters of the list that led here."""
    filters = parse_qs(request.GET.get("_changelist_filters", ""))
    listed = filters.get("product__id__exact", [""])[0]
    value = request.GET.get("product") or request.GET.get("product__id__exact") or listed
    is_id = value.isascii() and value.isdecimal() and len(value) <= MAX_DIGITS
    return int(value) if is_id else None
