"""Sign-ins, sign-outs, and failures in the trail."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.http import HttpRequest

from engagement.logins.security_log import LogRateLimiter, client_address
from engagement.trail.entries import Action, Actor, actor_of, record, storable_address

KIND = "sign-in"
# Anybody can fail to sign in without end.
_failures = LogRateLimiter()


def connect_signals() -> None:
    user_logged_in.connect(_signed_in, dispatch_uid="trail of sign-ins")
    user_logged_out.connect(_signed_out, dispatch_uid="trail of sign-outs")
    user_login_failed.connect(_failed, dispatch_uid="trail of failed sign-ins")


def _signed_in(request: HttpRequest, user: Any, **_: Any) -> None:
    record(actor_of(request, user), Action.SIGNED_IN, KIND)


def _signed_out(request: HttpRequest, user: Any, **_: Any) -> None:
    if user is not None:
        record(actor_of(request, user), Action.SIGNED_OUT, KIND)


def _failed(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    """Record one failure a minute for each address, with the number of those left out.

    People type their password into the field for the name, so only an existing name is recorded.
    """
    address = client_address(request)
    skipped = _failures.register_line(address)
    if skipped is None:
        return
    name = str(credentials.get(get_user_model().USERNAME_FIELD, ""))
    login = get_user_model()._default_manager.filter(username=name).first()
    actor = Actor(login.pk if login else None, name if login else "", storable_address(address))
    note = f"{skipped:,} more failures before this one are not listed." if skipped else ""
    record(actor, Action.SIGN_IN_FAILED, KIND, note=note)
