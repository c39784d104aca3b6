"""Who may own accounts, and what follows when a login is renamed or goes."""

from collections.abc import Collection
from typing import Any

from django.contrib.auth.models import User as AdminUser
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.signals import post_delete, pre_save

from core.database import locks
from engagement import changes
from engagement.models import AccountWork, Product, ProductMember, ScoreSet
from engagement.segments import counts


def candidates(product_id: int) -> QuerySet[AdminUser]:
    """The logins that may own accounts of the product: its members, and superusers."""
    members = ProductMember.objects.filter(product=product_id)
    own = Q(pk__in=members.values("user")) | Q(is_superuser=True)
    return AdminUser.objects.filter(own, is_active=True).order_by("username")


def names(product_id: int) -> dict[str, str]:
    """What people call the candidates, by the name of the login."""
    return {login.username: label(login) for login in candidates(product_id)}


def label(login: AdminUser) -> str:
    return login.get_full_name() or login.username


def tell(product_id: int, account_ids: Collection[int]) -> None:
    """Let readers, lists, and watched segments know that these accounts have other owners or tags.
    The caller holds the scoring lock."""
    if account_ids:
        changes.stamp(product_id, {"account": account_ids})
        current = ScoreSet.objects.filter(product=product_id, state=ScoreSet.State.CURRENT)
        counts.invalidate(current.values_list("pk", flat=True))


def connect_signals() -> None:
    pre_save.connect(rename, sender=AdminUser)
    post_delete.connect(release_of_login, sender=AdminUser)
    post_delete.connect(release_of_member, sender=ProductMember)


def rename(instance: AdminUser, raw: bool, update_fields: Any = None, **kwargs: Any) -> None:
    """Accounts stay with a login whose name changes."""
    if raw or not instance.pk or (update_fields and "username" not in update_fields):
        return
    stored = AdminUser.objects.filter(pk=instance.pk).values_list("username", flat=True).first()
    if stored and stored != instance.username:
        _replace_everywhere(stored, instance.username)


def release_of_login(instance: AdminUser, **kwargs: Any) -> None:
    _replace_everywhere(instance.username, "")


def release_of_member(instance: ProductMember, **kwargs: Any) -> None:
    """Accounts lose an owner who is no member any more."""
    login = AdminUser.objects.filter(pk=instance.user_id, is_superuser=False).first()
    if login is not None:
        replace(instance.product_id, login.username, "")


def _replace_everywhere(before: str, after: str) -> None:
    for product_id in Product.objects.values_list("pk", flat=True):
        replace(product_id, before, after)


def replace(product_id: int, before: str, after: str) -> None:
    """Give the accounts of an owner another one, or none, as far as rules do not choose one."""
    with transaction.atomic():
        locks.lock_scoring(product_id)
        rows = AccountWork.objects.filter(product=product_id, owner=before)
        ids = list(rows.values_list("account_id", flat=True))
        if ids:
            rows.update(owner=after, **({} if after else {"is_by_hand": False}))
            tell(product_id, ids)
