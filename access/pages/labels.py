"""Admin labels that differ from the model's."""

from copy import copy
from typing import Any, ClassVar

from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest

from access.pages.lookups import ModelAdmin


class RenamedChangeList(ChangeList):
    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        self.opts = self.model_admin.opts


class RenamedOptions(ModelAdmin):
    """An admin with its own names for a row and for rows. The model and its migrations keep
    theirs."""

    names: ClassVar[tuple[str, str]]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.opts = copy(self.opts)
        self.opts.verbose_name, self.opts.verbose_name_plural = self.names

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return RenamedChangeList
