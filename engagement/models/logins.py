"""Attempts to log in to the admin."""

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
