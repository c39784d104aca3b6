"""Who is signed in: with the required second factor, in which session."""

from collections.abc import Callable

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import User as AdminUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from access.admin import sign_in
from access.logins import second_factors, security_log, sessions

# Pages that have logins. Others know nobody.
PREFIXES = ("/admin/", "/invite/")


class SignInMiddleware:
    """Ends sessions that are over, and asks for the second factor that is required."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith(PREFIXES):
            return self.get_response(request)
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
