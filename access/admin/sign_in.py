"""Signing in: with a password and a second factor, or at an identity provider."""

import logging
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import lru_cache, partial
from smtplib import SMTPException
from typing import Any

from django.conf import settings
from django.contrib import admin, auth, messages
from django.contrib.auth import signals
from django.contrib.auth.models import User as AdminUser
from django.contrib.auth.views import LoginView
from django.core import signing
from django.core.mail import send_mail
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache

from access.admin.login import LoginForm, format_wait
from access.logins import (
    identities,
    invites,
    oidc,
    passkeys,
    roles,
    second_factors,
    security_log,
    sessions,
    throttle,
)
from access.models import LoginSession
from access.trail import entries, sign_ins

logger = logging.getLogger(__name__)

BACKEND = "django.contrib.auth.backends.ModelBackend"
# Of the session: a password that was right.
PENDING = "pending_sign_in"
# A request to the provider is in a signed cookie: anybody can begin one, and a session each would
# fill the table.
PROVIDER_COOKIE = "__Host-eds-sign-on" if settings.HTTPS else "eds-sign-on"
PASSKEY_STATE = "passkey_state"
# How long a person may take for the second step.
PATIENCE = timedelta(minutes=10)
INVITE = "invite"


# --- With a password ------------------------------------------------------------------------------


class SignInView(LoginView):
    """Django's view, which continues with the second factor."""

    authentication_form = LoginForm
    template_name = "admin/login.html"

    def get_initial(self) -> dict[str, Any]:
        name = self.request.user.get_username() if is_again(self.request) else ""
        return {**super().get_initial(), **({"username": name} if name else {})}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), **_ways_in(self.request)}

    def form_valid(self, form: Any) -> HttpResponse:
        login = form.get_user()
        if second_factors.has_factor(login):
            self.request.session[PENDING] = {
                "login": login.pk,
                "hash": login.get_session_auth_hash(),
                "at": timezone.now().timestamp(),
                "next": self.get_success_url(),
            }
            return redirect("admin:second_factor")
        start_session(self.request, login, LoginSession.Method.PASSWORD, has_factor=False)
        return redirect(self.get_success_url())


def is_again(request: HttpRequest) -> bool:
    """Whether somebody who is signed in shall show again that it is them."""
    return "again" in request.GET and request.user.is_authenticated


def sign_in_again_url(request: HttpRequest) -> str:
    """The address at which the person signs in again, and comes back to this page."""
    back = request.get_full_path() if request.method == "GET" else reverse("admin:account")
    return f"{reverse('admin:login')}?{urlencode({'again': '1', 'next': back})}"


def start_session(request: HttpRequest, login: AdminUser, method: str, *, has_factor: bool) -> None:
    """Sign in. The session gets another key."""
    sessions.set_method(request, method)
    before = request.session.session_key
    auth.login(request, login, backend=BACKEND)
    sessions.forget_key(before, request.session.session_key)
    for key in (PENDING, PASSKEY_STATE, sessions.HAS_SECOND_FACTOR):
        request.session.pop(key, None)
    if has_factor:
        request.session[sessions.HAS_SECOND_FACTOR] = True


def _ways_in(request: HttpRequest) -> dict[str, Any]:
    """What the page of the password also offers."""
    following = _safe_next(request, request.GET.get("next", ""))
    query = {"next": following} | ({"again": "1"} if is_again(request) else {})
    provider = settings.OIDC.get("name", "")
    return {
        "provider": provider,
        "provider_url": f"{reverse('admin:single_sign_on')}?{urlencode(query)}" if provider else "",
        "has_passwords": settings.LOCAL_PASSWORDS,
        "break_glass": settings.BREAK_GLASS_LOGIN,
        "is_again": is_again(request),
    }


def connect_url(login: AdminUser) -> str:
    """Where the person connects their login with single sign-on; empty if they cannot or need
    not."""
    has_password = settings.LOCAL_PASSWORDS and login.has_usable_password()
    issuer = settings.OIDC.get("issuer")
    if not issuer or not has_password or not login.email or identities.is_connected(login, issuer):
        return ""
    query = {"connect": "1", "next": reverse("admin:account")}
    return f"{reverse('admin:single_sign_on')}?{urlencode(query)}"


def _safe_next(request: HttpRequest, url: str) -> str:
    is_safe = url_has_allowed_host_and_scheme(
        url, {request.get_host()}, require_https=request.is_secure()
    )
    return url if url and is_safe else reverse("admin:index")


# --- The second factor ----------------------------------------------------------------------------


