"""Who is signed in: by a trusted proxy, with the required second factor, in which session."""

from collections.abc import Callable
from ipaddress import ip_address

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import User as AdminUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from config.sign_in import ProxySignOn
from engagement.admin import sign_in
from engagement.logins import second_factors, security_log, sessions
from engagement.models import LoginSession

# Pages that have logins. Others know nobody.
PREFIXES = ("/admin/", "/invite/")


class SignInMiddleware:
    """Signs in who comes through the proxy, and asks for the second factor that is required."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith(PREFIXES):
            return self.get_response(request)
        if settings.PROXY_SIGN_ON:
            refused = _sign_on_by_proxy(request, settings.PROXY_SIGN_ON)
            if refused is not None:
                return refused
        if sessions.is_over(request, timezone.now()):
            auth.logout(request)
        if isinstance(request.user, AdminUser):
            if not sessions.register_use(request, timezone.now()):
                auth.logout(request)
            elif settings.SECOND_FACTOR != "optional":
                step = _missing_step(request, request.user)
                if step is not None:
                    return step
        response = self.get_response(request)
        if response.status_code == 403 and isinstance(request.user, AdminUser):
            security_log.log_page_refused(request, request.user.get_username())
        return response


def _sign_on_by_proxy(request: HttpRequest, proxy: ProxySignOn) -> HttpResponse | None:
    """Follow the header of a trusted proxy, and forget it from everybody else."""
    name = request.META.get(proxy.header, "").strip()
    groups = request.META.get(proxy.groups_header) if proxy.groups_header else None
    if not _is_trusted(request, proxy):
        for header in (proxy.header, proxy.groups_header):
            request.META.pop(header, None)
        name, groups = "", None
    is_by_proxy = request.session.get(sessions.METHOD) == LoginSession.Method.PROXY
    if not name:
        # Signed out at the proxy, or past it.
        if is_by_proxy:
            auth.logout(request)
        return None
    if is_by_proxy and request.user.is_authenticated and request.session.get("proxy_name") == name:
        return None
    return sign_in.sign_on_by_proxy(request, name, groups)


def _is_trusted(request: HttpRequest, proxy: ProxySignOn) -> bool:
    """Whether the request comes from the proxy: its connection, not what a header says."""
    try:
        address = ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    return any(address in network for network in proxy.networks)


def _missing_step(request: HttpRequest, login: AdminUser) -> HttpResponse | None:
    """Where to go first, if the login needs a second factor that this session has not."""
    if request.session.get(sessions.HAS_SECOND_FACTOR):
        return None
    if request.path_info in sign_in.paths_without_second_factor(request):
        return None
    if not second_factors.is_required(login):
        return None
    if second_factors.has_factor(login):
        # Its session began before the factor, or the requirement.
        return redirect(sign_in.sign_in_again_url(request))
    return None if sign_in.is_setting_up(request) else redirect("admin:account")
