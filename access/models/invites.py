"""Invites: links with which people become members, or choose a password."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from engagement.models.products import Product, ProductMember


class Invite(models.Model):
    """A link that works once. The service stores only the digest of its token.

    With ``product``, the person who opens it becomes a member with ``role``. Without one, it only
    makes a login. With ``login``, it lets the person of that login choose a new password, and
    nothing else. ``is_mailed`` says that the link went to ``email`` and was shown to nobody, so
    that the person who opens it has proven the address.
    """

    PREFIX = "edi"

    product = models.ForeignKey(
        Product, null=True, on_delete=models.CASCADE, related_name="invites"
    )
    role = models.CharField(
        max_length=10, choices=ProductMember.Role.choices, default=ProductMember.Role.VIEWER
    )
    login = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+"
    )
    email = models.EmailField(blank=True)
    is_mailed = models.BooleanField(default=False, db_default=False)
    digest = models.BinaryField(max_length=32, unique=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "engagement"
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(role__in=["viewer", "manager"]), name="invite_role_known"
            )
        ]
        indexes = [
            # Retention deletes the oldest.
            models.Index(fields=["expires_at"], name="invite_by_expiry"),
        ]

    def __str__(self) -> str:
        return f"invite for {self.email or 'the holder of the link'}"
