"""The time zone in which a login sees times: the chosen one, the browser's, or UTC.

The chosen one is stored, and the session has a copy, so that no page needs a query for it. Another
session of the same login has it from its next sign-in on.
"""

from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.contrib.auth.models import User as AdminUser
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest

from access.models import LoginPreferences

SESSION_KEY = "time_zone"
# A script of the admin's pages sets it.
COOKIE = "__Host-eds-zone" if settings.HTTPS else "eds-zone"
# Names that people choose: "Etc/GMT-3" is east of Greenwich, and the rest are old aliases.
_REGIONS = (
    *("Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia"),
    *("Europe", "Indian", "Pacific"),
)


@lru_cache(maxsize=1)
def _available() -> frozenset[str]:
    return frozenset(available_timezones())


def is_time_zone(name: str) -> bool:
    return name in _available()


def offered_time_zones() -> dict[str, list[str]]:
    """The names of time zones by region, in alphabetical order."""
    by_region: dict[str, list[str]] = {region: [] for region in _REGIONS}
    for name in sorted(_available()):
        region = name.partition("/")[0]
        if region in by_region:
            by_region[region].append(name)
    return by_region


def current_time_zone(request: HttpRequest) -> ZoneInfo:
    """The time zone of the request's pages."""
    for name in (request.session.get(SESSION_KEY, ""), request.COOKIES.get(COOKIE, "")):
        if name and is_time_zone(name):
            return ZoneInfo(name)
    return ZoneInfo("UTC")


def choose_time_zone(request: HttpRequest, name: str) -> None:
    """Store the login's choice; an empty *name* is the browser's time zone."""
    assert request.user.pk is not None, "The page is for people who are logged in."
    LoginPreferences.objects.update_or_create(user_id=request.user.pk, defaults={"time_zone": name})
    request.session[SESSION_KEY] = name


def connect_signals() -> None:
    user_logged_in.connect(_load, dispatch_uid="time zone")


def _load(request: HttpRequest, user: AdminUser, **kwargs: Any) -> None:
    names = LoginPreferences.objects.filter(user=user).values_list("time_zone", flat=True)
    if name := names.first():
        request.session[SESSION_KEY] = name
