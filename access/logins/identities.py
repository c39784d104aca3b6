"""Finds or makes the login of a person whom an identity provider vouches for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, count

from django.contrib.auth.models import User as AdminUser
from django.db import IntegrityError, transaction

from access.logins import addresses, roles, second_factors, sessions
from access.logins.oidc import Claims, SignInRefused
from access.models import ExternalIdentity, Invite
from engagement.models import ProductMember

ASK = "Ask an administrator of this service."


class AddressTaken(SignInRefused):
    """The person's address is that of a login with which another person signs in."""

    def __init__(self, login: AdminUser) -> None:
        super().__init__(
            "address of another person",
            "Your email address belongs to a login of this service with which somebody else signs "
            "in at the provider. The administrators of this service see a notice. Ask one of them.",
        )
        self.login = login


class SignOnEvent(StrEnum):
    """What a sign-in did, besides changes of roles, in words for the trail."""

    MADE = "Made a login by single sign-on."
    CONNECTED = (
        "Connected with single sign-on. The password, second factors, sessions, and links for a "
        "new password are gone."
    )


@dataclass(frozen=True)
class SignOnPolicy:
    """Whether people without a login get one, and what their groups make of them.

    ``record`` is told of what a sign-in did to a login, and of each role that changes.
    """

    creates_logins: bool = False
    mapping: roles.RoleMapping = field(default_factory=dict)
    record: Callable[[AdminUser, SignOnEvent | roles.RoleChange], None] = lambda login, event: None


def sign_on(
    claims: Claims,
    policy: SignOnPolicy,
    *,
    is_invited: bool = False,
    connecting: AdminUser | None = None,
) -> AdminUser:
    """The login of the person, with the roles of their groups.

    Raises SignInRefused if there is none. For a person who is invited, one is made in any case.
    *connecting* is a login that the person has just signed in to with its password.
    """
    try:
        login = _find_or_make(claims, policy, is_invited, connecting)
    except IntegrityError:
        # The same person was faster in another tab, or another one took the name.
        login = _find_or_make(claims, policy, is_invited, connecting)
    return _with_roles(login, claims, policy, is_invited)


def is_connected(login: AdminUser, issuer: str | None = None) -> bool:
    """Whether a person of the provider, or of any, signs in with this login."""
    rows = ExternalIdentity.objects.filter(user=login)
    return rows.filter(**({"issuer": issuer} if issuer else {})).exists()


def disconnect(login: AdminUser) -> int:
    """Forget who signs in with the login at providers. Returns the number of identities.

    The next person who signs in with the login's proven address is connected.
    """
    return ExternalIdentity.objects.filter(user=login).delete()[0]


@transaction.atomic
def _find_or_make(
    claims: Claims, policy: SignOnPolicy, is_invited: bool, connecting: AdminUser | None
) -> AdminUser:
    login = _known_login(claims)
    if login is None:
        login = _matched(claims, connecting)
        if login is None:
            login = _admit(claims, policy, is_invited)
        else:
            _take_local_ways_in(login)
            policy.record(login, SignOnEvent.CONNECTED)
        ExternalIdentity.objects.create(issuer=claims.issuer, subject=claims.subject, user=login)
    if claims.is_email_verified:
        addresses.prove(login, claims.email)
    return login


def _take_local_ways_in(login: AdminUser) -> None:
    """Leave the provider as the only way to sign in. Somebody who knew the password may
    be another person than the one who came from the provider, and must not get that one's roles."""
    login.set_unusable_password()
    login.save(update_fields=["password"])
    second_factors.reset(login)
    sessions.end_all(login)
    Invite.objects.filter(login=login).delete()


def _admit(claims: Claims, policy: SignOnPolicy, is_invited: bool) -> AdminUser:
    """A new login, if the person may have one."""
    if not is_invited:
        if not policy.creates_logins:
            raise SignInRefused("no login", f"There is no login for {claims.email}. {ASK}")
        if policy.mapping and not roles.mapped_roles(policy.mapping, claims.groups or ()):
            raise _no_group()
    login = _create(claims)
    policy.record(login, SignOnEvent.MADE)
    return login


def _with_roles(
    login: AdminUser, claims: Claims, policy: SignOnPolicy, is_invited: bool
) -> AdminUser:
    """The login with the roles of the person's groups. What is taken away stays taken away if the
    sign-in is refused."""
    if policy.mapping:
        mapped = roles.mapped_roles(policy.mapping, claims.groups or ())
        if login.has_usable_password():
            # Somebody else may know it.
            mapped = [role for role in mapped if role.role != roles.SUPERUSER]
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


def _matched(claims: Claims, connecting: AdminUser | None) -> AdminUser | None:
    """The login that has proven the person's address, or the one that they are connecting."""
    if not claims.is_email_verified:
        raise SignInRefused(
            "no verified email",
            "The provider does not say that your email address is verified. Verify it there, or "
            "ask an administrator to set it for you.",
        )
    login = addresses.find_login(claims.email)
    if login is None and connecting and addresses.is_same(connecting.email, claims.email):
        login = connecting
    if login is not None and is_connected(login, claims.issuer):
        raise AddressTaken(login)
    return login


def _create(claims: Claims) -> AdminUser:
    """A new login without a password, named by the email address."""
    first, _, last = claims.name.partition(" ")
    return AdminUser.objects.create_user(
        _free_name(claims.email.lower()[:150]),
        claims.email,
        first_name=first[:150],
        last_name=last[:150],
        is_staff=True,
    )


def _free_name(email: str) -> str:
    """The address, or a name like it if another login has that one."""
    plain = email.replace("@", ".")[:140]
    names = chain((email, plain), (f"{plain}-{number}" for number in count(2)))
    return next(name for name in names if not AdminUser.objects.filter(username=name).exists())


def _has_access(login: AdminUser) -> bool:
    return login.is_superuser or ProductMember.objects.filter(user=login).exists()


def _no_group() -> SignInRefused:
    return SignInRefused(
        "no group",
        "None of your groups has access to this service. Ask an administrator to put you into one "
        "that has.",
    )
