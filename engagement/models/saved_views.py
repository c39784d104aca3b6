"""Saved views: the filters, order, and columns of a list that somebody keeps under a name."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from engagement.models.products import Product, Workspace

NAME_LENGTH = 100
# Of one person, and shared in one product. Each list shows them all.
MAX_VIEWS = 30


class SavedView(models.Model):
    """A view of the list of users or of accounts in a workspace.

    A view belongs to its ``owner``, or is shared with all members of the product if it has none.
    ``filters`` maps parameters of the list's address to values. Searches are not kept, because
    they name people. A list opens in the default view of its person, or else of its product.
    """

    product = models.ForeignKey(Product, on_delete=models.CASCADE, db_constraint=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE)
    scope = models.CharField(max_length=7)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+"
    )
    name = models.CharField(max_length=NAME_LENGTH)
    filters = models.JSONField(default=dict)
    sort = models.CharField(max_length=530)
    columns = models.JSONField(default=list)
    is_default = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "scope", "owner"],
                condition=Q(is_default=True),
                nulls_distinct=False,
                name="one_default_view",
            ),
            models.CheckConstraint(
                condition=Q(scope__in=["user", "account"]), name="saved_view_scope_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name
