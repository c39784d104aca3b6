"""The admin's login form, which throttles failed attempts."""

from datetime import timedelta
from math import ceil
from typing import Any

from django.conf import settings
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.models import User as AdminUser
from django.core.exceptions import ValidationError
from django.utils import timezone

from access.logins import security_log, throttle
from access.logins.security_log import client_address


class LoginForm(AdminAuthenticationForm):
    def clean(self) -> dict[str, Any]:
        name = self.cleaned_data.get("username")
        if not name or not self.cleaned_data.get("password"):
            return super().clean()
        if not settings.LOCAL_PASSWORDS and name != settings.BREAK_GLASS_LOGIN:
            raise ValidationError(
                "Passwords are turned off. Log in with single sign-on.", code="passwords_off"
            )
        attempt = throttle.SignInAttempt(name, client_address(self.request))
        wait = throttle.register_attempt(attempt, timezone.now())
        if wait:
            security_log.log_sign_in_throttled(self.request, name)
            message = f"Too many failed attempts to log in. Try again in {format_wait(wait)}."
            raise ValidationError(message, code="too_many_attempts")
        # If the password is wrong this raises, and the attempt still counts as failed.
        try:
            cleaned_data = super().clean()
        except ValidationError:
            security_log.log_sign_in_failed(self.request, name)
            raise
        throttle.register_success(attempt, timezone.now())
        return cleaned_data


def may_use_password(login: AdminUser) -> bool:
    return settings.LOCAL_PASSWORDS or login.get_username() == settings.BREAK_GLASS_LOGIN


def format_wait(wait: timedelta) -> str:
    """The wait in seconds or minutes, rounded up."""
    seconds = ceil(wait.total_seconds())
    if seconds < 60:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    minutes = ceil(seconds / 60)
    return f"{minutes} minute{'' if minutes == 1 else 's'}"
