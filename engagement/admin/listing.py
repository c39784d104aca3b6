"""Lists and pages over tables of millions of rows."""

from functools import cached_property
from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet

from engagement.admin.pages import PageAdmin
from engagement.admin.scoping import ReadOnly

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


class LargeTableAdmin(ReadOnly, PageAdmin):
    """A list to look at, in the order of its key: nothing counts or sorts the whole table."""

    paginator = BoundedPaginator
    show_full_result_count = False
    list_per_page = 50
    sortable_by = ()
    actions = None