@never_cache
def second_factor_view(request: HttpRequest) -> HttpResponse:
    """Ask for a code or a passkey, after a password that was right."""
    pending = request.session.get(PENDING) or {}
    login = _pending_login(pending)
    if login is None:
        return redirect("admin:login")
    problem = ""
    if request.method == "POST":
        problem, failures = _check_factor(request, login)
        if not problem:
            start_session(request, login, LoginSession.Method.PASSWORD, has_factor=True)
            _tell_of_failures(request, failures - pending.get("failures", 0))
            return redirect(pending["next"])
        # What the person did here is no news to them.
        request.session[PENDING] = {**pending, "failures": pending.get("failures", 0) + failures}
    challenge = None if passkeys.host_problem(request) else passkeys.begin_proof(request, login)
    options, request.session[PASSKEY_STATE] = challenge or (None, None)
    context = {"options": options, "problem": problem, "login": login}
    return _page(request, "admin/engagement/second_factor.html", "Second factor", context)


def _pending_login(pending: Mapping[str, Any]) -> AdminUser | None:
    """The login whose password was right a short time ago, and is still the same."""
    if "at" not in pending or timezone.now().timestamp() - pending["at"] > PATIENCE.total_seconds():
        return None
    login = AdminUser.objects.filter(pk=pending["login"], is_active=True, is_staff=True).first()
    if login is None or not constant_time_compare(login.get_session_auth_hash(), pending["hash"]):
        return None
    return login


def _check_factor(request: HttpRequest, login: AdminUser) -> tuple[str, int]:
    """Use up the code or the passkey of the form. Returns what is wrong with it, and the number of
    failures: of this attempt, or if it is right, of all since the last one that was."""
    now = timezone.now()
    attempt = second_factors.CodeAttempt(login.get_username(), "")
    if wait := throttle.register_attempt(attempt, now):
        security_log.log_sign_in_throttled(request, login.get_username())
        return f"Too many wrong codes. Try again in {format_wait(wait)}.", 0
    if "credential" in request.POST:
        state = request.session.pop(PASSKEY_STATE, None)
        is_right = passkeys.use_passkey(request, login, state, request.POST["credential"], now)
        problem = "The passkey was not accepted. Try again, or use a code."
    else:
        is_right = second_factors.use_code(login, request.POST.get("code", ""), now)
        problem = (
            "The code is not right, or was used before. Wait for the next one. If codes never "
            "work, set the clock of your phone."
        )
    if not is_right:
        _signal_failure(request, login.get_username())
        security_log.log_sign_in_failed(request, login.get_username())
        if throttle.count_failures(attempt, now) == second_factors.CODES.free:
            _warn_by_email(request, login)
        return problem, 1
    return "", throttle.register_success(attempt, now)


def _tell_of_failures(request: HttpRequest, failures: int) -> None:
    """Tell the person of codes that others entered."""
    if failures > 0:
        codes = "1 wrong code was" if failures == 1 else f"{failures:,} wrong codes were"
        messages.warning(
            request,
            f"Since you last signed in, {codes} entered after your password. If that was not you, "
            "somebody knows your password: change it.",
        )


def _warn_by_email(request: HttpRequest, login: AdminUser) -> None:
    """Warn the login's person of somebody who has their password and guesses codes."""
    if not settings.HAS_EMAIL or not login.email:
        return
    text = (
        f"Somebody entered the password of your login {login} at {request.get_host()}, and then "
        f"{second_factors.CODES.free} wrong codes. Further attempts have to wait.\n\n"
        "If that was not you, change your password: Your account, at the top of each page.\n"
    )
    try:
        send_mail("Wrong codes at your login", text, settings.DEFAULT_FROM_EMAIL, [login.email])
    except (SMTPException, OSError) as error:
        logger.warning("A warning of wrong codes could not be sent: %s", type(error).__name__)


# --- At the identity provider ---------------------------------------------------------------------


@lru_cache(maxsize=4)
def _provider(provider_settings: tuple[tuple[str, Any], ...]) -> oidc.Provider:
    return oidc.Provider(oidc.ProviderSettings(**dict(provider_settings)))


def provider() -> oidc.Provider:
    """The provider of the settings. A process keeps what it read from it."""
    values = {**settings.OIDC, "ca_bundle": settings.MARKETPLACE_CA_BUNDLE}
    values["proxies"] = tuple(sorted(values["proxies"].items()))
    return _provider(tuple(sorted(values.items())))


def policy(request: HttpRequest) -> identities.SignOnPolicy:
    mapping = {
        group: [roles.MappedRole(role, product) for role, product in targets]
        for group, targets in settings.SSO_GROUPS.items()
    }
    record = partial(_record_in_trail, request)
    return identities.SignOnPolicy(settings.SSO_CREATES_LOGINS, mapping, record)


def _record_in_trail(
    request: HttpRequest, login: AdminUser, event: identities.SignOnEvent | roles.RoleChange
) -> None:
    """A login that was made or connected, or a role that a group gave or took."""
    actor = entries.actor_of(request, login)
    about: dict[str, Any] = {"object_id": login.pk, "name": login.get_username()}
    if isinstance(event, identities.SignOnEvent):
        is_new = event is identities.SignOnEvent.MADE
        action = entries.Action.ADDED if is_new else entries.Action.CHANGED
        entries.record(actor, action, "login", note=event, **about)
        if not is_new:
            name = login.get_username()
            security_log.log_factor_changed(request, "single_sign_on_connected", name)
        return
    entries.record(
        actor,
        entries.Action.CHANGED,
        "member" if event.product_id else "login",
        product_id=event.product_id,
        note="By the groups at the identity provider.",
        changes={"role": [event.before, event.after]},
        **about,
    )


