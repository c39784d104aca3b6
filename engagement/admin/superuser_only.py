"""Logins, groups, and the schedule concern the whole service, so only superusers see them."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group
from django.contrib.auth.models import User as AdminUser
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)

from engagement.admin.lookups import BoundedLookups, ModelAdmin
from engagement.admin.scoping import ReadOnly, SuperusersOnly

# Types of schedules. A task's page says when it runs.
HIDDEN_MODELS: list[type[Model]] = [
    IntervalSchedule,
    CrontabSchedule,
    SolarSchedule,
    ClockedSchedule,
]
# Read-only: one wrong click in the list of tasks would stop recording for every product.
TASK_ADMIN_OPTIONS: dict[str, Any] = {
    "actions": None,
    # Celery Beat's template has an inline script, which the content security policy forbids. The
    # script describes a crontab in words, which a field of the page does, too.
    "change_form_template": "admin/change_form.html",
    "list_display": ["name", "enabled", "scheduler", "last_run_at", "total_run_count"],
    "list_filter": ["enabled", "task"],
    "date_hierarchy": None,
}


class LoginList(ModelAdmin):
    """Titles the list "Logins", because users are the customers' users."""

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return super().changelist_view(request, {**(extra_context or {}), "title": "Logins"})


def restrict_to_superusers() -> None:
    """Register each of these models again, with its admin limited to superusers."""
    for model in HIDDEN_MODELS:
        admin.site.unregister(model)
    _register_again(AdminUser, (LoginList, SuperusersOnly, BoundedLookups), {})
    _register_again(Group, (SuperusersOnly, BoundedLookups), {})
    _register_again(PeriodicTask, (ReadOnly, SuperusersOnly, BoundedLookups), TASK_ADMIN_OPTIONS)


def _register_again(model: type[Model], mixins: tuple[type, ...], options: dict[str, Any]) -> None:
    original = type(admin.site.get_model_admin(model))
    admin.site.unregister(model)
    admin.site.register(model, type(f"Closed{original.__name__}", (*mixins, original), options))
