"""How people log in to the admin: attempts, identities, second factors, sessions, preferences."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from core.fields import EncryptedTextField


class LoginAttempts(models.Model):
    """The sign-in attempts with a name, from an address, or with a name from an address; or a
    request to the identity provider that a person came back with, which works once.

    ``subject`` is a keyed digest of these (see ``access.logins.throttle``), because people may
    type a password as their name. ``failed_at`` is the time of the last of the ``failures``.
    """

    subject = models.CharField(primary_key=True, max_length=64)
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField(null=True)
    succeeded_at = models.DateTimeField(null=True)
    keep_until = models.DateTimeField()

    class Meta:
        app_label = "engagement"
        indexes = [
            # Retention uses it every few minutes.
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

    class Meta:
        app_label = "engagement"

    def __str__(self) -> str:
        return self.time_zone or "the browser's time zone"


class ExternalIdentity(models.Model):
    """A login's account at an identity provider: the ``subject`` that the ``issuer`` calls it."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        # An older release, which does not know this table, can still delete a login.
        db_constraint=False,
        related_name="+",
    )
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "engagement"
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="one_login_per_identity")
        ]

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"


class ProvenAddress(models.Model):
    """An email address that the login's person has proven to be theirs (see
    ``access.logins.addresses``). It counts while it is the login's address.

    ``email`` is in lower case. One address is proven for one login.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        # An older release, which does not know this table, can still delete a login.
        db_constraint=False,
        related_name="+",
    )
    email = models.CharField(max_length=254, unique=True)

    class Meta:
        app_label = "engagement"

    def __str__(self) -> str:
        return self.email


class RoleGrant(models.Model):
    """A role that a login has because of a group at the identity provider.

    Without a ``product``, the login is a superuser. ``previous_role`` is what somebody had made the
    login before, and what it becomes again; empty for nothing.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
    product = models.ForeignKey(
        "engagement.Product",
        null=True,
        on_delete=models.CASCADE,
        # An older release can still delete a product.
        db_constraint=False,
        related_name="+",
    )
    role = models.CharField(max_length=10)
    previous_role = models.CharField(max_length=10, default="", db_default="")

    class Meta:
        app_label = "engagement"
        constraints = [
            models.UniqueConstraint(
                fields=["user", "product"], name="one_grant_per_product", nulls_distinct=False
            )
        ]

    def __str__(self) -> str:
        return f"{self.role} of {self.product or 'the service'}"


class SecondFactor(models.Model):
    """What a login signs in with besides its password.

    ``secret`` is the shared secret of an authenticator app, or the public key of a passkey.
    ``last_used`` keeps each of them from being used twice: the last time step of an app, or the
    last signature count of a passkey.
    """

    class Kind(models.TextChoices):
        APP = "app", "Authenticator app"
        PASSKEY = "passkey", "Passkey"

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(max_length=100)
    secret = EncryptedTextField()
    last_used = models.BigIntegerField(default=0, db_default=0)
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        app_label = "engagement"
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["app", "passkey"]), name="second_factor_kind_known"
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.name}"


class RecoveryCode(models.Model):
    """A code that replaces a second factor once. The service stores only its digest."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
    digest = models.CharField(max_length=64)

    class Meta:
        app_label = "engagement"
        constraints = [
            models.UniqueConstraint(fields=["user", "digest"], name="one_row_per_recovery_code")
        ]

    def __str__(self) -> str:
        return "recovery code"


# How browsers and systems call themselves. The first that is there counts: many name others, too.
_BROWSERS = (
    *(("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome")),
    *(("CriOS/", "Chrome"), ("FxiOS/", "Firefox"), ("Safari/", "Safari"), ("curl/", "curl")),
)
_SYSTEMS = (
    *(("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows")),
    *(("Mac OS X", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux")),
)


class LoginSession(models.Model):
    """A browser in which a login is signed in.

    The key is a digest of the session's key, because a person with that key is signed in.
    """

    class Method(models.TextChoices):
        PASSWORD = "password", "Password"
        PROVIDER = "provider", "Single sign-on"

    digest = models.CharField(primary_key=True, max_length=64)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
    method = models.CharField(max_length=10, choices=Method.choices, default=Method.PASSWORD)
    address = models.CharField(max_length=64, blank=True)
    agent = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField()

    class Meta:
        app_label = "engagement"
        ordering = ["-last_used_at"]
        constraints = [
            models.CheckConstraint(
                # Older releases also knew proxies that sign people in.
                condition=Q(method__in=["password", "provider", "proxy"]),
                name="session_method_known",
            )
        ]
        indexes = [
            # Retention uses it every few minutes.
            models.Index(fields=["created_at"], name="login_session_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.address or 'an unknown address'} ({self.get_method_display()})"

    @property
    def browser(self) -> str:
        """The browser and its system in words, or what it says of itself."""
        browser = next((name for mark, name in _BROWSERS if mark in self.agent), "")
        system = next((name for mark, name in _SYSTEMS if mark in self.agent), "")
        return " on ".join(filter(None, (browser, system))) or self.agent[:60] or "Unknown"
