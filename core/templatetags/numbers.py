"""Numbers as pages show them."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from core.charts import format_number

register = template.Library()


@register.filter
def signed(change: float | None, decimals: int = 0) -> SafeString | str:
    """A difference with its sign, colored by its direction. A dash without one."""
    if change is None:
        return "–"
    if not change:
        return mark_safe('<span class="quiet">0</span>')
    is_rise = change > 0
    sign, name = ("+", "eds-rise") if is_rise else ("\N{MINUS SIGN}", "eds-fall")
    return format_html('<span class="{}">{}{}</span>', name, sign, f"{abs(change):,.{decimals}f}")


@register.filter
def number(value: float | None) -> str:
    """With separators of thousands. A dash without one."""
    return format_number(value)
