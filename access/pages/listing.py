"""Lists over tables with millions of rows."""

from functools import cached_property
from typing import Any

from django.core.paginator import Paginator
from django.db.models import QuerySet

from access.pages.pages import PageAdmin
from access.pages.scoping import ReadOnly

MAX_LISTED_ROWS = 1000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Pages through the first rows of a list and never counts the rest."""

    object_list: QuerySet[Any]
    max_rows = MAX_LISTED_ROWS

    @cached_property
    def _bounded_count(self) -> int:
        return self.object_list[: self.max_rows + 1].count()

    @cached_property
    def count(self) -> int:
        return min(self._bounded_count, self.max_rows)

    @property
    def is_cut(self) -> bool:
        """Whether there are more rows than the list shows."""
        return self._bounded_count > self.max_rows


class LargeTableAdmin(ReadOnly, PageAdmin):
    """A read-only list in the order of its key. Nothing counts or sorts the whole table."""

    paginator = BoundedPaginator
    show_full_result_count = False
    list_per_page = 50
    sortable_by = ()
    actions = None
