"""Logins, groups and the schedule concern the whole service: they are for superusers only."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group
from django.contrib.auth.models import User as AdminUser
from django.db.models import Model
from django_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)

from engagement.admin.lookups import BoundedLookups
from engagement.admin.scoping import ReadOnly, SuperusersOnly

EDITABLE_MODELS: list[type[Model]] = [AdminUser, Group]
# Kinds of schedules: a task's own page says when it runs.
HIDDEN_MODELS: list[type[Model]] = [
    IntervalSchedule,
    CrontabSchedule,
    SolarSchedule,
    ClockedSchedule,
]
# One wrong click in the list of tasks would stop recording for everybody, so they are for looking.
TASK_ADMIN_OPTIONS: dict[str, Any] = {
    "actions": None,
    # Its own template has a script in it, which the content security policy forbids. All that it
    # does is to say a crontab in words, as a field of the page does.
    "change_form_template": "admin/change_form.html",
    "list_display": ["name", "enabled", "scheduler", "last_run_at", "total_run_count"],
    "list_filter": ["enabled", "task"],
    "date_hierarchy": None,
}


def restrict_to_superusers() -> None:
    """Register each of these models again, with the admin it has, for superusers only."""
    for model in HIDDEN_MODELS:
        admin.site.unregister(model)
    for model in EDITABLE_MODELS:
        _register_again(model, (SuperusersOnly, BoundedLookups), {})
    _register_again(PeriodicTask, (ReadOnly, SuperusersOnly, BoundedLookups), TASK_ADMIN_OPTIONS)


def _register_again(
    model: type[Model], in_front: tuple[type, ...], options: dict[str, Any]
) -> None:
    ordinary = type(admin.site.get_model_admin(model))
    admin.site.unregister(model)
    admin.site.register(model, type(f"Closed{ordinary.__name__}", (*in_front, ordinary), options))
