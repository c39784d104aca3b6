"""Users and accounts that were deleted on request."""

from django.db import models
from django.db.models import Q


class ForgottenSubject(models.Model):
    """A user or account that was deleted on request, known only by a digest of its id.

    Messages that name it take no effect if they arrived until ``up_to``, a place in the order of
    arrival, or at any time if ``is_suppressed``. ``row_id`` is the row whose events are still to be
    deleted, None once nothing of it is left.
    """

    class Scope(models.TextChoices):
        USER = "user"
        ACCOUNT = "account"

    product = models.ForeignKey("engagement.Product", on_delete=models.CASCADE, db_index=False)
    scope = models.CharField(max_length=7, choices=Scope.choices)
    digest = models.BinaryField(max_length=32)
    up_to = models.BigIntegerField()
    is_suppressed = models.BooleanField()
    row_id = models.BigIntegerField(null=True)
    forgotten_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(scope__in=["user", "account"]), name="forgotten_scope_known"
            )
        ]
        indexes = [
            # Recording finds a product's forgotten subjects by digest.
            models.Index(fields=["product", "digest"], name="forgotten_by_digest"),
            # Erasing finds its work by it; partial, because nearly all are done.
            models.Index(
                fields=["row_id"], name="forgotten_to_clear", condition=Q(row_id__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"forgotten {self.scope} {self.pk}"
