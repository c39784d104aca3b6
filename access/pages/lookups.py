"""Limits the query parameters of a list to its filters."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from django.contrib import admin, messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.db import DataError
from django.db.models import Field, QuerySet
from django.http import HttpRequest

if TYPE_CHECKING:
    ModelAdmin: TypeAlias = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin

# The suffixes that Django's field filters append to a field's name.
_FIELD_SUFFIXES = ("", "__exact", "__isnull", "__gte", "__lt")
_DATE_SUFFIXES = ("__year", "__month", "__day")
INVALID_FILTER_MESSAGE = "This filter is not available, so the list is not filtered."


class BoundedLookups(ModelAdmin):
    """Rejects lookups that the list does not offer, and values that PostgreSQL cannot take.

    Django allows lookups on any column of a list. Letter by letter, they would reveal what a page
    never shows. Django also leaves it to the database to check a lookup's value.
    """

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        if lookup not in set(self._offered_lookups(request)):
            return False
        return bool(super().lookup_allowed(lookup, value, request))  # type: ignore[arg-type]

    def _offered_lookups(self, request: HttpRequest | None) -> Iterator[str]:
        filters = self.get_list_filter(request) if request else self.list_filter
        for list_filter in filters or ():
            if isinstance(list_filter, type) and issubclass(list_filter, admin.SimpleListFilter):
                yield str(list_filter.parameter_name)
                continue
            field = list_filter[0] if isinstance(list_filter, list | tuple) else list_filter
            name = field.name if isinstance(field, Field) else str(field)
            yield from (f"{name}{suffix}" for suffix in _FIELD_SUFFIXES)
            yield f"{name}__id__exact"
        if self.date_hierarchy:
            yield from (f"{self.date_hierarchy}{suffix}" for suffix in _DATE_SUFFIXES)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        # PostgreSQL's text cannot hold this character. A list's search box rejects it, but an
        # autocomplete passes it on.
        return super().get_search_results(request, queryset, search_term.replace("\0", ""))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """The list. Building it counts its rows, so a value that PostgreSQL rejects fails here."""
        try:
            return super().get_changelist_instance(request)
        except (
            DisallowedModelAdminLookup,
            IncorrectLookupParameters,
            DataError,
            OverflowError,
            TypeError,
            ValueError,
        ) as error:
            self.message_user(request, INVALID_FILTER_MESSAGE, messages.WARNING, fail_silently=True)
            raise IncorrectLookupParameters from error
