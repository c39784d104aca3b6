"""The trail: who changed what, who read secrets, and who signed in."""

from django.conf import settings
from django.db import models
from django.db.models import F
from django.db.models.functions import Now

from engagement.models.products import Product


class TrailEntry(models.Model):
    """Something that a person or a command did. The database lets nobody change an entry, and only
    retention deletes one (migration ``trail``).

    The entries outlive what they are about: logins, rows, and products. So they repeat names, and
    ``product`` has a column that the deletion of products does not look for. ``changes`` has the
    value before and after of each field that changed. No field has a secret.
    """

    class Action(models.TextChoices):
        ADDED = "added", "Added"
        CHANGED = "changed", "Changed"
        DELETED = "deleted", "Deleted"
        SECRET_READ = "secret_read", "Read a secret"
        EXPORTED = "exported", "Exported"
        FORGOTTEN = "forgotten", "Forgot"
        SIGNED_IN = "signed_in", "Signed in"
        SIGNED_OUT = "signed_out", "Signed out"
        SIGN_IN_FAILED = "sign_in_failed", "Failed to sign in"

    at = models.DateTimeField(db_default=Now())
    product = models.ForeignKey(
        Product,
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        db_column="of_product",
        related_name="+",
    )
    login = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    person = models.CharField(max_length=150, blank=True)
    address = models.GenericIPAddressField(null=True)
    action = models.CharField(max_length=20, choices=Action.choices)
    kind = models.CharField(max_length=40)
    object_id = models.CharField(max_length=40, blank=True)
    object_name = models.CharField(max_length=300, blank=True)
    note = models.TextField(blank=True)
    changes = models.JSONField(default=dict)

    class Meta:
        app_label = "engagement"
        ordering = ["-id"]
        verbose_name = "trail entry"
        verbose_name_plural = "trail"
        indexes = [
            models.Index(F("product"), F("id").desc(), name="trail_of_product"),
            models.Index(fields=["kind", "object_id"], name="trail_of_object"),
            # Retention deletes the oldest.
            models.Index(fields=["at"], name="trail_by_time"),
        ]

    def __str__(self) -> str:
        # Of a sign-in, the action says all.
        kind = "" if self.kind == "sign-in" else self.kind
        return " ".join(filter(None, (self.get_action_display(), kind, self.object_name)))
