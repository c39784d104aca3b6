"""Which email addresses of logins are proven.

An address is proven by a link that was mailed there and shown to nobody, or by a sign-in with it at
the identity provider. What somebody typed proves nothing: anybody can type anybody's address.
"""

from django.contrib.auth.models import User as AdminUser
from django.db import transaction

from access.models import ProvenAddress


def is_same(email: str, other: str) -> bool:
    return bool(email) and _normalized(email) == _normalized(other)


def prove(login: AdminUser, email: str) -> None:
    """Note that the login's person has proven the address, if it is the login's present one.

    Another login with a proof of it loses that: mailboxes are given to others.
    """
    if not is_same(login.email, email) or is_proven(login):
        return
    address = _normalized(email)
    with transaction.atomic():
        ProvenAddress.objects.filter(email=address).delete()
        ProvenAddress.objects.update_or_create(user=login, defaults={"email": address})


def is_proven(login: AdminUser) -> bool:
    """Whether the login's present address is proven."""
    return ProvenAddress.objects.filter(user=login, email=_normalized(login.email)).exists()


def find_login(email: str) -> AdminUser | None:
    """The login that has proven the address, locked, if it still has it."""
    proof = ProvenAddress.objects.filter(email=_normalized(email)).first()
    if proof is None:
        return None
    login = AdminUser.objects.select_for_update().filter(pk=proof.user_id).first()
    return login if login is not None and is_same(login.email, email) else None


def _normalized(email: str) -> str:
    """The address in lower case. Only ASCII letters change: some others become ASCII letters, so
    that one person's address would be another's."""
    return email.encode().lower().decode()
