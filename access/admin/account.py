"""Your account: the second factors, recovery codes, and sessions of the person who is signed in."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User as AdminUser
from django.contrib.auth.views import PasswordChangeView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.safestring import mark_safe
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from access.admin import sign_in
from access.admin.login import may_use_password
from access.logins import passkeys, second_factors, security_log, sessions
from access.models import SecondFactor
from access.trail import entries
from core.page_secrets import mark_secret

# Of the session: the secret of an app that is about to be added.
NEW_APP = "new_app"

Context = dict[str, Any]
AccountView = Callable[..., HttpResponse]


class AppForm(forms.Form):
    """A code of the app that is about to be added, which shows that the app has the secret."""

    name = forms.CharField(max_length=100, initial="Phone", help_text="To tell several apart.")
    code = forms.CharField(
        max_length=10,
        help_text="The six digits that the app shows now.",
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric"}),
    )

    def __init__(self, secret: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._secret = secret
        self.step = 0

    def clean_code(self) -> str:
        code: str = self.cleaned_data["code"]
        step = second_factors.matching_step(self._secret, code, timezone.now())
        if step is None:
            raise forms.ValidationError(
                "This is not the code that the app should show now. Compare the clocks of the "
                "phone and of this computer, and enter the next code."
            )
        self.step = step
        return code


class PasskeyForm(forms.Form):
    name = forms.CharField(
        max_length=100, initial="Passkey", help_text="For example, the device that has it."
    )
    credential = forms.CharField(widget=forms.HiddenInput, max_length=passkeys.MAX_RESPONSE)


def _login(request: HttpRequest) -> AdminUser:
    assert isinstance(request.user, AdminUser), "The pages are for people who are signed in."
    return request.user


def _record(request: HttpRequest, event: str, note: str) -> None:
    """Write a change of how the person signs in into the log and the trail."""
    login = _login(request)
    security_log.log_factor_changed(request, event, login.get_username())
    entries.record(
        entries.actor_of(request),
        entries.Action.CHANGED,
        "login",
        object_id=login.pk,
        name=login.get_username(),
        note=note,
    )


def needs_fresh_sign_in(view: AccountView) -> AccountView:
    """Ask for the password again before the view, unless that was minutes ago."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any) -> HttpResponse:
        if sessions.is_fresh(request, timezone.now()):
            return view(request, *args)
        return redirect(sign_in.sign_in_again_url(request))

    return checked


def account_view(request: HttpRequest, frame: Context, **more: Any) -> HttpResponse:
    """The page with everything about signing in."""
    login, now = _login(request), timezone.now()
    context = {
        **frame,
        "title": "Your account",
        "factors": second_factors.factors(login),
        "codes_left": second_factors.recovery_codes_left(login),
        "is_required": second_factors.is_required(login),
        "sessions": sessions.live_sessions(login, now),
        "this_session": sessions.digest(request.session.session_key),
        "may_change_password": login.has_usable_password() and may_use_password(login),
        "connect_url": sign_in.connect_url(login),
        "provider": settings.OIDC.get("name", ""),
        "passkey_problem": passkeys.host_problem(request),
        **more,
    }
    return TemplateResponse(request, "admin/engagement/account.html", context)


# --- Second factors -------------------------------------------------------------------------------


@needs_fresh_sign_in
def add_app_view(request: HttpRequest, frame: Context) -> HttpResponse:
    """Show the secret as a picture, and add the app once it shows a right code."""
    login = _login(request)
    if _has_too_many(request, login):
        return redirect("admin:account")
    secret = request.session.get(NEW_APP)
    if request.method != "POST" or not secret:
        secret = request.session[NEW_APP] = second_factors.new_app_secret()
    form = AppForm(secret, request.POST or None)
    if request.method == "POST" and form.is_valid():
        del request.session[NEW_APP]
        now = timezone.now()
        second_factors.add_app(login, form.cleaned_data["name"], secret, form.step, now)
        return _added(request, frame, SecondFactor.Kind.APP)
    mark_secret(request)
    context = {
        **frame,
        "title": "Add an authenticator app",
        "form": form,
        "secret": secret,
        "picture": mark_safe(second_factors.app_picture(second_factors.app_uri(login, secret))),
    }
    return TemplateResponse(request, "admin/engagement/add_app.html", context)


