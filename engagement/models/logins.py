"""Attempts to log in to the admin, and what a login prefers."""

from django.conf import settings
from django.db import models


class LoginAttempts(models.Model):
    """The sign-in attempts with a name, from an address, or with a name from an address.

    ``subject`` is a keyed digest of these (see ``engagement.logins.throttle``), because people may
    type a password as their name. ``failed_at`` is the time of the last of the ``failures``.
    """

    subject = models.CharField(primary_key=True, max_length=64)
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField(null=True)
    succeeded_at = models.DateTimeField(null=True)
    keep_until = models.DateTimeField()

    class Meta:
        indexes = [
            # throttle.delete_expired uses it every few minutes.
            models.Index(fields=["keep_until"], name="login_attempts_to_forget"),
        ]

    def __str__(self) -> str:
        return f"{self.failures} failures"


class LoginPreferences(models.Model):
    """What a login chose for itself. Without a ``time_zone``, the browser's applies."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        # An older release, which does not know this table, can still delete a login.
        db_constraint=False,
        related_name="+",
    )
    time_zone = models.CharField(max_length=64, default="", db_default="")

    def __str__(self) -> str:
        return self.time_zone or "the browser's time zone"
