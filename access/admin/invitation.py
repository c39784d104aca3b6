"""The page that an invite's link opens: join with one's login, or choose a name and a password.

The token is in the link only. The session stores the digest, and the next URL has neither.
"""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.forms import SetPasswordForm, UserCreationForm
from django.contrib.auth.models import User as AdminUser
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters

from access.admin import sign_in
from access.admin.login import format_wait, may_use_password
from access.logins import addresses, invites, second_factors, security_log, sessions, throttle
from access.logins.passwords import RULES
from access.logins.security_log import client_address
from access.models import Invite, LoginSession
from access.trail import entries

SESSION_KEY = sign_in.INVITE


class NewLoginForm(UserCreationForm):  # type: ignore[type-arg]
    """The name and the password of a new login, chosen by its person."""

    class Meta(UserCreationForm.Meta):
        model = AdminUser
        fields = ("username",)

    def __init__(self, invite: Invite, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._invite = invite
        self.fields["username"].label = "Login name"
        self.fields["username"].widget.attrs["autocomplete"] = "username"
        self.fields["username"].help_text = ""
        self.fields["password1"].help_text = RULES
        self.fields["password2"].help_text = ""

    def clean_username(self) -> str:
        name: str = super().clean_username()
        # Others take a name that looks like an address for the person whose address it is.
        is_proven = self._invite.is_mailed and addresses.is_same(name, self._invite.email)
        if "@" in name and not is_proven:
            raise ValidationError(
                "A name may be an email address only if the invite was sent there by email. "
                "Choose a name without @."
            )
        return name

    def save(self, commit: bool = True) -> AdminUser:
        login: AdminUser = super().save(commit=False)
        # Without it, nobody can open the admin. Memberships decide what they see there.
        login.is_staff, login.email = True, self._invite.email
        if commit:
            login.save()
        return login


class NewPasswordForm(SetPasswordForm):  # type: ignore[type-arg]
    """A new password of the invite's login."""

    def __init__(self, invite: Invite, *args: Any, **kwargs: Any) -> None:
        assert invite.login is not None
        super().__init__(invite.login, *args, **kwargs)
        self.fields["new_password1"].help_text = RULES


@csrf_protect
@sensitive_post_parameters()
def invite_view(request: HttpRequest) -> HttpResponse:
    if "token" in request.GET:
        return _open(request, request.GET["token"])
    stored = request.session.get(SESSION_KEY)
    now = timezone.now()
    invite = invites.open_invites(now).filter(pk=stored).first() if stored else None
    if invite is None:
        return _page(request, "admin/engagement/invite_over.html", status=404)
    if request.method != "POST":
        return _form_page(request, invite, _form(invite))
    if invite.login is None and "join" in request.POST and _may_join(request):
        assert isinstance(request.user, AdminUser)
        return _finish(request, invite, request.user)
    if not _has_passwords(invite):
        return _form_page(request, invite, _form(invite))
    form = _form(invite, request.POST)
    if not form.is_valid():
        return _form_page(request, invite, form)
    with transaction.atomic():
        login = form.save()
        was_superuser = login.is_superuser
        if not invites.use(invite.pk, login, now):
            # Somebody else has used it meanwhile.
            transaction.set_rollback(True)
            return _page(request, "admin/engagement/invite_over.html", status=404)
    _forget(request)
    _record_use(request, invite, login, was_superuser=was_superuser)
    security_log.log_invite_used(request, login.get_username())
    if invite.login_id is not None:
        sessions.end_all(login)
        if second_factors.has_factor(login):
            return redirect("admin:login")
    # The session gets another key, and loses what another login had in it.
    sign_in.start_session(request, login, LoginSession.Method.PASSWORD, has_factor=False)
    return redirect(_next(invite))


def _open(request: HttpRequest, token: str) -> HttpResponse:
    """Remember which invite was opened, and continue without the token in the URL."""
    invite = invites.find(token, timezone.now())
    if invite is None:
        attempt = throttle.LinkAttempt("", client_address(request))
        if wait := throttle.register_attempt(attempt, timezone.now()):
            context = {"wait": format_wait(wait)}
            return _page(request, "admin/engagement/invite_over.html", context, status=429)
        _forget(request)
    else:
        request.session[SESSION_KEY] = invite.pk
    return redirect("invite")


def _finish(request: HttpRequest, invite: Invite, login: AdminUser) -> HttpResponse:
    """Make the person who is logged in a member."""
    if not invites.use(invite.pk, login, timezone.now()):
        return _page(request, "admin/engagement/invite_over.html", status=404)
    _forget(request)
    _record_use(request, invite, login)
    security_log.log_invite_used(request, login.get_username())
    return redirect(_next(invite))


def _record_use(
    request: HttpRequest, invite: Invite, login: AdminUser, *, was_superuser: bool = False
) -> None:
    note = "Chose a new password by a link."
    if was_superuser and not login.is_superuser:
        note += " With a password, no group makes the login a superuser."
    if invite.product_id is not None:
        note = f"Became {invite.get_role_display().lower()} by an invite."
    elif invite.login_id is None:
        note = "Made a login by an invite."
    entries.record(
        entries.actor_of(request, login),
        entries.Action.CHANGED if invite.login_id else entries.Action.ADDED,
        "member" if invite.product_id else "login",
        product_id=invite.product_id,
        object_id=login.pk,
        name=login.get_username(),
        note=note,
    )


def _form(invite: Invite, data: Any = None) -> NewLoginForm | NewPasswordForm:
    return NewPasswordForm(invite, data) if invite.login else NewLoginForm(invite, data)


def _has_passwords(invite: Invite) -> bool:
    """Whether the person may choose a password."""
    return may_use_password(invite.login) if invite.login else settings.LOCAL_PASSWORDS


def _may_join(request: HttpRequest) -> bool:
    return request.user.is_authenticated and request.user.is_active and request.user.is_staff


def _forget(request: HttpRequest) -> None:
    request.session.pop(SESSION_KEY, None)


def _next(invite: Invite) -> str:
    """The overview of what the person was invited to."""
    query = "" if invite.product_id is None else f"?product={invite.product_id}"
    return reverse("admin:index") + query


def _form_page(request: HttpRequest, invite: Invite, form: Any) -> HttpResponse:
    context = {
        "invite": invite,
        "form": form,
        "may_join": _may_join(request) and invite.login is None,
        "login_url": f"{reverse('admin:login')}?next={reverse('invite')}",
        "has_passwords": _has_passwords(invite),
    }
    return _page(request, "admin/engagement/invitation.html", context)


def _page(
    request: HttpRequest, template: str, context: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    frame = {
        "site_header": admin.site.site_header,
        "site_title": admin.site.site_title,
        "title": "Invitation",
    }
    return render(request, template, {**frame, **(context or {})}, status=status)
