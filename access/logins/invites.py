"""Makes, finds, and uses invites. Each works once, and until it expires or is revoked."""

from datetime import datetime, timedelta

from django.contrib.auth.models import User as AdminUser
from django.db import transaction
from django.db.models import QuerySet

from access.logins import addresses, roles
from access.models import Invite
from core import credentials
from engagement.models import Product, ProductMember

DEFAULT_LIFETIME = timedelta(days=7)
# How long an invite that no longer works is kept.
RETENTION = timedelta(days=30)


def create(
    by: AdminUser,
    now: datetime,
    *,
    product: Product | None = None,
    role: str = ProductMember.Role.VIEWER,
    email: str = "",
    login: AdminUser | None = None,
    lifetime: timedelta = DEFAULT_LIFETIME,
) -> tuple[Invite, str]:
    """A new invite and its token, which is stored nowhere."""
    token = credentials.generate(Invite.PREFIX)
    invite = Invite.objects.create(
        product=product,
        role=role,
        email=email,
        login=login,
        digest=credentials.digest(token),
        created_by=by,
        expires_at=now + lifetime,
    )
    return invite, token


def note_mailed(invite: Invite) -> None:
    """Note that the link was mailed to the invite's address, and that no page shows it."""
    invite.is_mailed = True
    invite.save(update_fields=["is_mailed"])


def open_invites(now: datetime) -> QuerySet[Invite]:
    """The invites that still work."""
    invites = Invite.objects.filter(used_at=None, revoked_at=None, expires_at__gt=now)
    return invites.filter(product__deletion_requested_at=None).select_related("product", "login")


def find(token: str, now: datetime) -> Invite | None:
    """The invite with this token, if it still works."""
    if not credentials.is_well_formed(token, Invite.PREFIX):
        return None
    return open_invites(now).filter(digest=credentials.digest(token)).first()


def use(invite_id: int, login: AdminUser, now: datetime) -> bool:
    """Use the invite up for this login, in the caller's transaction or in one of its own.

    Returns False if it no longer works. A member keeps a higher role, and a login that has chosen
    a password is no superuser by a group.
    """
    with transaction.atomic():
        if not Invite.objects.filter(
            pk=invite_id, used_at=None, revoked_at=None, expires_at__gt=now
        ).update(used_at=now):
            return False
        invite = Invite.objects.get(pk=invite_id)
        if invite.is_mailed:
            addresses.prove(login, invite.email)
        if invite.login_id is not None:
            roles.take_superuser(login)
        if invite.product_id is not None:
            member, _ = ProductMember.objects.get_or_create(
                product_id=invite.product_id, user=login, defaults={"role": invite.role}
            )
            if invite.role == ProductMember.Role.MANAGER and member.role != invite.role:
                member.role = invite.role
                member.save(update_fields=["role"])
    return True


def revoke(invite_id: int, product_id: int, now: datetime) -> bool:
    """Revoke the product's invite. Returns False if it does not work anyway."""
    invites = open_invites(now).filter(pk=invite_id, product=product_id)
    return bool(Invite.objects.filter(pk__in=invites.values("pk")).update(revoked_at=now))
