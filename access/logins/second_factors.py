"""Second factors: authenticator apps (TOTP), passkeys, and recovery codes."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyotp
import segno
from django.conf import settings
from django.contrib.auth.models import User as AdminUser
from django.db import transaction

from access.logins.throttle import SignInAttempt, ThrottleLimit, digest_subject
from access.models import RecoveryCode, SecondFactor
from engagement.models import ProductMember

ISSUER = "Engagement Data Service"
STEP_SECONDS = 30
RECOVERY_CODES = 10
# Without letters that look alike.
RECOVERY_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
# 24 of 31 letters are 118 random bits, so that a digest needs no salt and no work.
RECOVERY_GROUPS, RECOVERY_GROUP = 4, 6
MAX_FACTORS = 20
# Somebody who guesses codes knows the password. So failures count until the next success, however
# slowly they come.
CODES = ThrottleLimit(5, timedelta(seconds=30), timedelta(minutes=5), timedelta(days=365))


@dataclass(frozen=True)
class CodeAttempt(SignInAttempt):
    """An attempt to prove a second factor, after the password. It counts by login only."""

    def limits(self) -> dict[str, ThrottleLimit]:
        return {digest_subject("second factor", self.name): CODES}


def factors(login: AdminUser) -> Sequence[SecondFactor]:
    return list(SecondFactor.objects.filter(user=login))


def has_factor(login: AdminUser) -> bool:
    return SecondFactor.objects.filter(user=login).exists()


def is_required(login: AdminUser) -> bool:
    """Whether the login must have a second factor, as EDS_SECOND_FACTOR says."""
    if settings.SECOND_FACTOR != "managers":
        return bool(settings.SECOND_FACTOR == "all")
    managing = ProductMember.objects.filter(user=login, role=ProductMember.Role.MANAGER)
    return login.is_superuser or managing.exists()


# --- Authenticator apps ---------------------------------------------------------------------------


def new_app_secret() -> str:
    return pyotp.random_base32()


def app_uri(login: AdminUser, secret: str) -> str:
    """The address that an authenticator app reads from the picture."""
    return pyotp.TOTP(secret).provisioning_uri(name=login.get_username(), issuer_name=ISSUER)


def app_picture(uri: str) -> str:
    """The QR code as SVG, which needs no style of its own."""
    return segno.make(uri, error="m").svg_inline(
        scale=4, border=4, dark="#000", light="#fff", omitsize=True
    )


def matching_step(secret: str, code: str, now: datetime) -> int | None:
    """The time step whose code this is. Spaces do not matter.

    The codes of nearby steps count, too: clocks differ, and typing takes time.
    """
    if not secret:
        # Discarded with a lost encryption key. Everybody could compute its codes.
        return None
    digits = "".join(code.split())
    tolerance = settings.CODE_TOLERANCE_SECONDS
    first, last = (int(now.timestamp() + off) // STEP_SECONDS for off in (-tolerance, tolerance))
    for step in range(first, last + 1):
        expected = pyotp.TOTP(secret).generate_otp(step)
        if secrets.compare_digest(expected.encode(), digits.encode()):
            return step
    return None


def add_app(login: AdminUser, name: str, secret: str, step: int, now: datetime) -> SecondFactor:
    """Store the app, whose code of this time step was shown. That code is used up."""
    return SecondFactor.objects.create(
        user=login,
        kind=SecondFactor.Kind.APP,
        name=name,
        secret=secret,
        last_used=step,
        last_used_at=now,
    )


def use_code(login: AdminUser, code: str, now: datetime) -> bool:
    """Use up the code of an app, or a recovery code. Returns False if it is neither."""
    for factor in SecondFactor.objects.filter(user=login, kind=SecondFactor.Kind.APP):
        step = matching_step(factor.secret, code, now)
        if step is not None and use_once(factor, step, now):
            return True
    codes = RecoveryCode.objects.filter(user=login, digest=_digest(login, code))
    return bool(codes.delete()[0])


def use_once(factor: SecondFactor, number: int, now: datetime) -> bool:
    """Note the time step or the count. Returns False if it, or a later one, was used before."""
    rows = SecondFactor.objects.filter(pk=factor.pk, last_used__lt=number)
    return bool(rows.update(last_used=number, last_used_at=now))


# --- Recovery codes -------------------------------------------------------------------------------


def new_recovery_codes(login: AdminUser) -> list[str]:
    """New codes, to be shown once. Those from before no longer work."""
    codes = [
        "-".join(
            "".join(secrets.choice(RECOVERY_ALPHABET) for _ in range(RECOVERY_GROUP))
            for _ in range(RECOVERY_GROUPS)
        )
        for _ in range(RECOVERY_CODES)
    ]
    with transaction.atomic():
        RecoveryCode.objects.filter(user=login).delete()
        RecoveryCode.objects.bulk_create(
            RecoveryCode(user=login, digest=_digest(login, code)) for code in codes
        )
    return codes


def recovery_codes_left(login: AdminUser) -> int:
    return RecoveryCode.objects.filter(user=login).count()


def reset(login: AdminUser) -> int:
    """Delete all factors and recovery codes of the login. Returns the number of factors."""
    RecoveryCode.objects.filter(user=login).delete()
    return SecondFactor.objects.filter(user=login).delete()[0]


def remove(login: AdminUser, factor_id: int) -> str | None:
    """Delete one factor, and with the last one the recovery codes. Returns its name."""
    with transaction.atomic():
        factor = SecondFactor.objects.filter(user=login, pk=factor_id).first()
        if factor is None:
            return None
        factor.delete()
        if not has_factor(login):
            RecoveryCode.objects.filter(user=login).delete()
    return str(factor)


def _digest(login: AdminUser, code: str) -> str:
    plain = "".join(character for character in code.lower() if character.isalnum())
    return hashlib.sha256(f"{login.pk}:{plain}".encode()).hexdigest()
