"""Whom a subscription tells of each subject: its destination, or the owners of the accounts."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import User as AdminUser

from access.logins import addresses
from access.work import accounts, owners
from engagement.models import Product
from engagement.scopes import ACCOUNTS
from notifications.digests.own import own_destination
from notifications.models import Destination, Subscription
from notifications.watching.watches import WatchedSet


def by_destination(
    subscription: Subscription, watched: WatchedSet, ids: Sequence[int], now: datetime
) -> list[tuple[Destination, list[int]]]:
    """The subjects by the destination that is told of them: that of the subscription, or for
    accounts of an owner with a proven address, the owner's own."""
    usual = subscription.destination
    if not subscription.to_owner or watched.kind is not ACCOUNTS or not settings.HAS_EMAIL:
        return [(usual, list(ids))]
    product = subscription.product
    works = accounts.work_of(product.pk, ids)
    candidates = owners.candidates(product.pk).filter(
        username__in={work.owner for work in works.values()}
    )
    own = {
        login.username: _own(product, login, usual.site_url, now)
        for login in candidates
        if addresses.is_proven(login)
    }
    groups: dict[str, list[int]] = defaultdict(list)
    for id in ids:
        groups[works[id].owner if works[id].owner in own else ""].append(id)
    return [(own.get(name, usual), group) for name, group in groups.items()]


def _own(product: Product, login: AdminUser, site_url: str, now: datetime) -> Destination:
    """The login's own destination. One that is there is left alone: deliveries write to it."""
    rows = Destination.objects.defer(None).filter(product=product, owner=login)
    own = rows.exclude(state=Destination.State.UNVERIFIED).first()
    if own is not None and own.address == login.email:
        return own
    return own_destination(product, login, site_url, now)