@needs_fresh_sign_in
def add_passkey_view(request: HttpRequest, frame: Context) -> HttpResponse:
    """Add the passkey that the browser makes."""
    login = _login(request)
    if problem := passkeys.host_problem(request):
        messages.error(request, problem)
        return redirect("admin:account")
    if _has_too_many(request, login):
        return redirect("admin:account")
    form = PasskeyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        state = request.session.pop(sign_in.PASSKEY_STATE, None)
        data = form.cleaned_data
        try:
            passkeys.finish_registration(
                request, login, state, data["credential"], data["name"], timezone.now()
            )
        except passkeys.PasskeyRefused as refused:
            form.add_error(None, str(refused))
        else:
            return _added(request, frame, SecondFactor.Kind.PASSKEY)
    options, request.session[sign_in.PASSKEY_STATE] = passkeys.begin_registration(request, login)
    context = {**frame, "title": "Add a passkey", "form": form, "options": options}
    return TemplateResponse(request, "admin/engagement/add_passkey.html", context)


def _has_too_many(request: HttpRequest, login: AdminUser) -> bool:
    if len(second_factors.factors(login)) < second_factors.MAX_FACTORS:
        return False
    messages.error(
        request, f"You have {second_factors.MAX_FACTORS} second factors. Remove one first."
    )
    return True


def _added(request: HttpRequest, frame: Context, kind: SecondFactor.Kind) -> HttpResponse:
    """The session has shown the new factor. The first one comes with recovery codes."""
    login = _login(request)
    request.session[sessions.HAS_SECOND_FACTOR] = True
    _record(request, "second_factor_added", f"Added a second factor: {kind.label}.")
    messages.success(request, f"{kind.label} added. You are asked for it when you sign in.")
    if second_factors.recovery_codes_left(login):
        return redirect("admin:account")
    return _show_new_codes(request, frame)


@needs_fresh_sign_in
@require_POST
def recovery_codes_view(request: HttpRequest, frame: Context) -> HttpResponse:
    """Make new recovery codes, and show them once."""
    if not second_factors.has_factor(_login(request)):
        messages.error(request, "Add an authenticator app or a passkey first.")
        return redirect("admin:account")
    return _show_new_codes(request, frame)


def _show_new_codes(request: HttpRequest, frame: Context) -> HttpResponse:
    login = _login(request)
    codes = second_factors.new_recovery_codes(login)
    _record(request, "recovery_codes_made", "Made new recovery codes.")
    mark_secret(request)
    context = {**frame, "title": "Recovery codes", "codes": codes}
    return TemplateResponse(request, "admin/engagement/recovery_codes.html", context)


@needs_fresh_sign_in
@require_POST
def remove_factor_view(request: HttpRequest, frame: Context, factor_id: int) -> HttpResponse:
    login = _login(request)
    if second_factors.is_required(login) and len(second_factors.factors(login)) == 1:
        messages.error(
            request,
            "Your login must have a second factor. Add another one before you remove this one.",
        )
        return redirect("admin:account")
    name = second_factors.remove(login, factor_id)
    if name is not None:
        _record(request, "second_factor_removed", f"Removed a second factor: {name}.")
        messages.success(request, f"{name} removed. You can also end your other sessions below.")
    return redirect("admin:account")


# --- Sessions -------------------------------------------------------------------------------------


@needs_fresh_sign_in
@require_POST
def end_session_view(request: HttpRequest, frame: Context) -> HttpResponse:
    """End one of the person's sessions, or all but this one."""
    login = _login(request)
    session_key = request.POST.get("session", "")
    if session_key:
        number = sessions.end(login, session_key)
    else:
        number = sessions.end_all(login, keep=request.session.session_key)
    if number:
        _record(request, "sessions_ended", f"Ended {number} of the sessions.")
    messages.success(request, f"{number} session{'' if number == 1 else 's'} ended.")
    return redirect("admin:account")


class ChangePasswordView(PasswordChangeView):
    """Django's view. A new password ends all other sessions."""

    def form_valid(self, form: Any) -> HttpResponse:
        request, before = self.request, self.request.session.session_key
        response = super().form_valid(form)
        request.session.save()
        sessions.replace_key(before, request.session.session_key)
        sessions.end_all(_login(request), keep=request.session.session_key)
        _record(request, "password_changed", "Changed the password.")
        return response


def account_urls(wrap: Callable[[AccountView], Any]) -> list[URLPattern]:
    """The URLs. *wrap* adds the check of the login and the frame of the admin's pages."""
    views: list[tuple[str, str, AccountView]] = [
        ("account/", "account", account_view),
        ("account/apps/add/", "account_add_app", sensitive_post_parameters()(add_app_view)),
        ("account/passkeys/add/", "account_add_passkey", add_passkey_view),
        ("account/recovery-codes/", "account_recovery_codes", recovery_codes_view),
        ("account/factors/<int:factor_id>/remove/", "account_remove_factor", remove_factor_view),
        ("account/sessions/end/", "account_end_session", end_session_view),
    ]
    return [path(route, wrap(view), name=name) for route, name, view in views]
