"""The base model of ingestion keys and read tokens."""

from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from core import credentials
from core.fields import EncryptedTextField
from engagement.models.products import Product

# People look at the last use. A minute is exact enough.
LAST_USED_PRECISION = timedelta(minutes=1)


class CredentialUnknown(Exception):
    """There is no such credential, or it was revoked."""


class CredentialExpired(Exception):
    """The credential has expired."""


class Credential(models.Model):
    """A secret of one product. Several may be live at once. A revoked one stays on the list.

    The digest finds the secret. The secret is also stored encrypted, so that the admin can show it
    again to the managers of the product.
    """

    PREFIX: ClassVar[str]
    # The fields that say what it may be used for.
    RIGHTS: ClassVar[tuple[str, ...]] = ()

    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="%(class)ss")
    name = models.CharField(max_length=100)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Who answers for it.",
    )
    purpose = models.CharField(
        max_length=200,
        blank=True,
        default="",
        db_default="",
        help_text="What uses it, for example: nightly export to the warehouse.",
    )
    expires_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Empty: it never expires. A notice reminds you 30 and 7 days before.",
    )
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
    def live(cls, now: datetime) -> Q:
        """Those that work: neither revoked nor expired."""
        return Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))

    def has_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    @classmethod
    def find_live(cls, rows: "models.QuerySet[Self]", secret: str, now: datetime) -> Self:
        """The credential of *rows* with the secret. Raises CredentialUnknown and
        CredentialExpired. A malformed secret costs no query."""
        if not credentials.is_well_formed(secret, cls.PREFIX):
            raise CredentialUnknown
        row = rows.filter(digest=credentials.digest(secret), revoked_at=None).first()
        if row is None:
            raise CredentialUnknown
        if row.has_expired(now):
            raise CredentialExpired
        return row

    def record_use(self, now: datetime, **fields: Any) -> None:
        """Store that it is used now, with other *fields*, at most once a minute."""
        outdated_before = now - LAST_USED_PRECISION
        if self.last_used_at is None or self.last_used_at < outdated_before:
            is_outdated = Q(last_used_at=None) | Q(last_used_at__lt=outdated_before)
            rows = type(self)._default_manager.filter(is_outdated, pk=self.pk)
            rows.update(last_used_at=now, **fields)

    @classmethod
    def create(cls, product: Product, name: str, **fields: Any) -> Self:
        """A new credential of the product; its ``secret`` is random."""
        secret = credentials.generate(cls.PREFIX)
        return cls._default_manager.create(
            product=product,
            name=name,
            secret=secret,
            digest=credentials.digest(secret),
            hint=credentials.hint(secret, cls.PREFIX),
            **fields,
        )

    def create_replacement(self, now: datetime) -> Self:
        """A new credential for the same use, which lives as long as this one was to live."""
        values = {name: getattr(self, name) for name in ("owner", "purpose", *self.RIGHTS)}
        if self.expires_at is not None:
            values["expires_at"] = now + (self.expires_at - self.created_at)
        return type(self).create(self.product, self.name, **values)
