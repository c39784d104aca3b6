"""The browsers in which a login is signed in: listed, and ended one by one or all at once."""

import hashlib
import time
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User as AdminUser
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from access.logins.security_log import client_address
from access.models import LoginSession

# Kept in the session: when the person signed in, and whether with more than a password.
SIGNED_IN_AT = "signed_in_at"
HAS_SECOND_FACTOR = "second_factor"
METHOD = "sign_in_method"
# Changes of how a login signs in need a sign-in that is at most this old.
FRESH = timedelta(minutes=15)
# Seconds by which the clocks of web machines may differ.
CLOCK_SKEW = 60
# How often a use of a session is written down.
USE_INTERVAL = timedelta(minutes=5)
MAX_REMEMBERED = 10_000

_METHOD_OF_REQUEST = "eds.sign_in_method"
# The sessions whose use this process wrote down, with the time.
_write_times: OrderedDict[str, float] = OrderedDict()


def connect_signals() -> None:
    user_logged_in.connect(_began, dispatch_uid="sessions that begin")
    user_logged_out.connect(_ended, dispatch_uid="sessions that end")


def set_method(request: HttpRequest, method: str) -> None:
    """Note how the person is about to sign in."""
    request.META[_METHOD_OF_REQUEST] = method


def is_fresh(request: HttpRequest, now: datetime) -> bool:
    """Whether the person signed in within the last minutes."""
    began: float = request.session.get(SIGNED_IN_AT, 0)
    return 0 <= now.timestamp() - began + CLOCK_SKEW < FRESH.total_seconds()


def register_use(request: HttpRequest, now: datetime) -> bool:
    """Write down that the session is used, unless this process has done so within minutes.

    Returns False if the session was idle for too long.
    """
    key = request.session.session_key or ""
    seconds = time.monotonic()
    if (
        seconds - _write_times.get(key, -USE_INTERVAL.total_seconds())
        < USE_INTERVAL.total_seconds()
    ):
        return True
    if settings.SESSION_IDLE_MINUTES:
        # No process has seen it within minutes, so what is written down is exact to these.
        idle_since = now - timedelta(minutes=settings.SESSION_IDLE_MINUTES)
        if LoginSession.objects.filter(pk=digest(key), last_used_at__lt=idle_since).exists():
            return False
    _remember(key)
    LoginSession.objects.filter(pk=digest(key), last_used_at__lt=now - USE_INTERVAL).update(
        last_used_at=now, address=_address(request)
    )
    return True


def digest(session_key: str | None) -> str:
    """What stands for a session's key in tables and on pages."""
    return hashlib.sha256((session_key or "").encode()).hexdigest()


def is_over(request: HttpRequest, now: datetime) -> bool:
    """Whether the session is too old, or began in a way that is gone, as through a proxy.

    What is stored in it meanwhile does not prolong it.
    """
    if request.session.get(METHOD, LoginSession.Method.PASSWORD) not in LoginSession.Method:
        return True
    began: float = request.session.get(SIGNED_IN_AT, now.timestamp())
    # One from the future began while a clock was wrong.
    return not -CLOCK_SKEW <= now.timestamp() - began <= settings.SESSION_COOKIE_AGE


def _remember(key: str) -> None:
    _write_times[key] = time.monotonic()
    while len(_write_times) > MAX_REMEMBERED:
        _write_times.popitem(last=False)


def live_sessions(login: AdminUser, now: datetime) -> QuerySet[LoginSession]:
    """The login's sessions, the one that was used last first."""
    oldest = now - timedelta(seconds=settings.SESSION_COOKIE_AGE)
    return LoginSession.objects.filter(user=login, created_at__gte=oldest)


def end(login: AdminUser, session_digest: str) -> int:
    """End one session of the login. Returns 0 if it has ended already."""
    rows = LoginSession.objects.filter(user=login, pk=session_digest)
    if not rows.exists():
        return 0
    keys = [key for key in _keys_of(login) if digest(key) == session_digest]
    rows.delete()
    return Session.objects.filter(pk__in=keys).delete()[0]


def end_all(login: AdminUser, keep: str | None = None) -> int:
    """End all sessions of the login, or all but the one with this key. Returns their number."""
    keys = [key for key in _keys_of(login) if key != keep]
    LoginSession.objects.filter(user=login).exclude(pk=digest(keep)).delete()
    return Session.objects.filter(pk__in=keys).delete()[0]


def _keys_of(login: AdminUser) -> list[str]:
    """The keys of the login's sessions, also of those that an older release began. There are as
    many sessions as people signed in since yesterday."""
    pk = str(login.pk)
    return [
        row.session_key
        for row in Session.objects.filter(expire_date__gt=timezone.now()).iterator()
        if row.get_decoded().get(SESSION_KEY) == pk
    ]


def replace_key(old: str | None, new: str | None) -> None:
    """Follow a session that got another key."""
    if old != new:
        LoginSession.objects.filter(pk=digest(old)).update(digest=digest(new))


def forget_key(old: str | None, new: str | None) -> None:
    """Forget the session that a new one has replaced."""
    if old and old != new:
        LoginSession.objects.filter(pk=digest(old)).delete()


def _began(request: HttpRequest, user: Any, **_: Any) -> None:
    now = timezone.now()
    if request.session.session_key is None:
        request.session.create()
    method = request.META.get(_METHOD_OF_REQUEST, LoginSession.Method.PASSWORD)
    _remember(request.session.session_key or "")
    request.session[SIGNED_IN_AT] = now.timestamp()
    request.session[METHOD] = method
    LoginSession.objects.update_or_create(
        pk=digest(request.session.session_key),
        defaults={
            "user": user,
            "method": method,
            "address": _address(request),
            "agent": request.META.get("HTTP_USER_AGENT", "")[:300],
            "created_at": now,
            "last_used_at": now,
        },
    )


def _ended(request: HttpRequest, user: Any, **_: Any) -> None:
    if request.session.session_key:
        LoginSession.objects.filter(pk=digest(request.session.session_key)).delete()


def _address(request: HttpRequest) -> str:
    return client_address(request)[:64]
