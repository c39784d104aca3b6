"""Slows down whoever guesses passwords.

Attempts are counted by name, by address, and by name and address together. Whoever fails too often
waits a little before each further attempt. So that nobody is kept out by somebody else's guesses,
no wait is longer than minutes, attempts during a wait do not prolong it, and who has logged in from
an address before waits there for their own failures alone.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils.crypto import salted_hmac

from engagement.models import LoginAttempts

# Failures count until this much time has passed without another.
FAILURE_RETENTION = timedelta(minutes=15)
# Whoever logged in from an address is known there for so long.
KNOWN_ADDRESS_RETENTION = timedelta(days=90)
NO_WAIT = timedelta()


@dataclass(frozen=True)
class ThrottleLimit:
    """So many failures are free; after each further one the wait doubles, up to the longest."""

    free: int
    first_wait: timedelta
    longest_wait: timedelta

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
    """Somebody says they are *name*, from *address*."""

    name: str
    address: str

    def limits(self) -> dict[str, ThrottleLimit]:
        """What the attempt counts towards, by subject."""
        name, place = self.name.strip().lower(), _place(self.address)
        return {
            _digest("name and address", name, place): BY_NAME_AND_ADDRESS,
            _digest("name", name): BY_NAME,
            _digest("address", place): BY_ADDRESS,
        }


def register_attempt(attempt: SignInAttempt, now: datetime) -> timedelta:
    """How long to wait before the attempt; where that is nothing, it counts as failed from now on.

    Counting comes first, so that a hundred guesses at once are not all made before one counts.
    """
    limits = attempt.limits()
    # Who must wait anyway makes no rows: a flood of names would make them without end.
    wait = _wait(LoginAttempts.objects.filter(subject__in=limits), limits, now)
    if wait > NO_WAIT:
        return wait
    with transaction.atomic(durable=True):
        rows = _locked(sorted(limits), now)
        wait = _wait(rows, limits, now)
        if wait <= NO_WAIT:
            for row in rows:
                _count_failure(row, now)
    return wait


def register_success(attempt: SignInAttempt, now: datetime) -> None:
    """Take back that the attempt counts as failed, and know the name at this address."""
    limits = attempt.limits()
    with transaction.atomic(durable=True):
        for row in _locked(sorted(limits), now):
            if limits[row.subject] is BY_NAME_AND_ADDRESS:
                row.failures, row.succeeded_at = 0, now
                row.keep_until = now + KNOWN_ADDRESS_RETENTION
            else:
                row.failures = max(row.failures - 1, 0)
            row.save(update_fields=["failures", "succeeded_at", "keep_until"])


def delete_expired(now: datetime) -> None:
    """Delete the attempts that count no more, and the sessions that have expired."""
    LoginAttempts.objects.filter(keep_until__lt=now).delete()
    Session.objects.filter(expire_date__lt=now).delete()


def _locked(subjects: Sequence[str], now: datetime) -> list[LoginAttempts]:
    """The subjects' rows, made where missing. In the order of their keys, so that two attempts
    cannot deadlock."""
    LoginAttempts.objects.bulk_create(
        (LoginAttempts(subject=one, keep_until=now + FAILURE_RETENTION) for one in subjects),
        ignore_conflicts=True,
    )
    rows = LoginAttempts.objects.filter(subject__in=subjects).order_by("subject")
    return list(rows.select_for_update())


def _wait(
    rows: Iterable[LoginAttempts], limits: Mapping[str, ThrottleLimit], now: datetime
) -> timedelta:
    """The longest wait that any of the rows asks for."""
    found = list(rows)
    own = [row for row in found if limits[row.subject] is BY_NAME_AND_ADDRESS]
    asked = own if own and _is_known(own[0], now) else found
    return max((_remaining(row, limits[row.subject], now) for row in asked), default=NO_WAIT)


def _is_known(row: LoginAttempts, now: datetime) -> bool:
    return row.succeeded_at is not None and now - row.succeeded_at < KNOWN_ADDRESS_RETENTION


def _failures(row: LoginAttempts, now: datetime) -> int:
    """The failures that still count."""
    is_recent = row.failed_at is not None and now - row.failed_at < FAILURE_RETENTION
    return row.failures if is_recent else 0


def _remaining(row: LoginAttempts, limit: ThrottleLimit, now: datetime) -> timedelta:
    wait = limit.wait(_failures(row, now))
    return max(wait - (now - row.failed_at), NO_WAIT) if row.failed_at else NO_WAIT


def _count_failure(row: LoginAttempts, now: datetime) -> None:
    row.failures, row.failed_at = _failures(row, now) + 1, now
    row.keep_until = max(row.keep_until, now + FAILURE_RETENTION)
    row.save(update_fields=["failures", "failed_at", "keep_until"])


def _digest(*parts: str) -> str:
    return salted_hmac("engagement.logins", "\0".join(parts), algorithm="sha256").hexdigest()


def _place(address: str) -> str:
    """The address, or the network that one customer of a provider has where it is of IPv6."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
