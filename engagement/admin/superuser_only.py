"""Logins concern the whole service, so only superusers see them."""

from copy import copy
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.contrib.auth.models import User as AdminUser
from django.db.models import Model
from django.forms import Media
from django.http import HttpRequest
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)

from engagement.admin.lookups import BoundedLookups
from engagement.admin.scoping import RelativeTime, SuperusersOnly, without_slug_scripts

# Memberships decide who may do what, so groups and permissions would only mislead. The page of
# background jobs shows the schedule: one wrong click in Celery Beat's lists would stop recording
# for every product.
HIDDEN_MODELS: list[type[Model]] = [
    Group,
    PeriodicTask,
    IntervalSchedule,
    CrontabSchedule,
    SolarSchedule,
    ClockedSchedule,
]


class LoginChangeList(ChangeList):
    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        self.opts = self.model_admin.opts


class LoginAdmin(SuperusersOnly, BoundedLookups, UserAdmin):  # type: ignore[type-arg]
    """People who log in to the admin. "Users" are the customers' users."""

    actions = None
    list_display = (
        *("username", "email", "first_name", "last_name", "is_superuser"),
        RelativeTime(AdminUser._meta.get_field("last_login")),
    )
    list_filter = ("is_superuser", "is_active")
    filter_horizontal = ()
    readonly_fields = ("last_login", "date_joined")
    fieldsets: ClassVar[Any] = (
        (None, {"fields": ("username", "password")}),
        ("Person", {"fields": ("first_name", "last_name", "email")}),
        (
            "Access",
            {
                "fields": ("is_active", "is_staff", "is_superuser"),
                "description": "Staff see the products that they are members of. A product's page "
                "has its members.",
            },
        ),
        ("Times", {"fields": ("last_login", "date_joined")}),
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # Only here: as a change of the model it would need a migration of Django's app.
        self.opts = copy(self.opts)
        self.opts.verbose_name, self.opts.verbose_name_plural = "login", "logins"

    @property
    def media(self) -> Media:
        return without_slug_scripts(super().media)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return LoginChangeList


def restrict_to_superusers() -> None:
    """Replace Django's and Celery Beat's admins of what concerns the whole service."""
    admin.site.unregister([*HIDDEN_MODELS, AdminUser])
    admin.site.register(AdminUser, LoginAdmin)
