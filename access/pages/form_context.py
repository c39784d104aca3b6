"""What a form's page shows besides its fields."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from access.pages.lookups import ModelAdmin


class FormContext(ModelAdmin):
    def form_context(
        self, request: HttpRequest, context: dict[str, Any], obj: Any
    ) -> dict[str, Any]:
        """What the page's template gets in addition to Django's *context*. *obj* is None on the
        page of a new row."""
        return {}

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:
        context.update(self.form_context(request, context, obj))
        return super().render_change_form(request, context, add, change, form_url, obj)
