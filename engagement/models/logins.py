"""Attempts to log in to the admin."""

from django.db import models


class LoginAttempts(models.Model):
    """What is remembered of attempts by a name, from an address, or by a name from an address.

    ``subject`` is a keyed digest of those (see ``engagement.logins.throttle``): what people
    type as their name may be a password. ``failures`` counts up to ``failed_at``, the time of the
    last one.
    """

    subject = models.CharField(primary_key=True, max_length=64)
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField(null=True)
    succeeded_at = models.DateTimeField(null=True)
    keep_until = models.DateTimeField()

    class Meta:
        indexes = [
            # For logins.forget_old, every some minutes.
            models.Index(fields=["keep_until"], name="login_attempts_to_forget"),
        ]

    def __str__(self) -> str:
        return f"{self.failures} failures"
