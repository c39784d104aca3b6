"""Finds or makes the login of a person whom an identity provider vouches for."""

from collections.abc import Callable
from dataclasses import dataclass, field

from django.contrib.auth.models import User as AdminUser
from django.db import IntegrityError, transaction

from engagement.logins import roles
from engagement.logins.oidc import Claims, SignInRefused
from engagement.models import ExternalIdentity, ProductMember

ASK = "Ask an administrator of this service."


@dataclass(frozen=True)
class SignOnPolicy:
    """Whether people without a login get one, and what their groups make of them.

    ``record`` is told of each new login, with None, and of each role that changes.
    """

    creates_logins: bool = False
    mapping: roles.RoleMapping = field(default_factory=dict)
    record: Callable[[AdminUser, roles.RoleChange | None], None] = lambda login, change: None


def sign_on(claims: Claims, policy: SignOnPolicy, *, is_invited: bool = False) -> AdminUser:
    """The login of the person, with the roles of their groups.

    Raises SignInRefused if there is none. For a person who is invited, one is made in any case.
    """
    with transaction.atomic():
        login = _known_login(claims) or _matched(claims)
        if login is None:
            login = _admit(claims, policy, is_invited)
        ExternalIdentity.objects.get_or_create(
            issuer=claims.issuer, subject=claims.subject, defaults={"user": login}
        )
    return _with_roles(login, claims, policy, is_invited)


def _admit(claims: Claims, policy: SignOnPolicy, is_invited: bool) -> AdminUser:
    """A new login, if the person may have one."""
    if not is_invited:
        if not policy.creates_logins:
            raise SignInRefused("no login", f"There is no login for {claims.email}. {ASK}")
        if policy.mapping and not roles.mapped_roles(policy.mapping, claims.groups or ()):
            raise _no_group()
    login = _create(claims)
    policy.record(login, None)
    return login


def _with_roles(
    login: AdminUser, claims: Claims, policy: SignOnPolicy, is_invited: bool
) -> AdminUser:
    """The login with the roles of the person's groups. What is taken away stays taken away if the
    sign-in is refused."""
    if policy.mapping:
        mapped = roles.mapped_roles(policy.mapping, claims.groups or ())
        for change in roles.apply_roles(login, mapped):
            policy.record(login, change)
    if not login.is_active or not login.is_staff:
        raise SignInRefused("login turned off", f"Your login is turned off. {ASK}")
    if policy.mapping and not is_invited and not _has_access(login):
        raise _no_group()
    return login


def _known_login(claims: Claims) -> AdminUser | None:
    """The login that signed in with this identity before."""
    rows = ExternalIdentity.objects.filter(issuer=claims.issuer, subject=claims.subject)
    row = rows.select_related("user").first()
    return row.user if row else None


def _matched(claims: Claims) -> AdminUser | None:
    """The login with the person's email address, if the provider has verified the address."""
    if not claims.is_email_verified:
        raise SignInRefused(
            "no verified email",
            "The provider does not say that your email address is verified. Verify it there, or "
            "ask an administrator to set it for you.",
        )
    logins = list(AdminUser.objects.filter(email__iexact=claims.email)[:2])
    if len(logins) > 1:
        raise SignInRefused(
            "several logins", f"Several logins have the email address {claims.email}. {ASK}"
        )
    return logins[0] if logins else None


def _create(claims: Claims) -> AdminUser:
    """A new login without a password, named by the email address."""
    first, _, last = claims.name.partition(" ")
    try:
        with transaction.atomic():
            return AdminUser.objects.create_user(
                claims.email.lower()[:150],
                claims.email,
                first_name=first[:150],
                last_name=last[:150],
                is_staff=True,
            )
    except IntegrityError:
        raise SignInRefused(
            "name taken", f"A login named {claims.email} has another email address. {ASK}"
        ) from None


def _has_access(login: AdminUser) -> bool:
    return login.is_superuser or ProductMember.objects.filter(user=login).exists()


def _no_group() -> SignInRefused:
    return SignInRefused(
        "no group",
        "None of your groups has access to this service. Ask an administrator to put you into one "
        "that has.",
    )
