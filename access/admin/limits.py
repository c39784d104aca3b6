"""Limits on a product's page: what is used of them, and the form with which superusers set them."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Field
from django.http import HttpRequest

from access.pages.scoping import SuperusersOnly, TabularInline
from engagement.limits.limits import LABELS, Limits, default_limits, load, used_limits
from engagement.models import Product, ProductLimits


class LimitsInline(SuperusersOnly, TabularInline):
    """A product's own limits, as fields in the table that all members see."""

    model = ProductLimits
    tab = "limits"
    template = "admin/engagement/limits.html"
    fields = list(Limits._fields)
    max_num = 1
    verbose_name = "own limits"

    def formfield_for_dbfield(
        self, db_field: "Field[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field and db_field.name in Limits._fields:
            field.widget.attrs["placeholder"] = f"{getattr(default_limits(), db_field.name):,}"
            field.label = LABELS[db_field.name]
        return field


def limits_context(product: Product, inlines: Sequence[Any]) -> dict[str, Any]:
    """What the table shows. *inlines* has the form of superusers, or nothing."""
    state = load([product.pk])[product.pk]
    formset = inlines[0].formset if inlines else None
    # A made-up form has no row.
    form = formset.forms[0] if formset and formset.forms else None
    usage = {row.label: row for row in used_limits(state)}
    names = sorted(Limits._fields, key=lambda name: LABELS[name] not in usage)
    rows = [
        (LABELS[name], usage.get(LABELS[name]), getattr(state.limits, name), form and form[name])
        for name in names
    ]
    return {"rows": rows, "is_counted": state.is_counted, "formset": formset, "form": form}
