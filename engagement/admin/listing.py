"""Lists and pages over tables of millions of rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from engagement.admin.scoping import ProductScopedAdmin, ReadOnly

MAX_LISTED_ROWS = 1000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Pages through the first rows of a list and never counts those behind them."""

    object_list: QuerySet[Any]
    listed = MAX_LISTED_ROWS

    @cached_property
    def _counted(self) -> int:
        return self.object_list[: self.listed + 1].count()

    @cached_property
    def count(self) -> int:
        return min(self._counted, self.listed)

    @property
    def is_cut(self) -> bool:
        """Whether the list goes on behind its last page."""
        return self._counted > self.listed


@dataclass(frozen=True)
class PageAction:
    """A button at the top of a row's page: a link or, with *post*, a form of its own."""

    label: str
    url: str
    post: bool = False


class PageAdmin(ProductScopedAdmin):
    """Adds buttons above, and tables below, the fields of a row's page."""

    change_form_template = "admin/engagement/change_form.html"

    def page_actions(self, request: HttpRequest, obj: Any) -> Sequence[PageAction]:
        return ()

    def page_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """What the page's own template shows besides the fields."""
        return {}

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any | None = None,
    ) -> HttpResponse:
        if obj is not None:
            context["page_actions"] = self.page_actions(request, obj)
            context.update(self.page_context(request, obj))
        return super().render_change_form(request, context, add, change, form_url, obj)


class LargeTableAdmin(ReadOnly, PageAdmin):
    """A list to look at, in the order of its key: nothing counts or sorts the whole table."""

    paginator = BoundedPaginator
    show_full_result_count = False
    list_per_page = 50
    sortable_by = ()
    actions = None
