"""The destination of a person's own digests: the email address of their login."""

from datetime import datetime

from django.contrib.auth.models import User as AdminUser

from access.logins import addresses
from engagement.models import Product
from notifications.models import Destination
from notifications.models.destinations import address_hint

State = Destination.State


def own_destination(
    product: Product, login: AdminUser, site_url: str, now: datetime
) -> Destination:
    """The login's own destination in the product, made if there is none. It is active if the
    address is proven. Otherwise its owner must confirm it."""
    own = Destination.objects.defer(None).filter(product=product, owner=login).first()
    destination = own or Destination(
        product=product,
        owner=login,
        kind=Destination.Kind.EMAIL,
        name=f"Digests of login {login.pk}",
    )
    if destination.address != login.email:
        destination.address = login.email
        destination.address_hint = address_hint(Destination.Kind.EMAIL, login.email)
        destination.state, destination.verified_at = State.UNVERIFIED, None
    if destination.state == State.UNVERIFIED and addresses.is_proven(login):
        destination.state, destination.verified_at = State.ACTIVE, now
    destination.site_url = site_url
    destination.save()
    return destination
