"""Limits on a product's page: what is used of them, and the form with which superusers set them."""

from typing import Any

from django.db.models import Field
from django.http import HttpRequest

from access.pages.scoping import SuperusersOnly, TabularInline
from engagement.limits.limits import LABELS, Limits, default_limits, load, used_limits
from engagement.models import Product, ProductLimits


class LimitsInline(SuperusersOnly, TabularInline):
    """A product's own limits. Only superusers see the form; the section below is for members."""

    model = ProductLimits
    fields = list(Limits._fields)
    extra = 1
    max_num = 1
    verbose_name = "own limits"

    def formfield_for_dbfield(
        self, db_field: "Field[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field and db_field.name in Limits._fields:
            field.widget.attrs["placeholder"] = f"{getattr(default_limits(), db_field.name):,}"
        return field


def limits_context(request: HttpRequest, product: Product) -> dict[str, Any]:
    state = load([product.pk])[product.pk]
    rates = [(LABELS[name], getattr(state.limits, name)) for name in Limits._fields[:2]]
    return {
        "used": list(used_limits(state)),
        "rates": rates,
        "is_counted": state.is_counted,
    }
