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

from engagement.admin.scoping import SuperusersOnly

WHOLE_SERVICE: list[type[Model]] = [
    AdminUser,
    Group,
    PeriodicTask,
    IntervalSchedule,
    CrontabSchedule,
    SolarSchedule,
    ClockedSchedule,
]

OPTIONS: dict[type[Model], dict[str, Any]] = {
    # Its own page has a script in it, which the content security policy forbids. All that it does
    # is to say a crontab in words, as a field of the page does.
    PeriodicTask: {
        "change_form_template": "admin/change_form.html",
        "list_display": ["name", "enabled", "scheduler", "last_run_at", "total_run_count"],
        "list_filter": ["enabled", "task"],
        "date_hierarchy": None,
    },
}


def close_to_members() -> None:
    """Register each of these models again, with the admin it has, for superusers only."""
    for model in WHOLE_SERVICE:
        ordinary = type(admin.site.get_model_admin(model))
        admin.site.unregister(model)
        options = OPTIONS.get(model, {})
        closed = type(f"Closed{ordinary.__name__}", (SuperusersOnly, ordinary), options)
        admin.site.register(model, closed)
