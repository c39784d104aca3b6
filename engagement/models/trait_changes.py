"""How chosen traits of accounts changed."""

from django.db import models

from core.product_keys import ProductForeignKey

NAME_LENGTH = 256


class TraitChange(models.Model):
    """The last value that an account's trait took on a UTC day, with the time of its message, and
    the one before that day's first change; empty for none.

    Written by ``engagement.recording.stored_traits``.
    """

    pk = models.CompositePrimaryKey("product_id", "account_id", "name", "day")
    product = models.ForeignKey(
        "engagement.Product", on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    account = ProductForeignKey(
        "engagement.Account",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    name = models.CharField(max_length=NAME_LENGTH)
    day = models.DateField()
    value = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField()
    previous = models.CharField(max_length=200, blank=True)

    class Meta:
        indexes = [
            # Old ones are deleted.
            models.Index(fields=["product", "day"], name="trait_change_by_day"),
        ]

    def __str__(self) -> str:
        return f"{self.name} of account {self.account_id} on {self.day}: {self.value}"
