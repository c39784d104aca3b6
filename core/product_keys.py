"""Foreign keys between tables that are distributed by product."""

from typing import Any, TypeVar

from django.db import models
from django.db.models.lookups import Exact

from core.database import distribution

Set = TypeVar("Set")
Get = TypeVar("Get")


class ProductForeignKey(models.ForeignKey[Set, Get]):
    """A foreign key to a row of the same product.

    On a cluster, queries that follow it also compare the products: only then one node can join the
    tables. On one server they compare ids alone, as with any foreign key: an id is unique, and a
    second condition could mislead the planner.
    """

    def get_extra_restriction(self, alias: str, related_alias: str) -> Any:
        if not distribution.is_distributed():
            return None
        product: Any = self.model._meta.get_field("product")
        return Exact(product.get_col(alias), product.get_col(related_alias))

    def deconstruct(self) -> Any:
        """As a foreign key: for the schema it is one."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.ForeignKey", args, kwargs
