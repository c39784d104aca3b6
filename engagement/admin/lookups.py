"""What a list may be filtered by: what its filters offer, and nothing else."""

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

# What Django's filters of a field append to its name.
_OF_A_FIELD = ("", "__exact", "__isnull", "__gte", "__lt")
_OF_A_DATE = ("__year", "__month", "__day")
INVALID_FILTER_MESSAGE = "This filter cannot be used. The list shows everything instead."


class BoundedLookups(ModelAdmin):
    """Refuses look-ups that the list does not offer, and answers those that PostgreSQL cannot take.

    Django lets whoever sees a list look any column of it up, in any way: letter by letter one finds
    out what a page never shows. And it leaves to the database what a look-up's value may be.
    """

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        if lookup not in set(self._offered(request)):
            return False
        return bool(super().lookup_allowed(lookup, value, request))  # type: ignore[arg-type]

    def _offered(self, request: HttpRequest | None) -> Iterator[str]:
        filters = self.get_list_filter(request) if request else self.list_filter
        for one in filters or ():
            if isinstance(one, type) and issubclass(one, admin.SimpleListFilter):
                yield str(one.parameter_name)
                continue
            field = one[0] if isinstance(one, list | tuple) else one
            name = field.name if isinstance(field, Field) else str(field)
            yield from (f"{name}{end}" for end in _OF_A_FIELD)
            yield f"{name}__id__exact"
        if self.date_hierarchy:
            yield from (f"{self.date_hierarchy}{end}" for end in _OF_A_DATE)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        # A list's own search box refuses the character that no text in the database holds; an
        # autocomplete passes it on.
        return super().get_search_results(request, queryset, search_term.replace("\0", ""))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """The list as it was asked for; building it counts its rows, so that a value which the
        database refuses is found here."""
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
