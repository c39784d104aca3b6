"""Logs sign-ins, sign-outs, used invites, and refused sign-ins and tokens.

Each line names the address. It names the login only if the login exists, because people type their
password into the field for the name. No line has a password, a key, or a token.
"""

import logging
import re
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.http import HttpRequest

logger = logging.getLogger(__name__)

MINUTE = 60.0
# Limits, for each process, the lines that anybody can cause without end.
MAX_LINES_PER_MINUTE = 20
# Everything but an address, with the port that some proxies add. The header may hold anything.
_NOT_AN_ADDRESS = re.compile(r"[^0-9A-Fa-f.:\[\]]")
MAX_ADDRESS_LENGTH = 64


class LogRateLimiter:
    """Allows one line a minute for each subject, and counts the others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._seen: set[str] = set()
        self._skipped = 0

    def register_line(self, subject: str) -> int | None:
        """The number of lines skipped before this one; None if this one is to be skipped."""
        now = self._clock()
        if now - self._began >= MINUTE:
            self._began, self._seen = now, set()
        if subject in self._seen or len(self._seen) >= MAX_LINES_PER_MINUTE:
            self._skipped += 1
            return None
        self._seen.add(subject)
        skipped, self._skipped = self._skipped, 0
        return skipped


def client_address(request: HttpRequest | None) -> str:
    """The client's address that we can trust: behind a proxy, the last one that it added."""
    addresses: str = request.META.get(settings.CLIENT_ADDRESS_KEY, "") if request else ""
    return addresses.rsplit(",", 1)[-1].strip()


def connect_signals() -> None:
    """Log sign-ins and sign-outs from now on."""
    user_logged_in.connect(_signed_in, dispatch_uid="log of sign-ins")
    user_logged_out.connect(_signed_out, dispatch_uid="log of sign-outs")


def _signed_in(request: HttpRequest, user: Any, **_: Any) -> None:
    _write(logging.INFO, "sign_in", "Signed in", request, login=user.get_username())


def _signed_out(request: HttpRequest, user: Any, **_: Any) -> None:
    if user is not None:
        _write(logging.INFO, "sign_out", "Signed out", request, login=user.get_username())


def log_sign_in_failed(request: HttpRequest | None, name: str) -> None:
    _write(logging.WARNING, "sign_in_failed", "Failed sign-in", request, login=_existing(name))


def log_sign_in_throttled(request: HttpRequest | None, name: str) -> None:
    """Log that a sign-in must wait, once a minute for each address."""
    skipped = _throttled.register_line(client_address(request))
    if skipped is not None:
        login, text = _existing(name), "Sign-in refused after too many failures"
        _write(logging.WARNING, "sign_in_slowed", text, request, login=login, left_out=skipped)


def log_invite_used(request: HttpRequest, login: str) -> None:
    """Log that somebody used an invite, as this login."""
    _write(logging.INFO, "invite_used", "Used an invite", request, login=login)


def log_single_sign_on_refused(request: HttpRequest, reason: str, login: str = "") -> None:
    """Log that somebody could not sign in with an identity provider, and which login stood in the
    way."""
    text, details = "Refused single sign-on", {"reason": reason, "login": login}
    _write(logging.WARNING, "single_sign_on_refused", text, request, **details)


def log_factor_changed(request: HttpRequest, event: str, login: str, **details: Any) -> None:
    """Log a change of how a login signs in, such as ``factor_added``."""
    text = event.replace("_", " ").capitalize()
    _write(logging.INFO, event, text, request, login=login, **details)


def log_token_rejected(
    request: HttpRequest, reason: str, subject: str, token_id: Callable[[], int | None]
) -> None:
    """Log a rejected read token, once a minute for each *subject* at an address.

    *token_id* finds the id of a revoked token.
    """
    skipped = _rejected.register_line(f"{client_address(request)} {subject}")
    if skipped is not None:
        text, details = "Refused read token", {"reason": reason, "token_id": token_id()}
        _write(logging.WARNING, "token_refused", text, request, **details, left_out=skipped)


def log_page_refused(request: HttpRequest, login: str) -> None:
    """Log that a login may not open a page, or submit its form, once a minute for each login."""
    skipped = _refused_pages.register_line(login)
    if skipped is not None:
        details = {"login": login, "page": request.path, "left_out": skipped}
        _write(logging.WARNING, "page_refused", "Refused page", request, **details)


_refused_pages = LogRateLimiter()
_throttled = LogRateLimiter()
_rejected = LogRateLimiter()


def _existing(name: str) -> str | None:
    """The name, if there is a login with it."""
    users = get_user_model()._default_manager
    return name if users.filter(**{get_user_model().USERNAME_FIELD: name}).exists() else None


def _write(level: int, event: str, text: str, request: HttpRequest | None, **details: Any) -> None:
    address = _NOT_AN_ADDRESS.sub("", client_address(request))[:MAX_ADDRESS_LENGTH]
    fields = {name: value for name, value in {"address": address, **details}.items() if value}
    words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in fields.items())
    logger.log(
        level,
        "%s: %s.",
        text,
        words or "nothing is known",
        extra={"fields": {"event": event, **fields}, "request": request},
    )
