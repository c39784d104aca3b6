"""Roles by groups: what a group at the identity provider makes of a login.

The mapping is applied at each sign-in. What it no longer gives is taken away, but only what it gave
before: a role that somebody gave in the admin stays.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.contrib.auth.models import User as AdminUser
from django.db import transaction

from access.models import RoleGrant
from engagement.models import Product, ProductMember

SUPERUSER = "superuser"
# From the lowest to the highest.
_RANKS = ("", ProductMember.Role.VIEWER, ProductMember.Role.MANAGER, SUPERUSER)


@dataclass(frozen=True)
class MappedRole:
    """A role in a product, by the product's name or id; without a product, of a superuser."""

    role: str
    product: str = ""


# The roles of each group.
RoleMapping = Mapping[str, Iterable[MappedRole]]


def mapped_roles(mapping: RoleMapping, groups: Iterable[str]) -> list[MappedRole]:
    """The roles that the groups give."""
    return [role for group in groups for role in mapping.get(group, ())]


@dataclass(frozen=True)
class RoleChange:
    """The role that a login had and the one that it has; empty for none.

    ``product_id`` is None for the whole service.
    """

    product_id: int | None
    before: str
    after: str


def apply_roles(login: AdminUser, roles: Iterable[MappedRole]) -> list[RoleChange]:
    """Give the login these roles, and take away those that it had from other groups.

    Returns what changed.
    """
    target = _by_product(roles)
    with transaction.atomic():
        # Two sign-ins of one login at once.
        AdminUser.objects.select_for_update().get(pk=login.pk)
        grants = {grant.product_id: grant for grant in RoleGrant.objects.filter(user=login)}
        before = {pk: _current_role(login, pk) for pk in (*grants, *target)}
        for pk, grant in grants.items():
            if pk not in target:
                _take(login, grant)
        for pk, role in target.items():
            _give(login, pk, role, grants.get(pk))
        changes = [RoleChange(pk, role, _current_role(login, pk)) for pk, role in before.items()]
    return [change for change in changes if change.before != change.after]


def take_superuser(login: AdminUser) -> None:
    """Take back what only a group made the login: no superuser by group has a local password."""
    with transaction.atomic():
        grant = RoleGrant.objects.select_for_update().filter(user=login, product=None).first()
        if grant is not None:
            _take(login, grant)


def _by_product(roles: Iterable[MappedRole]) -> dict[int | None, str]:
    """The highest role in each product, by the product's id; None for the whole service."""
    target: dict[int | None, str] = {}
    for role in roles:
        for pk in _product_ids(role):
            target[pk] = max(role.role, target.get(pk, ""), key=_RANKS.index)
    return target


def _product_ids(role: MappedRole) -> Iterable[int | None]:
    if role.role == SUPERUSER:
        return [None]
    products = Product.objects.filter(deletion_requested_at=None)
    if role.product.isdecimal() and len(role.product) < 19:
        return products.filter(pk=int(role.product)).values_list("pk", flat=True)
    return products.filter(name=role.product).values_list("pk", flat=True)


def _give(login: AdminUser, product_id: int | None, role: str, grant: RoleGrant | None) -> None:
    """Give the role, unless somebody gave the login as much already."""
    current = _current_role(login, product_id)
    if grant is None:
        if _RANKS.index(current) >= _RANKS.index(role):
            return
        RoleGrant.objects.create(
            user=login, product_id=product_id, role=role, previous_role=current
        )
    elif grant.role == role == current:
        return
    else:
        grant.role = role
        grant.save(update_fields=["role"])
    _set_role(login, product_id, role)


def _take(login: AdminUser, grant: RoleGrant) -> None:
    """Take the grant back. A role that somebody changed since is theirs, and stays."""
    is_ours = _current_role(login, grant.product_id) == grant.role
    grant.delete()
    if is_ours:
        _set_role(login, grant.product_id, grant.previous_role)


def _current_role(login: AdminUser, product_id: int | None) -> str:
    if product_id is None:
        return SUPERUSER if login.is_superuser else ""
    members = ProductMember.objects.filter(user=login, product=product_id)
    return members.values_list("role", flat=True).first() or ""


def _set_role(login: AdminUser, product_id: int | None, role: str) -> None:
    if product_id is None:
        login.is_superuser = role == SUPERUSER
        login.save(update_fields=["is_superuser"])
    elif role:
        ProductMember.objects.update_or_create(
            user=login, product_id=product_id, defaults={"role": role}
        )
    else:
        ProductMember.objects.filter(user=login, product=product_id).delete()
