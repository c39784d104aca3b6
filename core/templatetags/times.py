"""Times as pages show them: relative, with the exact time in the tooltip."""

from datetime import datetime

from django import template
from django.contrib.admin.helpers import AdminReadonlyField
from django.utils import timezone
from django.utils.html import format_html, strip_tags
from django.utils.safestring import SafeString

from core.time_format import format_ago, format_exact, format_until

register = template.Library()


@register.filter
def ago(at: datetime | None) -> SafeString | str:
    """How long ago it was. A dash without a time."""
    return format_ago(at, timezone.now()) if at else "–"


@register.filter
def cell(field: AdminReadonlyField) -> SafeString | str:
    """What a read-only field shows in a table: a time is relative to now."""
    value = getattr(field.form.instance, field.field["name"], None)
    return ago(value) if isinstance(value, datetime) else field.contents()


@register.filter
def exact(at: datetime | None) -> SafeString | str:
    """The time and its zone, with the distance from now in the tooltip. A dash without a time."""
    if not at:
        return "–"
    now = timezone.now()
    title = strip_tags(format_until(at, now) if at > now else format_ago(at, now))
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', at.isoformat(), title, format_exact(at)
    )
