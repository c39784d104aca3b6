"""Which product, workspace, and row a page of the admin is about."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from django.http import HttpRequest

from access.pages.scoping import ProductScopedAdmin, shown_row, visible_products
from access.pages.subject_urls import WORKSPACE_PARAM
from core.ids import parse_id
from engagement.models import Product, Workspace

# The parameters that name a product or a workspace, in lists and in forms that add a row.
PRODUCT_PARAMS = ("product", "product__id__exact")
WORKSPACE_PARAMS = (WORKSPACE_PARAM, "workspace__id__exact")


@dataclass(frozen=True)
class Place:
    """``row`` is the row that the page shows. ``workspace_id`` is None unless the address or the
    row names a workspace."""

    product_id: int | None = None
    workspace_id: int | None = None
    row: Any = None
    row_admin: ProductScopedAdmin | None = None


def find_place(request: HttpRequest) -> Place:
    """The place of the page: of its row, or else of the parameters in its address.

    Products that the login may not see are no places.
    """
    workspace_row = _named_workspace(request)
    page_row = shown_row(request)
    if page_row is None:
        product_id = workspace_row.product_id if workspace_row else _named_product_id(request)
        return Place(product_id, workspace_row.pk if workspace_row else None)
    row, admin = page_row
    product_id = admin.product_id_of(row)
    if isinstance(row, Workspace):
        return Place(product_id, row.pk, row, admin)
    if workspace_id := getattr(row, "workspace_id", None):
        return Place(product_id, workspace_id, row, admin)
    workspace_id = (
        workspace_row.pk if workspace_row and workspace_row.product_id == product_id else None
    )
    return Place(product_id, workspace_id, row, admin)


def requested_product(request: HttpRequest) -> int | None:
    """The id of the product in the address, or in the filters of the list that led here."""
    filters = parse_qs(request.GET.get("_changelist_filters", ""))
    product_id = filters.get("product__id__exact", [""])[0]
    value = request.GET.get("product") or request.GET.get("product__id__exact") or product_id
    return parse_id(value)


def requested_workspace(request: HttpRequest) -> int | None:
    """The id of the workspace in the address, or in the filters of the list that led here."""
    filters = parse_qs(request.GET.get("_changelist_filters", ""))
    listed = filters.get("workspace__id__exact", [""])[0]
    return _number(request, WORKSPACE_PARAMS) or parse_id(listed)


def _named_workspace(request: HttpRequest) -> Workspace | None:
    pk = _number(request, WORKSPACE_PARAMS)
    if pk is None:
        return None
    rows = Workspace.objects.filter(pk=pk, product__in=visible_products(request.user))
    return rows.only("product_id").first()


def _named_product_id(request: HttpRequest) -> int | None:
    pk = _number(request, PRODUCT_PARAMS)
    visible = visible_products(request.user).filter(pk=pk) if pk else Product.objects.none()
    return visible.values_list("pk", flat=True).first()


def _number(request: HttpRequest, names: tuple[str, ...]) -> int | None:
    """The first of the parameters that is a number."""
    for name in names:
        number = parse_id(request.GET.get(name, ""))
        if number is not None:
            return number
    return None
