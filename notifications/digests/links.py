"""The link that ends a digest: signed, without a login, and without an end."""

from datetime import datetime

from django.core import signing
from django.urls import reverse

from notifications.models import Destination, Digest

_SALT = "notifications.unsubscribe"


def _signer() -> signing.Signer:
    return signing.Signer(salt=_SALT)


def unsubscribe_path(digest_id: int) -> str:
    return reverse("unsubscribe", args=[_signer().sign(str(digest_id))])


def read_token(token: str) -> Digest | None:
    """The digest that the link is about. None for a made-up link, or if the digest is gone."""
    try:
        pk = int(_signer().unsign(token))
    except signing.BadSignature:
        return None
    return (
        Digest.objects.select_related("product", "segment", "view", "workspace")
        .filter(pk=pk, destination__kind=Destination.Kind.EMAIL)
        .first()
    )


def unsubscribe(digest: Digest, now: datetime) -> None:
    """End the digest. Safe to repeat: mail programs do."""
    Digest.objects.filter(pk=digest.pk, is_enabled=True).update(
        is_enabled=False, unsubscribed_at=now
    )