@never_cache
def single_sign_on_view(request: HttpRequest) -> HttpResponse:
    """Send the browser to the identity provider."""
    # Another site may lead to the page with the button, but not sign anybody in.
    if not settings.OIDC or request.headers.get("Sec-Fetch-Site") == "cross-site":
        return redirect("admin:login")
    connects = "connect" in request.GET and request.user.is_authenticated
    if connects and not sessions.is_fresh(request, timezone.now()):
        return redirect(sign_in_again_url(request))
    since = timezone.now().timestamp() if is_again(request) else None
    try:
        url, pending = provider().begin(_callback_url(request), fresh_since=since)
    except oidc.SignInRefused as refused:
        return _refuse(request, refused)
    following = _safe_next(request, request.GET.get("next", ""))
    stored = {"request": asdict(pending), "next": following, "connects": connects}
    response = redirect(url)
    response.set_cookie(
        PROVIDER_COOKIE,
        signing.dumps(stored, salt=PROVIDER_COOKIE),
        max_age=PATIENCE,
        secure=settings.HTTPS,
        httponly=True,
        samesite="Lax",
    )
    return response


@never_cache
def provider_callback_view(request: HttpRequest) -> HttpResponse:
    """The person comes back from the identity provider."""
    if not settings.OIDC:
        return redirect("admin:login")
    response = _come_back(request)
    # Used once, whatever comes of it.
    response.delete_cookie(PROVIDER_COOKIE, samesite="Lax")
    return response


def _come_back(request: HttpRequest) -> HttpResponse:
    try:
        stored = signing.loads(
            request.COOKIES.get(PROVIDER_COOKIE, ""), salt=PROVIDER_COOKIE, max_age=PATIENCE
        )
    except signing.BadSignature:
        text = "The sign-in took too long, or began in another browser. Start again."
        return _refuse(request, oidc.SignInRefused("no sign-in", text))
    try:
        pending = oidc.PendingSignIn(**stored["request"])
        claims = provider().finish(request.GET.dict(), _callback_url(request), pending)
        if not throttle.use_up(f"request {pending.state}", timezone.now(), PATIENCE):
            raise oidc.SignInRefused("no sign-in", "This sign-in was used before. Start again.")
        login = identities.sign_on(
            claims,
            policy(request),
            is_invited=_is_invited(request),
            connecting=_connecting(request) if stored.get("connects") else None,
        )
    except identities.AddressTaken as refused:
        sign_ins.record_taken_address(request, refused.login)
        return _refuse(request, refused, refused.login.get_username())
    except oidc.SignInRefused as refused:
        return _refuse(request, refused)
    # The provider asked for as many factors as its administrators want.
    start_session(request, login, LoginSession.Method.PROVIDER, has_factor=True)
    return redirect(stored["next"])


def _callback_url(request: HttpRequest) -> str:
    return request.build_absolute_uri(reverse("admin:single_sign_on_callback"))


def _connecting(request: HttpRequest) -> AdminUser | None:
    """The login that the person has just shown to be theirs."""
    is_fresh = sessions.is_fresh(request, timezone.now())
    return request.user if is_fresh and isinstance(request.user, AdminUser) else None


def _is_invited(request: HttpRequest) -> bool:
    """Whether the browser has opened an invite that still works."""
    stored = request.session.get(INVITE)
    if not stored:
        return False
    return invites.open_invites(timezone.now()).filter(pk=stored, login=None).exists()


def _refuse(request: HttpRequest, refused: oidc.SignInRefused, login: str = "") -> HttpResponse:
    """The page of a refusal, which the log has with its reason and the *login* it is about."""
    _signal_failure(request, "")
    security_log.log_single_sign_on_refused(request, refused.reason, login)
    context = {"text": str(refused)}
    return _page(request, "admin/engagement/sign_in_refusal.html", "Not signed in", context, 403)


def _signal_failure(request: HttpRequest, name: str) -> None:
    """Django sends this for wrong passwords itself."""
    signals.user_login_failed.send(__name__, credentials={"username": name}, request=request)


# --- What is open before the second factor --------------------------------------------------------


def paths_without_second_factor(request: HttpRequest) -> set[str]:
    names = ("login", "logout", "second_factor", "single_sign_on", "single_sign_on_callback")
    return {reverse(f"admin:{name}") for name in (*names, "jsi18n")}


def is_setting_up(request: HttpRequest) -> bool:
    """Whether the request is for the pages on which a login gets its first factor."""
    return request.path_info.startswith(reverse("admin:account"))


def _page(
    request: HttpRequest, template: str, title: str, context: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    frame = {
        "site_header": admin.site.site_header,
        "site_title": admin.site.site_title,
        "title": title,
    }
    return render(request, template, {**frame, **context}, status=status)
