"""Writes to the log who signs in and out, and who is refused.

Each line names the address, and the login only where there is one of that name: people type their
password into the field for the name. No line holds a password, a key or a token.
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
# Of whatever somebody may repeat as often as they like, a process writes so many lines a minute.
MAX_LINES_PER_MINUTE = 20
# An address, with a port where a proxy adds it. The header may hold anything else.
_NO_ADDRESS = re.compile(r"[^0-9A-Fa-f.:\[\]]")
MAX_ADDRESS_LENGTH = 64


class LogRateLimiter:
    """Lets one line a minute through for each subject, and counts the others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._seen: set[str] = set()
        self._left_out = 0

    def register_line(self, subject: str) -> int | None:
        """How many lines were left out before the subject's; None where it is left out, too."""
        now = self._clock()
        if now - self._began >= MINUTE:
            self._began, self._seen = now, set()
        if subject in self._seen or len(self._seen) >= MAX_LINES_PER_MINUTE:
            self._left_out += 1
            return None
        self._seen.add(subject)
        left_out, self._left_out = self._left_out, 0
        return left_out


def client_address(request: HttpRequest | None) -> str:
    """Who asks, as far as we can trust it: behind a proxy the last address that it added."""
    told: str = request.META.get(settings.CLIENT_ADDRESS_KEY, "") if request else ""
    return told.rsplit(",", 1)[-1].strip()


def connect_signals() -> None:
    """Have sign-ins and sign-outs logged from now on."""
    user_logged_in.connect(_signed_in, dispatch_uid="log of sign-ins")
    user_logged_out.connect(_signed_out, dispatch_uid="log of sign-outs")


def _signed_in(request: HttpRequest, user: Any, **_: Any) -> None:
    _write(logging.INFO, "sign_in", "Signed in", request, login=user.get_username())


def _signed_out(request: HttpRequest, user: Any, **_: Any) -> None:
    if user is not None:
        _write(logging.INFO, "sign_out", "Signed out", request, login=user.get_username())


def log_sign_in_failed(request: HttpRequest | None, name: str) -> None:
    _write(logging.WARNING, "sign_in_failed", "Failed sign-in", request, login=_known(name))


def log_sign_in_throttled(request: HttpRequest | None, name: str) -> None:
    """Somebody must wait before they may try again. One line a minute for each address."""
    left_out = _slowed.register_line(client_address(request))
    if left_out is not None:
        login, said = _known(name), "Sign-in refused after too many failures"
        _write(logging.WARNING, "sign_in_slowed", said, request, login=login, left_out=left_out)


def log_token_rejected(
    request: HttpRequest, reason: str, subject: str, token_id: Callable[[], int | None]
) -> None:
    """A read token was refused. One line a minute for each *subject* at an address.

    *token_id* finds the number of a token that was revoked.
    """
    left_out = _refused.register_line(f"{client_address(request)} {subject}")
    if left_out is not None:
        said, about = "Refused read token", {"reason": reason, "token_id": token_id()}
        _write(logging.WARNING, "token_refused", said, request, **about, left_out=left_out)


_slowed = LogRateLimiter()
_refused = LogRateLimiter()


def _known(name: str) -> str | None:
    """The name where it is a login's."""
    users = get_user_model()._default_manager
    return name if users.filter(**{get_user_model().USERNAME_FIELD: name}).exists() else None


def _write(level: int, event: str, said: str, request: HttpRequest | None, **about: Any) -> None:
    address = _NO_ADDRESS.sub("", client_address(request))[:MAX_ADDRESS_LENGTH]
    fields = {"address": address or None, **about}
    told = {name: value for name, value in fields.items() if value}
    words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in told.items())
    logger.log(
        level,
        "%s: %s.",
        said,
        words or "nothing is known",
        extra={"fields": {"event": event, **told}, "request": request},
    )
