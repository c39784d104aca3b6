"""Row pages with buttons, and pages that Django's admin does not have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.views.decorators.debug import sensitive_post_parameters

from access.pages.form_context import FormContext
from access.pages.scoping import ProductScopedAdmin

# What a page's own column returns for no value. Django would write None.
NOTHING = "–"


def not_allowed(request: HttpRequest, methods: Sequence[str]) -> HttpResponse:
    """Return 405 with a page, which people see who logged in again after they pressed a button."""
    response = render(request, "405.html", status=405)
    response.headers["Allow"] = ", ".join(methods)
    return response


@dataclass(frozen=True)
class PageAction:
    """A button at the top of a row's page: a link or, with *post*, a form. ``is_danger`` marks what
    cannot be undone."""

    label: str
    url: str
    post: bool = False
    is_danger: bool = False


@dataclass(frozen=True)
class ExtraView:
    """A view that an admin serves with its method ``<name>_view``.

    ``permission`` names the check, as it does for an admin action: "change" calls
    ``has_change_permission``. A view that needs a row gets it as an argument, and returns 404 for a
    row outside the admin's queryset.
    """

    name: str
    permission: str
    methods: tuple[str, ...] = ("GET", "HEAD", "POST")
    needs_row: bool = True

    @property
    def route(self) -> str:
        page = f"{self.name.replace('_', '-')}/"
        return f"<path:object_id>/{page}" if self.needs_row else page


class PageAdmin(FormContext, ProductScopedAdmin):
    """Adds buttons and tables to a row's page, and the views of ``extra_views``."""

    change_form_template = "admin/engagement/change_form.html"
    extra_views: ClassVar[Sequence[ExtraView]] = ()

    def page_actions(self, request: HttpRequest, obj: Any) -> Sequence[PageAction]:
        return ()

    def page_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """What the page's template shows besides the fields."""
        return {}

    def form_context(
        self, request: HttpRequest, context: dict[str, Any], obj: Any
    ) -> dict[str, Any]:
        if obj is None:
            return {}
        return {
            # The breadcrumbs say what kind of row it is.
            "title": getattr(obj, "name", None) or str(obj),
            "subtitle": None,
            "page_actions": self.page_actions(request, obj),
            **self.page_context(request, obj),
        }

    def after_saving(self, request: HttpRequest, obj: Any) -> str:
        return self.view_url("change", obj)

    def get_urls(self) -> list[URLPattern]:
        extra_urls = [
            path(
                view.route,
                self.admin_site.admin_view(self._serve),
                {"view": view},
                name=f"{self.opts.app_label}_{self.opts.model_name}_{view.name}",
            )
            for view in self.extra_views
        ]
        return extra_urls + super().get_urls()

    def _serve(
        self, request: HttpRequest, view: ExtraView, object_id: str | None = None
    ) -> HttpResponseBase:
        arguments = [request]
        if object_id is not None:
            row = self.get_object(request, object_id)
            if row is None:
                raise Http404
            arguments.append(row)
        if not getattr(self, f"has_{view.permission}_permission")(*arguments):
            raise PermissionDenied
        if request.method not in view.methods:
            return not_allowed(request, view.methods)
        response: HttpResponseBase = getattr(self, f"{view.name}_view")(*arguments)
        return response

    def view_url(self, name: str, obj: Any = None) -> str:
        """The URL of one of the admin's views, about *obj* if given."""
        return reverse(
            f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_{name}",
            args=[] if obj is None else [obj.pk],
        )

    def summarize_deletion(
        self, request: HttpRequest, lines: list[str], count: int
    ) -> tuple[list[str], dict[str, int], set[str], list[str]]:
        """What ``get_deleted_objects()`` returns for as many rows of this admin, without a look at
        the rows that go with them."""
        return (
            lines,
            {str(self.opts.verbose_name_plural): count},
            set() if self.has_delete_permission(request) else {str(self.opts.verbose_name)},
            [],
        )

    def render_page(
        self, request: HttpRequest, template: str, title: str, **context: Any
    ) -> TemplateResponse:
        """A page in the admin's frame."""
        frame = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "media": self.media,
        }
        return TemplateResponse(request, template, frame | context)


class OutboundFormAdmin(PageAdmin):
    """A form that asks another server, with credentials, before it is saved."""

    # No error report repeats them.
    credential_fields: ClassVar[tuple[str, ...]]

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        # Without the admin's transaction: the other server may take long to respond.
        view = sensitive_post_parameters(*self.credential_fields)(
            self._changeform_view  # type: ignore[attr-defined]
        )
        return view(request, object_id, form_url, extra_context)


class ProductColumnAdmin(PageAdmin):
    """A list with a column of products, except where it is the list of one product."""

    def get_list_display(self, request: HttpRequest) -> list[Any]:
        columns = list(super().get_list_display(request))
        if "product__id__exact" in request.GET:
            columns.remove("product")
        return columns


class RowPageAdmin(PageAdmin):
    """Shows a row on a page of its own, which is no form."""

    def row_page(self, request: HttpRequest, obj: Any) -> HttpResponse:
        raise NotImplementedError

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        if row is None:
            missing: HttpResponse = self._get_obj_does_not_exist_redirect(  # type: ignore[attr-defined]
                request, self.opts, object_id
            )
            return missing
        return self.row_page(request, row)
