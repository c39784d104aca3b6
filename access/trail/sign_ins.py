"""Sign-ins, sign-outs, and failures in the trail."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User as AdminUser
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db.models import CharField, Exists, OuterRef, QuerySet
from django.db.models.functions import Cast
from django.http import HttpRequest

from access.logins.security_log import LogRateLimiter, client_address
from access.models import TrailEntry
from access.trail.entries import Action, Actor, actor_of, record, storable_address

KIND = "sign-in"
# Anybody can fail to sign in without end.
_failures = LogRateLimiter()


def connect_signals() -> None:
    user_logged_in.connect(_signed_in, dispatch_uid="trail of sign-ins")
    user_logged_out.connect(_signed_out, dispatch_uid="trail of sign-outs")
    user_login_failed.connect(_failed, dispatch_uid="trail of failed sign-ins")


def record_taken_address(request: HttpRequest, login: AdminUser) -> None:
    """Record that somebody came from the identity provider with the address of a login with which
    another person signs in, unless administrators have such a notice already."""
    if not taken_addresses().filter(object_id=str(login.pk)).exists():
        actor = Actor(None, "", storable_address(client_address(request)))
        record(
            actor,
            Action.SIGN_IN_FAILED,
            KIND,
            object_id=login.pk,
            name=login.get_username(),
            note="Somebody else at the identity provider has the email address of this login.",
        )


def taken_addresses() -> QuerySet[TrailEntry]:
    """The entries of such refusals about logins that nobody else has changed since."""
    changed = TrailEntry.objects.filter(
        kind="login", object_id=OuterRef("object_id"), id__gt=OuterRef("id")
    ).exclude(object_id=Cast("login_id", CharField()))
    # Other entries about sign-ins are about no object.
    entries = TrailEntry.objects.filter(kind=KIND, object_id__gt="")
    return entries.exclude(Exists(changed))


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
