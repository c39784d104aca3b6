"""The base model of ingestion keys and read tokens."""

from typing import ClassVar, Self

from django.db import models
from django.db.models.functions import Now

from engagement.core import credentials
from engagement.core.fields import EncryptedTextField
from engagement.models.products import Product


class Credential(models.Model):
    """A secret of one product. Several may be live at once. A revoked one stays on the list.

    The digest finds the secret. The secret is also stored encrypted, so that the admin can show it
    again to the managers of the product.
    """

    PREFIX: ClassVar[str]

    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="%(class)ss")
    name = models.CharField(max_length=100)
    secret = EncryptedTextField(editable=False)
    digest = models.BinaryField(max_length=32, unique=True, editable=False)
    hint = models.CharField(max_length=credentials.HINT_LENGTH, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        abstract = True
        ordering = ["product_id", "id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"

    @classmethod
    def create(cls, product: Product, name: str) -> Self:
        """A new credential of the product; its ``secret`` is random."""
        secret = credentials.generate(cls.PREFIX)
        return cls._default_manager.create(
            product=product,
            name=name,
            secret=secret,
            digest=credentials.digest(secret),
            hint=credentials.hint(secret, cls.PREFIX),
        )
