"""Times as pages show them: relative, with the exact time in the tooltip."""

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.safestring import SafeString

from engagement.admin.time_format import format_ago

register = template.Library()


@register.filter
def ago(at: datetime | None) -> SafeString | str:
    """How long ago it was. A dash without a time."""
    return format_ago(at, timezone.now()) if at else "–"
