"""Limits of a product, and how much of them it uses."""

from django.core.validators import MinValueValidator
from django.db import models

from engagement.models.products import Product


def limit_field(label: str, help_text: str) -> "models.BigIntegerField[int | None, int | None]":
    return models.BigIntegerField(
        label, null=True, blank=True, validators=[MinValueValidator(1)], help_text=help_text
    )


class ProductLimits(models.Model):
    """The limits that a superuser set for a product. Empty ones are those of the settings."""

    product = models.OneToOneField(
        Product, on_delete=models.CASCADE, primary_key=True, related_name="limits"
    )
    messages_per_second = limit_field("messages a second", "On average over a minute.")
    messages_per_day = limit_field("messages a day", "Recorded on a UTC day.")
    event_names = limit_field("event names", "Different names of events.")
    trait_names = limit_field("trait names", "Of users and accounts, without those of licenses.")
    subjects = limit_field("users and accounts", "Together. Counted every ten minutes.")
    segments = limit_field("segments", "Of all workspaces, without the default ones.")

    class Meta:
        verbose_name = verbose_name_plural = "limits"

    def __str__(self) -> str:
        return f"limits of {self.product}"


class ProductUsage(models.Model):
    """What a product has of what is limited, as last counted in the background."""

    product = models.OneToOneField(
        Product, on_delete=models.CASCADE, primary_key=True, related_name="usage"
    )
    event_names = models.BigIntegerField()
    trait_names = models.BigIntegerField(default=0, db_default=0)
    subjects = models.BigIntegerField()
    segments = models.BigIntegerField()
    counted_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"usage of {self.product_id}"


class TraitName(models.Model):
    """The name of a trait that some user or account of the product has had.

    The names that a product had before this table was there come with the next messages.
    """

    product = models.ForeignKey(Product, on_delete=models.CASCADE, db_index=False)
    name = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["product", "name"], name="trait_name_per_product")
        ]

    def __str__(self) -> str:
        return self.name
