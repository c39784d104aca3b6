"""Slows down password guessing.

Failed attempts count by name, by address, and by name and address together. After too many each
further attempt has to wait. Nobody is locked out by the guesses of others: a wait takes minutes at
most, attempts during a wait do not prolong it, and a login that has signed in from an address
before waits there only for its own failures.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils.crypto import salted_hmac

from access.models import LoginAttempts

FAILURE_RETENTION = timedelta(minutes=15)
# How long a login is known at an address after signing in from it.
KNOWN_ADDRESS_RETENTION = timedelta(days=90)
NO_WAIT = timedelta()


@dataclass(frozen=True)
class ThrottleLimit:
    """A number of free failures. Each further failure doubles the wait, up to the longest.

    Failures count until ``retention`` has passed without another one.
    """

    free: int
    first_wait: timedelta
    longest_wait: timedelta
    retention: timedelta = FAILURE_RETENTION

    def wait(self, failures: int) -> timedelta:
        over = failures - self.free
        if over < 0:
            return NO_WAIT
        doubled: timedelta = self.first_wait * 2 ** min(over, 16)
        return min(doubled, self.longest_wait)


BY_NAME_AND_ADDRESS = ThrottleLimit(5, timedelta(seconds=30), timedelta(minutes=5))
# Guesses at one name from many places, or at many names from one place.
BY_NAME = ThrottleLimit(30, timedelta(seconds=15), timedelta(seconds=30))
BY_ADDRESS = ThrottleLimit(50, timedelta(seconds=15), timedelta(seconds=30))


@dataclass(frozen=True)
class SignInAttempt:
    """An attempt to sign in as *name* from *address*."""

    name: str
    address: str

    def limits(self) -> dict[str, ThrottleLimit]:
        """The limits that the attempt counts towards, by subject."""
        name, network = self.name.strip().lower(), _network(self.address)
        return {
            digest_subject("name and address", name, network): BY_NAME_AND_ADDRESS,
            digest_subject("name", name): BY_NAME,
            digest_subject("address", network): BY_ADDRESS,
        }


@dataclass(frozen=True)
class LinkAttempt(SignInAttempt):
    """An attempt to use an invite link from an address. It slows down only that address."""

    def limits(self) -> dict[str, ThrottleLimit]:
        return {digest_subject("address", _network(self.address)): BY_ADDRESS}


def register_attempt(attempt: SignInAttempt, now: datetime) -> timedelta:
    """Register the attempt as failed. Returns how long it must wait; then it is not registered.

    Registering comes before the check, so that of a hundred guesses at once each one counts.
    """
    limits = attempt.limits()
    # An attempt that must wait creates no rows: a flood of names would create them without end.
    wait = _wait(LoginAttempts.objects.filter(subject__in=limits), limits, now)
    if wait > NO_WAIT:
        return wait
    with transaction.atomic(durable=True):
        rows = _locked(sorted(limits), now)
        wait = _wait(rows, limits, now)
        if wait <= NO_WAIT:
            for row in rows:
                _count_failure(row, limits[row.subject], now)
    return wait


def register_success(attempt: SignInAttempt, now: datetime) -> int:
    """Register the attempt as successful: it was no failure, and the name is known here now.

    Returns how many failures before it counted for nobody else.
    """
    limits, forgiven = attempt.limits(), 0
    with transaction.atomic(durable=True):
        for row in _locked(sorted(limits), now):
            if limits[row.subject] in (BY_NAME, BY_ADDRESS):
                row.failures = max(row.failures - 1, 0)
            else:
                forgiven += max(row.failures - 1, 0)
                row.failures, row.succeeded_at = 0, now
                row.keep_until = now + KNOWN_ADDRESS_RETENTION
            row.save(update_fields=["failures", "succeeded_at", "keep_until"])
    return forgiven


def count_failures(attempt: SignInAttempt, now: datetime) -> int:
    """The highest number of failures that count against the attempt."""
    limits = attempt.limits()
    rows = LoginAttempts.objects.filter(subject__in=limits)
    return max((_failures(row, limits[row.subject], now) for row in rows), default=0)


def use_up(subject: str, now: datetime, lifetime: timedelta) -> bool:
    """Use up what works once, and only for this time. Returns False if it is used up already."""
    _, is_new = LoginAttempts.objects.get_or_create(
        subject=digest_subject("used up", subject), defaults={"keep_until": now + lifetime}
    )
    return is_new


def _locked(subjects: Sequence[str], now: datetime) -> list[LoginAttempts]:
    """The subjects' rows, locked, and created where there are none.

    In the order of their keys, so that two attempts cannot deadlock.
    """
    keep_until = now + FAILURE_RETENTION
    LoginAttempts.objects.bulk_create(
        (LoginAttempts(subject=subject, keep_until=keep_until) for subject in subjects),
        ignore_conflicts=True,
    )
    rows = LoginAttempts.objects.filter(subject__in=subjects).order_by("subject")
    return list(rows.select_for_update())


def _wait(
    rows: Iterable[LoginAttempts], limits: Mapping[str, ThrottleLimit], now: datetime
) -> timedelta:
    """The longest wait of the rows."""
    attempts = list(rows)
    own = [row for row in attempts if limits[row.subject] is BY_NAME_AND_ADDRESS]
    if own and _is_known(own[0], now):
        attempts = own
    return max((_remaining(row, limits[row.subject], now) for row in attempts), default=NO_WAIT)


def _is_known(row: LoginAttempts, now: datetime) -> bool:
    return row.succeeded_at is not None and now - row.succeeded_at < KNOWN_ADDRESS_RETENTION


def _failures(row: LoginAttempts, limit: ThrottleLimit, now: datetime) -> int:
    """The failures that still count."""
    is_recent = row.failed_at is not None and now - row.failed_at < limit.retention
    return row.failures if is_recent else 0


def _remaining(row: LoginAttempts, limit: ThrottleLimit, now: datetime) -> timedelta:
    wait = limit.wait(_failures(row, limit, now))
    return max(wait - (now - row.failed_at), NO_WAIT) if row.failed_at else NO_WAIT


def _count_failure(row: LoginAttempts, limit: ThrottleLimit, now: datetime) -> None:
    row.failures, row.failed_at = _failures(row, limit, now) + 1, now
    row.keep_until = max(row.keep_until, now + limit.retention)
    row.save(update_fields=["failures", "failed_at", "keep_until"])


def digest_subject(*parts: str) -> str:
    return salted_hmac("access.logins", "\0".join(parts), algorithm="sha256").hexdigest()


def _network(address: str) -> str:
    """The address; of IPv6 the /64 network, because one customer has all of its addresses."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
